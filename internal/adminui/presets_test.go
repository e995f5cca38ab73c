package adminui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/storetest"
)

func TestListsAreShownAndTakenInConditions(t *testing.T) {
	n := newNode(t)
	maria := n.as(t, "maria")
	maria.get("/policies").is(http.StatusOK).holds(`href="/lists"`)
	maria.get("/new-policy").is(http.StatusOK).holds(`href="/lists"`)
	maria.get("/lists").is(http.StatusOK).holds("@traversal").holds("Known exploits and web shells").holds("CVE-2021-41773").holds("eval-stdin.php")

	maria.post("/policies/default/draft", n.editorForm(t, 1, url.Values{"when_path": {"@secret"}})).holds("names no list; did you mean @secrets?")
	listed := url.Values{"when_path": {"@secrets\nnot /downloads/*"}, "confirm": {"default"}}
	maria.post("/policies/default/draft", n.editorForm(t, 1, listed)).is(http.StatusOK).holds("if the path is in the list secrets, and the path does not begin with /downloads/")
	maria.post("/policies/default", n.editorForm(t, 1, listed)).is(http.StatusSeeOther)
	maria.get("/policies/default").is(http.StatusOK).holds("@secrets").holds("not /downloads/*")
}

func TestPresetIsAppliedInShadowThenEnforced(t *testing.T) {
	n := newNode(t)
	maria := n.as(t, "maria")
	maria.get("/policies").is(http.StatusOK).holds(`href="/presets"`)
	maria.get("/presets").is(http.StatusOK).holds("An API").holds("default")
	maria.get("/presets/website").is(http.StatusOK).holds("A web site").holds("suspicion").holds("not_found").holds("max_duration: 7d").holds("Apply the preset")
	maria.get("/presets/none").is(http.StatusNotFound).holds("there are api, website")

	// In shadow first, then enforced.
	maria.post("/presets/traps", url.Values{"mode": {"shadow"}}).is(http.StatusSeeOther)
	found := func() *rules.Policy {
		t.Helper()
		p, err := n.store.Policies.FindPolicyByName(t.Context(), "traps")
		must(t, err)
		return p
	}
	if p := found(); p.Mode != rules.Shadow || !p.IsTrap() || p.Escalation == nil {
		t.Fatalf("got the shadow policy %+v", p)
	}
	maria.get("/presets/traps").is(http.StatusOK).holds("replaces version 1</td>").holds("Changes to traps")
	maria.post("/presets/traps", url.Values{"mode": {"enforce"}}).is(http.StatusPreconditionRequired) // without the expected version
	for _, wrong := range []string{"traps", "x traps", "0 traps", "1 traps", "* traps"} {
		maria.post("/presets/traps", url.Values{"mode": {"enforce"}, "expect": {wrong}}).is(http.StatusUnprocessableEntity)
	}
	maria.post("/presets/traps", url.Values{"mode": {"enforce"}, "expect": {n.tag(t, "traps", 9) + " traps"}}).is(http.StatusPreconditionFailed)
	if p := found(); p.Version != 1 {
		t.Fatalf("a refused form changed the policy to %+v", p)
	}
	maria.post("/presets/traps", url.Values{"mode": {"enforce"}, "expect": {n.tag(t, "traps", 1) + " traps"}}).is(http.StatusSeeOther)
	if p := found(); p.Mode != rules.Enforce || p.Version != 2 {
		t.Fatalf("got the enforced policy %+v", p)
	}
	maria.get("/presets/traps").is(http.StatusOK).holds("already match the preset").lacks("Apply the preset")

	n.as(t, "olu").get("/presets/traps").is(http.StatusOK).holds("Only admins can apply presets").lacks("Apply the preset")
	n.as(t, "olu").post("/presets/scraper", nil).is(http.StatusForbidden)
}

func TestPolicyEditorConflictKeepsTypedFields(t *testing.T) {
	n := newNode(t)
	maria := n.as(t, "maria")
	draft := func(limit, expect string) url.Values {
		return url.Values{"name": {"guessing"}, "mode": {"enforce"}, "limit": {limit}, "window": {"1d"}, "match": {"ip:*"}, "outcome": {"login_failed"},
			"algorithm": {"timestamp_log"}, "on_failure": {"local"}, "expect": {expect}}
	}
	maria.post("/new-policy", draft("20", "")).is(http.StatusSeeOther)
	maria.post("/policies/guessing", draft("30", n.tag(t, "guessing", 1))).is(http.StatusSeeOther)
	late := draft("40", n.tag(t, "guessing", 1))
	late.Set("stack", "5/m 40/h") // replaces the fields of the rules
	conflict := maria.post("/policies/guessing", late).is(http.StatusPreconditionFailed)
	conflict.holds(`name="outcome" value="login_failed"`).holds(`name="stack" value="5/m 40/h"`)
	if count := strings.Count(conflict.body, `name="expect"`); count != 1 {
		t.Errorf("the conflict page has %d fields named expect, want 1", count)
	}
}

// What was typed about a policy or a key that somebody else has deleted is kept, to be saved again.
func TestFormsOfDeletedThingsKeepTypedFields(t *testing.T) {
	n := newNode(t)
	maria := n.as(t, "maria")
	draft := url.Values{"name": {"guessing"}, "mode": {"enforce"}, "limit": {"20"}, "window": {"1d"}, "match": {"ip:*"}, "outcome": {"login_failed"},
		"algorithm": {"timestamp_log"}, "on_failure": {"local"}, "expect": {""}}
	maria.post("/new-policy", draft).is(http.StatusSeeOther)
	draft.Set("expect", n.tag(t, "guessing", 1))
	draft.Set("limit", "30")
	draft.Del("name")
	_, err := n.store.Policies.ApplyPolicies(t.Context(), audit.SystemActor("test"), []rules.PolicyChange{{Name: "guessing", Expect: etag.Any}})
	must(t, err)
	must(t, n.catalog.Refresh(t.Context()))
	maria.post("/policies/guessing", draft).is(http.StatusConflict).holds(`name="name" value="guessing"`).holds(`name="limit" value="30"`).
		holds("This policy has been deleted.").holds(`name="expect" value=""`).holds(`action="/new-policy"`)

	_, err = n.store.Profiles.PutProfile(t.Context(), storetest.Operator, profiles.Profile{Key: "token:a", Plan: "gold"}, etag.Any)
	must(t, err)
	kept := n.profileOf(t, "token:a")
	_, err = n.store.Profiles.DeleteProfile(t.Context(), storetest.Operator, "token:a", etag.Any)
	must(t, err)
	typed := url.Values{"key": {"token:a"}, "plan": {"silver"}, "labels": {"x"}, "note": {"Contract 17"}, "expect": {string(profiles.TagOf(kept))}, "back": {"/key?key=token:a"}}
	maria.post("/key/profile", typed).is(http.StatusConflict).holds(`value="silver"`).holds(`value="Contract 17"`).
		says("What was kept of this key was removed while you were editing it").holds(`name="expect" value=""`)
	typed.Set("expect", "")
	maria.post("/key/profile", typed).is(http.StatusSeeOther)
}

// scan sends the requests of scanners, and of one person who requests a trap by mistake, with
// a pause after each request.
func (n *node) scan(t testing.TB, pause time.Duration) {
	t.Helper()
	for key, paths := range map[string]string{
		"ip:203.0.113.66":   "/.env /.git/config /.aws/credentials /backup.sql /actuator/env",
		"ip:203.0.113.67":   "/.env /api/.env /.git/HEAD /",
		"ip:2001:db8:9::77": "/ /news /news/1 /.htaccess /news/2 /about",
	} {
		for path := range strings.FieldsSeq(paths) {
			n.askFor(t, key, path)
			n.clock.advance(pause)
		}
	}
}

func TestPresetPageShowsWhatTrapsWouldRefuse(t *testing.T) {
	n := newNode(t)
	maria := n.as(t, "maria")
	maria.get("/presets/traps").is(http.StatusOK).holds("What it would have refused").holds("No traffic was recorded in this time.")
	maria.get("/presets/website").lacks("What it would have refused")
	n.send(t, "ip:192.0.2.1", "ip:192.0.2.2")
	n.clock.advance(2 * time.Minute)
	n.flush(t)
	maria.get("/presets/traps").holds("None of the 2 recorded requests has its path").lacks("traps would have refused")
	n.scan(t, 2*time.Second)
	n.clock.advance(2 * time.Minute)
	n.flush(t)
	maria.get("/presets/traps?last=1h").is(http.StatusOK).holds("<b>9</b> of 17 requests, of <b>3</b> of 5 keys, and blocked <b>2</b> of these keys").
		holds("2 of the refused keys also had 6 other requests that Stint allowed").holds("@secrets").holds("2001:db8:9::").holds("more paths would have refused nothing").lacks("<bdi>@devices")
	maria.get("/presets/traps?last=99y").is(http.StatusOK).holds("<b>9</b> of 17")
	maria.get("/presets/traps?mode=shadow").holds(`href="?last=1h&amp;mode=shadow"`)
	n.as(t, "olu").get("/presets/traps").is(http.StatusOK).lacks("What it would have refused")
}

func TestPolicyPageShowsUsageBeforeDeletion(t *testing.T) {
	n := newNode(t)
	maria := n.as(t, "maria")
	maria.get("/policies/default").holds("It decided no check in the last 24 hours.").lacks("a plan that selects it")
	n.send(t, "ip:192.0.2.1", "ip:192.0.2.2", "ip:192.0.2.2")
	n.clock.advance(2 * time.Minute)
	n.flush(t)
	maria.post("/key/profile", url.Values{"key": {"user:anna"}, "plan": {"gold"}}).is(http.StatusSeeOther)
	maria.get("/policies/default").holds("In the last 24 hours it decided <b>3</b> checks of about 2").lacks("a plan that selects it")
	n.as(t, "olu").get("/policies/default").lacks("In the last 24 hours")
	draft := n.editorForm(t, 1, nil)
	draft.Set("csrf", maria.csrf)
	maria.post("/policies/default/draft", draft).is(http.StatusOK).holds("it decided <b>3</b> checks")
	maria.do(http.MethodPost, "/policies/default/draft", draft, http.Header{"Hx-Request": {"true"}}).is(http.StatusOK).holds(`id="meaning"`).lacks("it decided <b>3</b> checks")
	gold := url.Values{"name": {"gold"}, "mode": {"enforce"}, "limit": {"20"}, "window": {"1d"}, "match": {"plan:gold"}, "algorithm": {"timestamp_log"}, "on_failure": {"local"}}
	maria.post("/new-policy", gold).is(http.StatusSeeOther)
	maria.get("/policies/gold").holds("It decided no check in the last 24 hours. 1 key has a plan that selects it.")
	n.put(t, rules.Policy{Name: "guessing", Outcome: "login_failed"}, "3/h")
	maria.get("/policies/guessing").holds("It decided no check in the last 24 hours.")
	n.report(t, "ip:192.0.2.1", "login_failed", 1)
	n.report(t, "ip:192.0.2.2", "login_failed", 3)
	n.clock.advance(2 * time.Minute)
	n.flush(t)
	maria.get("/policies/guessing").holds("In the last 24 hours it applied to about <b>2</b> keys and refused none.")
}
