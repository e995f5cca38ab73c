package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

func TestSavedChangeThatIsNotInEffectReturnsCodeSaved(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		n.isUnreadable.Store(true)
		a := n.as(operate, post, "/v1/blocks", `{"pattern":"token:a"}`)
		p := n.wantProblem(a, http.StatusInternalServerError, "")
		if p.Code != "saved" || a.header.Get("Retry-After") != "" || !strings.Contains(p.Detail, "is saved; do not repeat it") {
			t.Errorf("got %+v, Retry-After %q", p, a.header.Get("Retry-After"))
		}
		made := read[wire.CreatedToken](t, n.must(n.as(administer, post, "/v1/tokens", `{"name":"ci","scopes":["check"]}`), http.StatusCreated))
		if made.Secret == "" || len(made.Warnings) != 1 || !strings.Contains(made.Warnings[0], "not in effect on this node yet") {
			t.Errorf("got %+v", made)
		}
		next := read[wire.CreatedToken](t, n.must(n.as(administer, post, "/v1/tokens/"+made.ID+"/rotate", ""), http.StatusCreated))
		if next.Secret == "" || next.Replaces == nil || len(next.Warnings) != 1 {
			t.Errorf("got %+v", next)
		}
		guide := read[wire.Guide](t, n.must(n.as(administer, post, "/v1/connect/nginx/token", ""), http.StatusCreated))
		if guide.Token == nil || guide.Token.Secret == "" || len(guide.Token.Warnings) != 1 {
			t.Errorf("got %+v", guide.Token)
		}
		n.isUnreadable.Store(false)
		n.wantProblem(n.as(operate, post, "/v1/blocks", `{"pattern":"token:a"}`), http.StatusConflict, "")
		if again := read[wire.CreatedToken](t, n.must(n.as(administer, post, "/v1/tokens", `{"name":"other","scopes":["check"]}`), http.StatusCreated)); len(again.Warnings) != 0 {
			t.Errorf("got %+v", again)
		}
	})
}

func TestInterruptedCommitReturnsCodeMaybeSaved(t *testing.T) {
	relay := servers.NewCommitBreaker(t, storetest.Migrated.Postgres(t).URL)
	n := startNodeOn(t, relay.URL)
	relay.BreakNext("token:a", false)
	a := n.as(operate, post, "/v1/blocks", `{"pattern":"token:a"}`)
	p := n.wantProblem(a, http.StatusInternalServerError, "")
	if p.Code != "maybe_saved" || a.header.Get("Retry-After") != "" || !strings.Contains(p.Detail, "/v1/audit") {
		t.Errorf("got %+v, Retry-After %q", p, a.header.Get("Retry-After"))
	}
	audit := read[wire.Page[wire.AuditEntry]](t, n.must(n.as(reader, get, "/v1/audit?action=block", ""), http.StatusOK))
	if len(audit.Items) != 1 {
		t.Errorf("got the audit records %+v, want 1", audit.Items)
	}
}
