// Package parity compares the front ends: each change of an operator is made over
// REST, by the form of a page and by a command, on one node, and must have the same
// result, the same audit record and the same faults.
package parity

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/wire"
)

// change is a change of an operator, as each front end makes it.
type change struct {
	rest    *request
	page    func(*operator) *answer
	command *command
	// result is the path of REST with what the change results in, "" for none.
	result string
	want   fault // the zero fault: it succeeds
	// exit is the exit code of the command if it is not that of the fault.
	exit console.Code
	// lacks has the front ends that do not have the change, or not this mistake, each
	// with the reason.
	lacks texts
	// words are the texts of the front ends that describe this mistake in other words than REST.
	words texts
}

// scripts are run at one front end after the other. They make changes by o.change, and whatever a
// change needs by o.setUp before it.
var scripts = []struct {
	name string
	run  func(*operator)
}{
	{"entries", changeEntries}, {"imports", importEntries}, {"policies", changePolicies}, {"identities", changeIdentities}, {"keys", changeKeys},
	{"detection", changeDetection}, {"after a minute", changeAfterMinute}, {"operations", changeOperations},
}

func TestFrontEndsMakeTheSameChanges(t *testing.T) {
	n := startNode(t).node
	for _, by := range frontEnds { // known once the minute is over
		for host := range 12 {
			o := n.at(by, t)
			o.check("ip:"+o.address(broadNetwork, 100+host), 1)
		}
	}
	c, ran := &comparison{first: map[string]*outcome{}}, 0
	for _, s := range scripts {
		for _, by := range frontEnds {
			t.Run(s.name+" by "+string(by), func(t *testing.T) {
				o := n.at(by, t)
				o.comparison, ran = c, ran+1
				s.run(o)
			})
		}
	}
	if ran == len(scripts)*len(frontEnds) { // not only those of -run
		t.Run("each operation has a change", func(t *testing.T) { c.wantChanges(n.at(byREST, t)) })
	}
}

// unchanged are the operations other than GET that have no change here, each with the reason.
var unchanged = map[string]string{
	"check": asked, "checkBatch": asked, "reportOutcome": asked, "reportOutcomes": asked,
	"settleHold": asked, "releaseHold": asked, "extendHold": asked, "cancelReservation": asked,
	"previewBlock": shows, "planPolicies": shows, "explainDraft": shows, "tryPolicy": shows, "backtestPolicy": shows,
	"addBlockSource": pulls, "pullBlockSource": pulls, "agreeBlockSource": pulls, "removeBlockSource": pulls,
	"addGatewayToken": "it adds a token as addToken does; the tests of package adminui and of the command walk through Connect",
	"restore":         "it replaces everything that the other changes have made; no page does it",
}

const (
	asked = "an application or a gateway asks it, not an operator"
	shows = "it shows and changes nothing"
	pulls = "it pulls a list from another server; the tests of packages api, adminui and cli have one"
)

// comparison has what the changes of all scripts did.
type comparison struct {
	first map[string]*outcome // by the name of the change, of the first front end that made it
	sent  []*request          // of the changes by REST that succeed
}

// wantChanges fails for each operation of the REST API that may change something and has neither a
// change that succeeds nor a reason.
func (c *comparison) wantChanges(o *operator) {
	type operation struct {
		ID string `json:"operationId"`
	}
	var document struct {
		Paths map[string]struct{ Post, Put, Patch, Delete operation }
	}
	must(o.t, json.Unmarshal([]byte(o.get("/openapi.json").body), &document))
	member := regexp.MustCompile(`\{[^}]+\}`)
	for path, is := range document.Paths {
		pattern := regexp.MustCompile("^" + member.ReplaceAllString(path, "[^/]+") + `(\?.*)?$`)
		for method, id := range map[string]string{"POST": is.Post.ID, "PUT": is.Put.ID, "PATCH": is.Patch.ID, "DELETE": is.Delete.ID} {
			hasChange := slices.ContainsFunc(c.sent, func(r *request) bool { return r.method == method && pattern.MatchString(r.path) })
			if id != "" && hasChange == (unchanged[id] != "") {
				o.t.Errorf("%s, %s %s: it needs either a change that succeeds or a reason", id, method, path)
			}
		}
	}
}

// change makes a change at the operator's front end, and compares what it did with what it did at
// the others.
func (o *operator) change(name string, c change) {
	o.t.Helper()
	if o.by == byREST && c.rest != nil && c.want == (fault{}) {
		o.sent = append(o.sent, c.rest)
	}
	makes := map[frontEnd]bool{byREST: c.rest != nil, byPage: c.page != nil, byCommand: c.command != nil}[o.by]
	if lacks := c.lacks[o.by] != ""; makes == lacks {
		o.t.Errorf("%s: %s needs either a way to make it or a reason", name, o.by)
	}
	if !makes {
		return
	}
	o.t.Run(name, func(t *testing.T) {
		by := *o
		by.t = t
		by.compare(name, &c)
	})
}

func (o *operator) compare(name string, c *change) {
	made := &outcome{by: o}
	first := cmp.Or(o.first[name], made)
	sentence := translate(first.fault, first.by, o)
	before, err := strconv.ParseFloat(o.get(wire.PathAudit+"?limit=1").member("id"), 64)
	must(o.t, err)
	switch o.by {
	case byREST:
		made.fault = o.changeByREST(c)
	case byPage:
		o.changeByPage(c, cmp.Or(c.words[byPage], sentence))
	case byCommand:
		o.changeByCommand(c, cmp.Or(c.words[byCommand], sentence))
	}
	made.records = o.recordsSince(before, first.by)
	if (c.want == fault{}) != (len(made.records) > 0) {
		o.t.Errorf("%d audit records; a change has some, and a refused one none: %s", len(made.records), made.records)
	}
	if c.result != "" {
		made.result = o.normalize(o.get(c.result).body, first.by)
	}
	if made.result != first.result || !slices.Equal(made.records, first.records) {
		o.t.Errorf("%s differs from %s:\n%s\n%s", o.by, first.by.by, made, first)
	}
	o.first[name] = first
}

// outcome is what a change did at a front end.
type outcome struct {
	by    *operator
	fault string // the text of REST
	// The normalized result and audit records.
	result  string
	records []string
}

func (o *outcome) String() string { return "  " + o.result + "\n  " + strings.Join(o.records, "\n  ") }

// recordsSince returns the normalized audit records of the operator since another, the oldest first.
func (o *operator) recordsSince(id float64, in *operator) []string {
	o.t.Helper()
	var page struct{ Items []map[string]any }
	must(o.t, json.Unmarshal([]byte(o.get(wire.PathAudit+"?limit=20&actor="+operatorName).body), &page))
	var all []string
	for _, r := range page.Items {
		if r["id"].(float64) > id {
			delete(r, "actor")
			all = append(all, o.normalize(jsonOf(o.t, r), in))
		}
	}
	slices.Reverse(all)
	return all
}

// translate replaces the names, octets and ids of one operator by those of another.
func translate(text string, from, to *operator) string {
	pairs := []string{from.name, to.name, "." + from.octet, "." + to.octet, "asn:64" + from.octet, "asn:64" + to.octet}
	for i, id := range from.ids {
		pairs = append(pairs, id, to.ids[i])
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\berased:[0-9a-f]{16}`)

var numbers = regexp.MustCompile(`^\d+$`)

// normalize returns a JSON document as another operator would have it, without the parts that always
// differ: unknown ids, revisions and instants, of which the hours since the node started remain.
func (o *operator) normalize(document string, in *operator) string {
	o.t.Helper()
	var value any
	must(o.t, json.Unmarshal([]byte(document), &value))
	return jsonOf(o.t, o.normalized(value, "", in))
}

func (o *operator) normalized(value any, name string, in *operator) any {
	switch x := value.(type) {
	case map[string]any:
		for _, volatile := range []string{"revision", "etag", "hint", "last_used_at", "last_login_at", "request_id"} {
			delete(x, volatile)
		}
		for member, of := range x {
			x[member] = o.normalized(of, member, in)
		}
	case []any:
		for i := range x {
			x[i] = o.normalized(x[i], name, in)
		}
	case float64:
		if name == "id" {
			return "a number"
		}
	case string:
		x = instants.ReplaceAllStringFunc(x, func(text string) string {
			at, err := time.Parse(time.RFC3339, strings.NewReplacer(" UTC", ":00Z", " ", "T").Replace(text))
			must(o.t, err)
			return fmt.Sprintf("%+.0f hours", at.Sub(o.started).Round(time.Hour).Hours())
		})
		if name == "object_id" && numbers.MatchString(x) {
			return "a number"
		}
		return uuids.ReplaceAllStringFunc(translate(x, o, in), func(id string) string {
			if slices.Contains(in.ids, id) {
				return id
			}
			return "an id"
		})
	}
	return value
}
