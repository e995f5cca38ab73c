package adminui_test

import (
	"net/http"
	"net/url"
	"regexp"
	"testing"
)

// TestFormsAskHowLongExemptionsAndLimitsLast: only a block has a duration that is chosen already,
// the one that the command line has too.
func TestFormsAskHowLongExemptionsAndLimitsLast(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	chosen := regexp.MustCompile(`name="for" value="([^"]*)"[^>]* checked`)
	for path, want := range map[string]string{
		"/blocks/new": "24h", "/exemptions/new": "", "/blocks/import": "", "/exemptions/import": "",
	} {
		got := ""
		if found := chosen.FindStringSubmatch(olu.get(path).is(http.StatusOK).body); found != nil {
			got = found[1]
		}
		if got != want {
			t.Errorf("%s: %q is chosen, want %q", path, got, want)
		}
	}
	ask := func(what string) string {
		found := chosen.FindStringSubmatch(olu.post("/bulk/add", url.Values{"what": {what}, "key": {"token:a"}}).is(http.StatusOK).body)
		if found == nil {
			return ""
		}
		return found[1]
	}
	if block, exempt := ask("block"), ask("exempt"); block != "24h" || exempt != "" {
		t.Errorf("for keys of a list %q and %q are chosen", block, exempt)
	}
	const message = "Choose a duration."
	olu.post("/exemptions", url.Values{"pattern": {"token:a"}, "reason": {"x"}}).is(http.StatusUnprocessableEntity).holds(message)
	olu.post("/bulk/add", url.Values{"what": {"exempt"}, "key": {"token:a"}, "reason": {"x"}}).is(http.StatusUnprocessableEntity).holds(message)
	olu.post("/key/limit", url.Values{"key": {"token:a"}, "rules": {"5/s"}, "reason": {"x"}}).is(http.StatusUnprocessableEntity).holds(message)
	olu.post("/exemptions", url.Values{"pattern": {"token:a"}, "reason": {"x"}, "for": {"good"}}).is(http.StatusSeeOther)
}
