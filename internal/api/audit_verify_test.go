package api

import (
	"net/http"
	"testing"

	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

func TestVerifyAuditComparesKeptHead(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		verify := func(query string) wire.AuditVerification {
			t.Helper()
			return read[wire.AuditVerification](t, n.must(n.as(identity.Read, get, "/v1/audit/verify"+query, ""), http.StatusOK))
		}
		first := verify("")
		if !first.Intact || first.Problem != "" || first.Records < 4 || first.Head == "" || first.Kept != "" || first.FirstAt.IsZero() {
			t.Fatalf("verify without a head: got %+v", first)
		}
		n.makeToken(identity.Token{Name: "later", Scopes: []identity.Access{identity.Check}})
		if v := verify("?head=" + string(first.Head)); !v.Intact || v.Kept != "in_chain" || v.Head == first.Head || v.Records != first.Records+1 {
			t.Fatalf("%+v", v)
		}
		if v := verify("?head=ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"); v.Intact || v.Kept != "missing" || v.Problem == "" {
			t.Fatalf("%+v", v)
		}
		n.wantProblem(n.as(identity.Read, get, "/v1/audit/verify?head=x", ""), http.StatusUnprocessableEntity, "head")
		n.wantProblem(n.as(identity.Read, get, "/v1/audit/verify?from=x", ""), http.StatusUnprocessableEntity, "from")
	})
}
