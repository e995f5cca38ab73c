package adminui_test

import (
	"net/http"
	"strings"
	"testing"
)

// The editor of a policy leads to the pages that refused visitors see. They are complete, do nothing,
// and everybody can read them.
func TestEditorShowsWhatAVisitorSees(t *testing.T) {
	n := newNode(t)
	vic := n.as(t, "vic")
	vic.get("/policies/default").is(http.StatusOK).holds(`href="/visitor-page?decision=challenged"`)
	for decision, title := range map[string]string{"challenged": "One moment", "limited": "Too many requests", "blocked": "Access is blocked"} {
		got := vic.get("/visitor-page?decision=" + decision).is(http.StatusOK).holds("<h1>" + title + "</h1>").lacks("<script").lacks("http-equiv")
		if policy := got.header.Get("Content-Security-Policy"); !strings.Contains(policy, "style-src 'nonce-") {
			t.Errorf("%s: the policy is %q", decision, policy)
		}
	}
	if german := vic.do(http.MethodGet, "/visitor-page", nil, http.Header{"Accept-Language": {"de"}}); !strings.Contains(german.body, "Einen Moment") {
		t.Errorf("in German: got\n%s", german.body)
	}
	b := newBrowser(t, n)
	b.withAxe()
	b.logIn("vic")
	for _, decision := range []string{"challenged", "limited", "blocked"} {
		b.screens("visitor-"+decision, "/visitor-page?decision="+decision)
	}
}
