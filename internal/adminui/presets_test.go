package adminui_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stint-dev/stint/internal/rules"
)

func TestAPresetIsShownAppliedAndWatched(t *testing.T) {
	n := newNode(t)
	maria := n.as(t, "maria")
	maria.get("/policies").is(http.StatusOK).holds(`href="/presets"`)
	maria.get("/presets").is(http.StatusOK).holds("An API").holds("default")
	maria.get("/presets/website").is(http.StatusOK).holds("A web site").holds("missing-pages").holds("not_found").holds("max_duration: 7d").holds("Apply the preset")
	maria.get("/presets/none").is(http.StatusNotFound).holds("there are api, website")

	// In shadow first, then in force.
	maria.post("/presets/traps", url.Values{"mode": {"shadow"}}).is(http.StatusSeeOther)
	found := func() *rules.Policy {
		t.Helper()
		p, err := n.store.Policies.FindPolicyByName(t.Context(), "traps")
		must(t, err)
		return p
	}
	if p := found(); p.Mode != rules.Shadow || !p.IsTrap() || p.Escalation == nil {
		t.Fatalf("the shadow of the traps is %+v", p)
	}
	maria.get("/presets/traps").is(http.StatusOK).holds("replaces version 1").holds("What changes of traps")
	maria.post("/presets/traps", url.Values{"mode": {"enforce"}}).is(http.StatusPreconditionRequired) // without what the page showed
	for _, wrong := range []string{"traps", "x traps", "0 traps", "-1 traps"} {
		maria.post("/presets/traps", url.Values{"mode": {"enforce"}, "expect": {wrong}}).is(http.StatusUnprocessableEntity)
	}
	maria.post("/presets/traps", url.Values{"mode": {"enforce"}, "expect": {"9 traps"}}).is(http.StatusPreconditionFailed)
	if p := found(); p.Version != 1 {
		t.Fatalf("what was refused made %+v", p)
	}
	maria.post("/presets/traps", url.Values{"mode": {"enforce"}, "expect": {"1 traps"}}).is(http.StatusSeeOther)
	if p := found(); p.Mode != rules.Enforce || p.Version != 2 {
		t.Fatalf("the traps are %+v", p)
	}
	maria.get("/presets/traps").is(http.StatusOK).holds("as the preset says already").lacks("Apply the preset")

	n.as(t, "olu").get("/presets/traps").is(http.StatusOK).holds("An administrator applies presets").lacks("Apply the preset")
	n.as(t, "olu").post("/presets/scraper", nil).is(http.StatusForbidden)
}

func TestAConflictKeepsTheOutcomeThatWasTyped(t *testing.T) {
	n := newNode(t)
	maria := n.as(t, "maria")
	draft := func(limit, expect string) url.Values {
		return url.Values{"name": {"guessing"}, "mode": {"enforce"}, "limit": {limit}, "window": {"1d"}, "match": {"ip:*"}, "outcome": {"login_failed"},
			"algorithm": {"timestamp_log"}, "on_failure": {"local"}, "expect": {expect}}
	}
	maria.post("/new-policy", draft("20", "0")).is(http.StatusSeeOther)
	maria.post("/policies/guessing", draft("30", "1")).is(http.StatusSeeOther)
	maria.post("/policies/guessing", draft("40", "1")).is(http.StatusPreconditionFailed).holds(`name="outcome" value="login_failed"`)
}
