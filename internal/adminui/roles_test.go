package adminui_test

import (
	"context"
	"encoding/csv"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/offences"
)

var pathParam = regexp.MustCompile(`:[a-z]+`)

func TestPageRoutesRequireTheirRole(t *testing.T) {
	n := newNode(t)
	visitors := map[string]*visitor{"vic": n.as(t, "vic"), "olu": n.as(t, "olu")}
	access := map[string]identity.Access{"vic": identity.Read, "olu": identity.Operate}
	for _, r := range n.routes {
		if r.Access == identity.Public || r.Path == "/logout" {
			continue
		}
		path := pathParam.ReplaceAllString(r.Path, "nothing")
		t.Run(r.Method+" "+r.Path, func(t *testing.T) {
			nobody := n.visitor(t)
			got := nobody.do(r.Method, path, url.Values{}, nil).is(http.StatusSeeOther)
			if !strings.HasPrefix(got.header.Get("Location"), "/login") {
				t.Errorf("a visitor without a login is redirected to %s, want the login page", got.header.Get("Location"))
			}
			for name, v := range visitors {
				v.t = t
				if access[name].Grants(r.Access) || r.Access == identity.Account {
					continue
				}
				v.do(r.Method, path, url.Values{"csrf": {v.csrf}}, nil).is(http.StatusForbidden)
			}
			if r.Method == http.MethodPost {
				visitors["olu"].do(r.Method, path, url.Values{"csrf": {"forged"}}, nil).is(http.StatusForbidden)
			}
		})
	}
}

func TestPagesHideActionsOfOtherRoles(t *testing.T) {
	n := newNode(t)
	n.fill(t)
	vic := n.as(t, "vic")
	vic.get("/blocks").lacks("Add a block").lacks(">Edit<").lacks(">Unblock<")
	vic.get("/policies/default").lacks("Save as version").lacks("Return to it").lacks("Delete the policy").holds("<fieldset disabled")
	vic.get("/jobs").lacks("Run now")
	vic.get("/settings").holds("v0.4.1").holds("3f2a9c41d07b").holds("2026-11-20").lacks(`href="/tokens"`).lacks(`href="/users"`)
	n.as(t, "olu").get("/blocks").holds("Add a block").holds(">Unblock<")
}

func TestBlocksPageEndsAndRestoresSeveralBlocks(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	var ids []string
	for _, text := range []string{"ip:203.0.113.1", "ip:203.0.113.2", "ip:203.0.113.3"} {
		ids = append(ids, n.block(t, text, "scraping", "jo", blocks.Manual, time.Hour).ID)
	}
	got := olu.post("/blocks/end", url.Values{"id": ids[:2], "back": {"/blocks?q=203"}}).is(http.StatusSeeOther)
	page := olu.get(got.header.Get("Location")).is(http.StatusOK).holds("Ended 2 blocks.").holds(`action="/blocks/restore"`)
	if !strings.HasPrefix(got.header.Get("Location"), "/blocks?") || !strings.Contains(got.header.Get("Location"), "q=203") {
		t.Errorf("redirected to %s, want the filtered blocks", got.header.Get("Location"))
	}
	page.holds("203.0.113.3").lacks(`value="` + ids[0] + `" aria-label`)
	olu.post("/blocks/restore", url.Values{"id": ids[:2]}).is(http.StatusSeeOther)
	found, err := n.store.Entries.Find(context.Background(), blocks.Filter{Kind: blocks.Block, At: n.clock.Now()})
	must(t, err)
	if found.Total != 3 || found.Items[0].Author != "jo" || !found.Items[0].Expires.Equal(n.clock.Now().Add(time.Hour)) {
		t.Errorf("got %d blocks after the restore, want 3; the first is %+v", found.Total, found.Items[0])
	}
	n.clock.advance(90 * time.Minute)
	olu.post("/blocks/restore", url.Values{"id": ids[:1]}).is(http.StatusConflict)
}

func TestBlocksPageEditsRowAndDetectsConflict(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	b := n.block(t, "ip:203.0.113.1", "scraping", "jo", blocks.Manual, time.Hour)
	edited := url.Values{"reason": {"scraping prices"}, "for": {"24h"}, "revision": {strconv.FormatInt(b.Revision, 10)}}
	olu.post("/blocks/"+b.ID, edited).is(http.StatusSeeOther)
	after, err := n.store.Entries.ByID(context.Background(), blocks.Block, b.ID)
	must(t, err)
	if after.Reason != "scraping prices" || !after.Expires.Equal(b.Expires.Add(24*time.Hour)) {
		t.Errorf("got %+v", after)
	}
	edited.Set("reason", "mine")
	olu.post("/blocks/"+b.ID, edited).is(http.StatusPreconditionFailed).
		holds("Someone else changed it while you were editing").holds("scraping prices").holds(`value="mine"`)
	edited = url.Values{"reason": {"x"}, "for": {"until"}, "until": {"2020-01-01 00:00"}, "revision": {"1"}}
	olu.post("/blocks/"+b.ID, edited).is(http.StatusUnprocessableEntity).holds("Must be in the future")
}

func TestBlocksExportAppliesFiltersAndEscapesFormulas(t *testing.T) {
	n := newNode(t)
	n.block(t, "ip:203.0.113.1", "=cmd|' /C calc'!A0", "jo", blocks.Manual, time.Hour)
	n.block(t, "ip:203.0.113.2", "other", "jo", blocks.Imported, time.Hour)
	got := n.as(t, "vic").get("/blocks/export?source=manual").is(http.StatusOK)
	rows, err := csv.NewReader(strings.NewReader(got.body)).ReadAll()
	must(t, err)
	if len(rows) != 2 || rows[1][0] != "ip:203.0.113.1" || rows[1][1] != "'=cmd|' /C calc'!A0" {
		t.Errorf("got the rows %q, want one block with its formula escaped", rows)
	}
}

func TestSearchFieldOpensKeysAndRefusals(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "vic")
	id := offences.NewRefusalIDMaker(n.catalog.Settings().Secret).ID(1, "ip:203.0.113.7", start).String()
	for typed, want := range map[string]string{
		"203.0.113.7":       "key=ip:203.0.113.7",
		"2001:db8::1":       "key=ip:2001:db8::/64",
		"token:a&b=c%#":     "key=token:a&b=c%#",
		strings.ToLower(id): "refusal=" + id,
	} {
		got := v.get("/go?q=" + url.QueryEscape(typed)).is(http.StatusSeeOther)
		to, err := url.Parse(got.header.Get("Location"))
		must(t, err)
		name, value, _ := strings.Cut(want, "=")
		if to.Path != site.KeyPath || to.Query().Get(name) != value {
			t.Errorf("searching %s redirects to %s, want %s", typed, to, want)
		}
	}
	block := n.block(t, "ip:192.0.2.0/24", "", "maria", blocks.Manual, time.Hour)
	n.send(t, "token:acme", "token:acme")
	n.flush(t)
	n.send(t, "solo")
	for typed, want := range map[string]string{
		block.ID: "/blocks?q=ip%3A192.0.2.0%2F24", "acme": "/offenders?search=acme", "token:acm": "/key?key=token%3Aacm", "solo": "/key?key=solo", uuid.NewString(): "/key?key=",
	} {
		if to := v.get("/go?q=" + typed).is(http.StatusSeeOther).header.Get("Location"); !strings.HasPrefix(to, want) {
			t.Errorf("searching %s redirects to %s, want %s", typed, to, want)
		}
	}
	_, err := n.store.Entries.End(t.Context(), audit.SystemActor("test"), blocks.Block, "", block.ID)
	must(t, err)
	if to := v.get("/go?q=" + block.ID).is(http.StatusSeeOther).header.Get("Location"); to != "/blocks?q=ip%3A192.0.2.0%2F24&state=ended" {
		t.Errorf("searching the id of an ended block redirects to %s", to)
	}
	v.get("/go?q=" + url.QueryEscape("IP:1.2.3.4")).is(http.StatusUnprocessableEntity).holds("lower case")
}

func TestTokensPageShowsSecretOnceAndConfirmsDeletion(t *testing.T) {
	n := newNode(t)
	maria := n.as(t, "maria")
	got := maria.post("/tokens", url.Values{"name": {"ci"}, "scopes": {"read"}, "for": {"30d"}}).is(http.StatusOK)
	secret := regexp.MustCompile(identity.SecretPattern).FindString(got.body)
	if secret == "" {
		t.Fatal("the page has no secret")
	}
	program := n.visitor(t)
	bearer := http.Header{"Authorization": {"Bearer " + secret}}
	program.do(http.MethodGet, "/v1/policies", nil, bearer).is(http.StatusOK)
	maria.get("/tokens").lacks(secret)
	got = maria.post("/tokens/"+n.tokenID(t, "ci")+"/rotate", nil).is(http.StatusOK).holds("ci-2")
	next := regexp.MustCompile(identity.SecretPattern).FindString(got.body)
	n.clock.advance(25 * time.Hour)
	program.do(http.MethodGet, "/v1/policies", nil, bearer).is(http.StatusUnauthorized)
	program.do(http.MethodGet, "/v1/policies", nil, http.Header{"Authorization": {"Bearer " + next}}).is(http.StatusOK)
	maria = n.as(t, "maria")
	maria.get("/tokens").holds("?delete=").lacks(`/delete"`).lacks("cannot be undone")
	maria.get("/tokens?delete=" + n.tokenID(t, "ci")).lacks("cannot be undone") // it has ended
	remove := "/tokens/" + n.tokenID(t, "ci-2") + "/delete"
	maria.get("/tokens?delete=" + n.tokenID(t, "ci-2")).holds("Last used").holds("cannot be undone").holds(`action="` + remove + `"`)
	maria.post(remove, nil).is(http.StatusSeeOther)
	program.do(http.MethodGet, "/v1/policies", nil, http.Header{"Authorization": {"Bearer " + next}}).is(http.StatusUnauthorized)
	maria.post("/tokens", url.Values{"name": {"ci"}, "for": {"30d"}}).is(http.StatusUnprocessableEntity).holds("Choose at least one")
}

func TestUsersPageRoleChangeEndsSessions(t *testing.T) {
	n := newNode(t)
	maria, olu := n.as(t, "maria"), n.as(t, "olu")
	id := n.userID(t, "olu")
	maria.post("/users/"+id+"/role", url.Values{"role": {"viewer"}}).is(http.StatusSeeOther)
	olu.get("/blocks").is(http.StatusSeeOther)
	n.as(t, "olu").get("/blocks").lacks("Add a block")
	maria.post("/users/"+id+"/disable", nil).is(http.StatusSeeOther)
	n.visitor(t).post("/login", url.Values{"name": {"olu"}, "password": {password}}).is(http.StatusUnprocessableEntity)
	maria.post("/users/"+id+"/password", url.Values{"password": {"short"}}).is(http.StatusUnprocessableEntity).holds("too short")
	maria.post("/users/"+n.userID(t, "maria")+"/role", url.Values{"role": {"viewer"}}).is(http.StatusConflict)
	vic := n.as(t, "vic") // the message must not say that a session was ended that goes on
	same := maria.post("/users/"+n.userID(t, "vic")+"/role", url.Values{"role": {"viewer"}}).is(http.StatusSeeOther).header.Get("Location")
	maria.get(same).is(http.StatusOK).holds("Nothing was changed").lacks("sessions are ended")
	vic.get("/").is(http.StatusOK)
	other := maria.post("/users/"+n.userID(t, "vic")+"/role", url.Values{"role": {"operator"}}).is(http.StatusSeeOther).header.Get("Location")
	maria.get(other).is(http.StatusOK).holds("The role is changed, and their sessions are ended.")
	vic.get("/").is(http.StatusSeeOther)
	maria.post("/users", url.Values{"name": {"new user"}, "role": {"viewer"}, "password": {password}}).is(http.StatusUnprocessableEntity)
	maria.post("/users", url.Values{"name": {"new"}, "role": {"viewer"}, "password": {password}}).is(http.StatusSeeOther)
	n.as(t, "new")
}

func TestJobsPageRunsJobAndShowsResult(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	olu.get("/jobs").is(http.StatusOK).holds(`<span class="muted">never</span>`)
	got := olu.post("/jobs/archive-blocks/run", nil).is(http.StatusSeeOther)
	olu.get(got.header.Get("Location")).is(http.StatusOK).holds("archived 12 blocks")
	olu.get("/audit").is(http.StatusOK).holds("Ran the job archive-blocks.")
	olu.post("/jobs/nothing/run", nil).is(http.StatusNotFound)
}

func TestPolicyEditorWorksWithoutJavaScript(t *testing.T) {
	n := newNode(t)
	maria := n.as(t, "maria")
	draft := url.Values{
		"expect": {""}, "name": {"login"}, "mode": {"enforce"}, "on_failure": {"local"},
		"limit": {"10", "6000"}, "window": {"1m", "1h"}, "match": {"ip:10.1*"},
	}
	maria.post("/new-policy/draft", draft).is(http.StatusOK).holds("you probably mean ip:10.1.0.0/16")
	maria.post("/new-policy", draft).is(http.StatusUnprocessableEntity).holds(`value="ip:10.1*"`)
	draft["match"] = []string{"*"}
	maria.post("/new-policy", draft).is(http.StatusConflict).holds("belongs to the policy")
	draft["match"] = []string{"token:login_*"}
	draft.Set("do", "add-rule")
	maria.post("/new-policy/draft", draft).is(http.StatusOK).holds(`aria-label="Requests of rule 2"`)
	draft.Set("do", "drop-rule-1")
	maria.post("/new-policy/draft", draft).is(http.StatusOK).lacks(`value="6000"`)
	draft.Set("do", "paste")
	draft.Set("stack", "5/10s 100/h")
	maria.post("/new-policy/draft", draft).is(http.StatusOK).holds(`value="100"`).holds("At most")
	draft.Del("stack")
	for field, value := range map[string]string{"escalation": "on", "threshold": "1000", "offence_window": "90s", "duration": "1h", "factor": "2", "max_duration": "2d", "decay_after": "2d"} {
		draft.Set(field, value)
	}
	draft.Set("do", "save")
	maria.post("/new-policy", draft).is(http.StatusUnprocessableEntity).holds("whole minutes")
	draft.Set("offence_window", "10m")
	maria.post("/new-policy", draft).is(http.StatusSeeOther)
	maria.post("/new-policy", draft).is(http.StatusUnprocessableEntity).holds("There is a policy of this name")
	p, err := n.store.Policies.FindPolicyByName(context.Background(), "login")
	must(t, err)
	if p.Rules.String() != "10/1m 6000/1h" || p.Escalation == nil || p.Escalation.Duration != time.Hour {
		t.Errorf("got %+v", p)
	}
	maria.get("/policies/login").holds("can never refuse anyone")
	maria.post("/policies/login/delete", url.Values{"expect": {n.tag(t, "login", 1)}, "confirm": {"logn"}}).is(http.StatusConflict)
	maria.post("/policies/login/delete", url.Values{"expect": {n.tag(t, "login", 1)}, "confirm": {"login"}}).is(http.StatusSeeOther)
	maria.get("/policies/login").is(http.StatusNotFound)
}

func TestAuditPageShowsDifferences(t *testing.T) {
	n := newNode(t)
	n.fill(t)
	vic := n.as(t, "vic")
	vic.get("/audit?object=policy&open=" + n.lastEntry(t)).is(http.StatusOK).holds("2/1s").holds("6000/7d").lacks("Abuse list")
	vic.get("/audit?actor=nobody").is(http.StatusOK).holds("No change matches")
	vic.get("/audit?from=yesterday").is(http.StatusUnprocessableEntity)
}

// outage is a session store whose database can be made unreachable.
type outage struct {
	identities.SessionStore
	gone atomic.Bool
}

func (o *outage) FindSession(ctx context.Context, hash []byte) (*identity.Session, *identity.User, error) {
	if o.gone.Load() {
		return nil, nil, fault.New(fault.Unavailable, "The database is unreachable.")
	}
	return o.SessionStore.FindSession(ctx, hash)
}

func TestPagesAreServedDuringShortDatabaseOutage(t *testing.T) {
	var store *outage
	n := newNode(t, func(d *adminui.Deps) {
		store = &outage{SessionStore: d.Logins.Sessions.Store}
		d.Logins.Sessions.Store = store
	})
	vic := n.as(t, "vic")
	store.gone.Store(true)
	vic.get("/settings").is(http.StatusOK)
	n.visitor(t).do(http.MethodGet, "/settings", nil, http.Header{"Cookie": {"stint_session=unknown"}}).is(http.StatusServiceUnavailable)
	n.clock.advance(3 * time.Hour)
	vic.get("/settings").is(http.StatusServiceUnavailable)
}

func TestBlocksPageEndsWholePageOfBlocks(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	ids := url.Values{}
	for i := range 50 {
		ids.Add("id", n.block(t, "ip:203.0.113."+strconv.Itoa(i), "scraping", "jo", blocks.Manual, time.Hour).ID)
	}
	got := olu.post("/blocks/end", ids).is(http.StatusSeeOther)
	olu.get(got.header.Get("Location")).is(http.StatusOK).holds("Ended 50 blocks.")
}

func TestEditingReasonKeepsExactExpiry(t *testing.T) {
	n := newNode(t)
	b := n.block(t, "ip:203.0.113.1", "scraping", "jo", blocks.Manual, 90*time.Second+96*time.Millisecond)
	n.as(t, "olu").post("/blocks/"+b.ID, url.Values{
		"reason": {"scraping prices"}, "for": {"until"}, "until": {b.Expires.UTC().Format("2006-01-02 15:04")}, "revision": {strconv.FormatInt(b.Revision, 10)},
	}).is(http.StatusSeeOther)
	after, err := n.store.Entries.ByID(context.Background(), blocks.Block, b.ID)
	must(t, err)
	if after.Reason != "scraping prices" || !after.Expires.Equal(b.Expires) {
		t.Errorf("got %+v", after)
	}
}

func TestOnlyAdminsRunBackupJob(t *testing.T) {
	n := newNode(t)
	const button = `aria-label="Run now: back-up"`
	olu, maria := n.as(t, "olu"), n.as(t, "maria")
	olu.get("/jobs").is(http.StatusOK).lacks(button).holds(`aria-label="Run now: daily-report"`)
	olu.post("/jobs/back-up/run", url.Values{}).is(http.StatusForbidden)
	maria.get("/jobs").is(http.StatusOK).holds(button)
	maria.post("/jobs/back-up/run", url.Values{}).is(http.StatusSeeOther)
}
