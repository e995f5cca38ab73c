// Package parity compares the front ends: each change of an operator is made over
// REST, by the form of a page and by a command, on one node, and must have the same
// result, the same audit record and the same faults.
package parity

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/wire"
)

// change is a row of the tables: one change of an operator. Its texts may contain
// $N, the name of the front end, and $O, an octet of its own, so that the front ends
// do not meet; and the variables of its setup in braces.
type change struct {
	name  string
	setup []step
	rest  request
	pages []form // sent one after the other; {field:NAME} is a hidden field of the answer before
	cli   command
	// result is the resource of REST that the change results in, "" for none.
	result string
	want   fault // the zero fault: it succeeds
	// lacks has the front ends that do not have the change, or not this mistake, each
	// with the reason.
	lacks map[string]string
	// words are the texts of the front ends that describe this mistake differently, in addition to
	// than the sentence of the others.
	words map[string]string
}

// step prepares a change over REST, by another operator than the change's. The method CHECK
// makes a check of a key, TOTP has a user set up two-factor authentication.
type step struct {
	request
	keep string // NAME=PATH: keeps a member of the answer as a variable
	own  bool   // by the operator of the change
	// until is a text that the answer must have: the request is repeated until it has.
	until string
}

const (
	rest  = "rest"
	pages = "page"
	cmd   = "command"
)

var frontEnds = []string{rest, pages, cmd}

var octets = map[string]string{rest: "171", pages: "172", cmd: "173"}

func TestFrontEndsMakeTheSameChanges(t *testing.T) {
	n := startNode(t)
	for _, octet := range octets { // known once the minute is over
		n.checkMembers(t, broadRange+octet, 12)
	}
	changes := slices.Concat(entryChanges, bulkChanges, policyChanges, identityChanges, keyChanges, detectionChanges, lateChanges, operationChanges)
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) { n.compare(t, &c) })
	}
	t.Run("each operation has a change", func(t *testing.T) { n.wantChanges(t, changes) })
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

// wantChanges fails for each operation of the REST API that may change something and has neither a
// change that succeeds nor a reason.
func (n *node) wantChanges(t *testing.T, changes []change) {
	type operation struct {
		ID string `json:"operationId"`
	}
	var document struct {
		Paths map[string]struct{ Post, Put, Patch, Delete operation }
	}
	if err := json.Unmarshal([]byte(n.rest(t, request{"GET", "/openapi.json", ""}, bootstrapToken).body), &document); err != nil {
		t.Fatal(err)
	}
	member := regexp.MustCompile(`\{[^}]+\}`)
	for path, is := range document.Paths {
		pattern := regexp.MustCompile("^" + member.ReplaceAllString(path, "[^/]+") + `([ ?].*)?$`)
		for method, id := range map[string]string{"POST": is.Post.ID, "PUT": is.Put.ID, "PATCH": is.Patch.ID, "DELETE": is.Delete.ID} {
			hasChange := slices.ContainsFunc(changes, func(c change) bool {
				return c.rest.method == method && pattern.MatchString(c.rest.path) && c.want == (fault{})
			})
			if id != "" && hasChange == (unchanged[id] != "") {
				t.Errorf("%s, %s %s: it needs either a change that succeeds or a reason", id, method, path)
			}
		}
	}
}

// outcome is the result of a change by a front end, without the parts that always differ.
type outcome struct {
	Result  string
	Records []string
}

func (n *node) compare(t *testing.T, c *change) {
	var sentence string // of the fault
	var first *outcome
	for _, by := range frontEnds {
		if c.lacks[by] != "" {
			continue
		}
		v := &vars{front: by, of: map[string]string{"from": time.Now().UTC().Add(-time.Hour).Format(time.RFC3339)}}
		for _, s := range c.setup {
			n.prepare(t, v, s)
		}
		before := n.newestRecord(t)
		if answered := n.act(t, c, v, sentence); by == rest {
			sentence = answered
		}
		made := &outcome{Records: n.recordsSince(t, before, v)}
		if c.want != (fault{}) && len(made.Records) > 0 {
			t.Errorf("%s: a refused change has audit records: %s", by, made.Records)
		}
		if c.want == (fault{}) && len(made.Records) == 0 {
			t.Errorf("%s: the change has no audit record", by)
		}
		if c.result != "" {
			made.Result = v.normalize(t, n.rest(t, request{"GET", v.fill(c.result), ""}, bootstrapToken).body)
		}
		if first == nil {
			first = made
		} else if !reflect.DeepEqual(first, made) {
			t.Errorf("%s differs from %s:\n%s\n%s", by, frontEnds[0], show(made), show(first))
		}
	}
}

func show(o *outcome) string {
	return "  " + o.Result + "\n  " + strings.Join(o.Records, "\n  ")
}

func (n *node) prepare(t *testing.T, v *vars, s step) {
	t.Helper()
	switch s.method {
	case "CHECK":
		n.check(t, v.fill(s.path))
		return
	case "TOTP":
		n.setUpTOTP(t, v.fill(s.path))
		return
	}
	token := bootstrapToken
	if s.own {
		token = n.token
	}
	var answer *answer
	until := v.fill(s.until)
	for range 900 {
		answer = n.rest(t, request{s.method, v.fill(s.path), v.fill(s.body)}, token)
		if (s.keep == "" || s.method != "GET" || !strings.Contains(answer.body, `"items":[]`)) && strings.Contains(answer.body, until) {
			break
		}
		time.Sleep(100 * time.Millisecond) // until what was counted has been flushed
	}
	if answer.status >= 300 {
		t.Fatalf("%s: %s %s: %d %s", v.front, s.method, s.path, answer.status, answer.body)
	}
	if !strings.Contains(answer.body, until) {
		t.Fatalf("%s: %s %s: the answer never had %q: %s", v.front, s.method, s.path, until, answer.body)
	}
	if name, path, has := strings.Cut(s.keep, "="); has {
		v.of[name] = answer.member(t, path)
	}
}

// act makes the change and checks the fault. It returns the text of REST's fault;
// sentence is that of REST, for the others.
func (n *node) act(t *testing.T, c *change, v *vars, sentence string) string {
	t.Helper()
	switch v.front {
	case rest:
		a := n.rest(t, request{c.rest.method, v.fill(c.rest.path), v.fill(c.rest.body)}, n.token)
		if c.want == (fault{}) {
			if a.status >= 300 {
				t.Fatalf("rest: got %d %s", a.status, a.body)
			}
			return ""
		}
		got, detail := a.problem(t)
		if got != c.want {
			t.Fatalf("rest: got the fault %+v, want %+v: %s", got, c.want, a.body)
		}
		return v.anonymous(detail)
	case pages:
		n.actByPage(t, c, v, v.fill(cmp.Or(c.words[pages], sentence)))
	case cmd:
		n.actByCommand(t, c, v, v.fill(cmp.Or(c.words[cmd], sentence)))
	}
	return ""
}

// statuses are the HTTP statuses with which the pages may show a fault. A form that asks
// for a confirmation is shown as a page of its own, or again as invalid.
var statuses = map[string][]int{
	"invalid": {422}, "not_found": {404}, "conflict": {409}, "confirmation_required": {422, 409, 200}, "precondition_failed": {412},
	"malformed": {400, 422}, "precondition_required": {422, 428},
}

func (n *node) actByPage(t *testing.T, c *change, v *vars, sentence string) {
	t.Helper()
	var a *answer
	for _, f := range c.pages {
		filled := form{path: v.fill(f.path), upload: v.fill(f.upload)}
		for _, text := range f.fields {
			if name, is := strings.CutPrefix(text, "{field:"); is {
				text = a.hidden(t, strings.TrimSuffix(name, "}"))
			}
			filled.fields = append(filled.fields, v.fill(text))
		}
		a = n.submit(t, filled)
		if location := a.header.Get("Location"); c.want.code == "confirmation_required" && a.status == http.StatusSeeOther {
			a = n.send(t, n.pages, request{"GET", location, ""}, nil) // the form that asks
			a.status = http.StatusConflict
		}
	}
	if c.want == (fault{}) {
		if a.status >= 400 {
			t.Errorf("page: got %d %s", a.status, pageText(a.body))
		}
		return
	}
	field, isShown := faultField(a.body, sentence)
	if c.want.code == "precondition_failed" {
		field, isShown = "", true // it shows the other's version instead
	}
	switch {
	case !slices.Contains(statuses[c.want.code], a.status):
		t.Errorf("page: got %d for %s: %s", a.status, c.want.code, pageText(a.body))
	case !isShown:
		t.Errorf("page: %q is missing: %s", sentence, pageText(a.body))
	case field != "" && c.words[pages] == "" && field != fieldOf(c.want.field) && field != c.want.field && !marksInvalid(a.body, c.want.field):
		t.Errorf("page: shows %q at the field %s, want %s", sentence, field, c.want.field)
	}
}

// fieldOf returns the field of a form of a field of the API: of an element, the list.
func fieldOf(field string) string {
	field, _, _ = strings.Cut(field, "[")
	return strings.Replace(field, "expires_in", "expires_at", 1)
}

func (n *node) actByCommand(t *testing.T, c *change, v *vars, sentence string) {
	t.Helper()
	filled := command{stdin: v.fill(c.cli.stdin)}
	for _, arg := range c.cli.args {
		if content, is := strings.CutPrefix(arg, "{file:"); is {
			arg = file(t, v.fill(strings.TrimSuffix(content, "}")))
		}
		filled.args = append(filled.args, v.fill(arg))
	}
	code, printed := n.run(t, filled)
	want := console.Failed
	switch c.want.code {
	case "":
		want = console.OK
	case "confirmation_required":
		want = console.Unconfirmed
	case "not_found":
		want = console.NotFound
	case "invalid", "too_large":
		want = console.Usage
	case "unauthorized", "forbidden":
		want = console.Denied
	}
	if c.cli.isMissing {
		want = console.NotFound
	}
	if c.cli.usage != "" {
		sentence = v.fill(c.cli.usage)
	}
	switch {
	case code != want:
		t.Errorf("command: got exit code %d, want %d: %s", code, want, printed)
	case c.want != (fault{}) && !containsSentence(printed, sentence):
		t.Errorf("command: %q is missing: %s", sentence, printed)
	case c.want.field != "" && c.want.code != "confirmation_required" && c.words[cmd] == "" && c.cli.usage == "" && !strings.Contains(printed, c.want.field):
		t.Errorf("command: the field %s is missing: %s", c.want.field, printed)
	}
}

// newestRecord returns the id of the newest audit record.
func (n *node) newestRecord(t *testing.T) string {
	return n.rest(t, request{"GET", wire.PathAudit + "?limit=1", ""}, bootstrapToken).member(t, "items.0.id")
}

// recordsSince returns the records of the operator since another, the oldest first.
func (n *node) recordsSince(t *testing.T, id string, v *vars) []string {
	t.Helper()
	a := n.rest(t, request{"GET", wire.PathAudit + "?limit=20&actor=" + url.QueryEscape(operator), ""}, bootstrapToken)
	var page struct{ Items []map[string]any }
	must(t, json.Unmarshal([]byte(a.body), &page))
	var all []string
	for _, r := range page.Items {
		if fmt.Sprint(r["id"]) == id {
			break
		}
		if less(fmt.Sprint(r["id"]), id) {
			break
		}
		delete(r, "actor")
		text, err := json.Marshal(r)
		must(t, err)
		all = append(all, v.normalize(t, string(text)))
	}
	slices.Reverse(all)
	return all
}

// less compares two positive whole numbers.
func less(a, b string) bool { return len(a) < len(b) || len(a) == len(b) && a < b }

// vars are the variables of a front end.
type vars struct {
	front string
	of    map[string]string
}

func (v *vars) fill(text string) string {
	pairs := []string{"$N", "via" + v.front, "$O", octets[v.front]}
	for _, name := range slices.Sorted(maps.Keys(v.of)) {
		pairs = append(pairs, "{"+name+"}", v.of[name])
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// anonymous is the reverse of fill.
func (v *vars) anonymous(text string) string {
	pairs := []string{"via" + v.front, "$N", "." + octets[v.front], ".$O", "asn:64" + octets[v.front], "asn:64$O"}
	for _, name := range slices.Sorted(maps.Keys(v.of)) {
		pairs = append(pairs, v.of[name], "{"+name+"}")
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\berased:[0-9a-f]{16}`)

var numbers = regexp.MustCompile(`^\d+$`)

// normalize returns a JSON document without the parts that always differ: ids, revisions and
// instants, of which the hours from now remain.
func (v *vars) normalize(t *testing.T, document string) string {
	t.Helper()
	var value any
	must(t, json.Unmarshal([]byte(document), &value))
	text, err := json.Marshal(v.walk(value, ""))
	must(t, err)
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(text))
}

func (v *vars) walk(value any, name string) any {
	switch x := value.(type) {
	case map[string]any:
		for _, volatile := range []string{"revision", "etag", "hint", "last_used_at", "last_login_at", "request_id"} {
			delete(x, volatile)
		}
		for member, of := range x {
			x[member] = v.walk(of, member)
		}
	case []any:
		for i := range x {
			x[i] = v.walk(x[i], name)
		}
	case float64:
		if name == "id" {
			return "<number>"
		}
	case string:
		if at, err := time.Parse(time.RFC3339, x); err == nil {
			return fmt.Sprintf("<%+.0fh>", time.Until(at).Round(time.Hour).Hours())
		}
		if name == "object_id" && numbers.MatchString(x) {
			return "<number>"
		}
		return uuids.ReplaceAllString(v.anonymous(x), "<id>")
	}
	return value
}
