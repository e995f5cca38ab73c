package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
)

// The instant that is Go's zero time is what a program sends that has not set its time. It is
// refused as any other time that has passed: an expiry of it would mean never.
func TestZeroTimeIsRejected(t *testing.T) {
	const zero = "0001-01-01T00:00:00Z"
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		token := read[wire.CreatedToken](t, n.must(n.as(administer, post, "/v1/tokens", `{"name":"ci","scopes":["read"],"expires_in":"30d"}`), http.StatusCreated))
		for _, c := range []struct{ method, path, body, field string }{
			{post, "/v1/tokens", `{"name":"a","scopes":["admin"],"expires_at":"` + zero + `"}`, "expires_at"},
			{patch, "/v1/tokens/" + token.ID, `{"expires_at":"` + zero + `"}`, "expires_at"},
			{post, "/v1/blocks", `{"pattern":"token:a","reason":"x","expires_at":"` + zero + `"}`, "expires_at"},
			{put, "/v1/keys/limits/token:a", `{"rules":["5/m"],"reason":"x","expires_at":"` + zero + `"}`, "expires_at"},
			{post, "/v1/blocks/import?reason=x&expires_at=" + zero, `[{"pattern":"token:a"}]`, "expires_at"},
			{get, "/v1/offenders?from=" + zero, "", "from"},
		} {
			n.wantProblem(n.as(administer, c.method, c.path, c.body), http.StatusUnprocessableEntity, c.field)
		}
		a := n.must(n.as(administer, post, "/v1/blocks/import", `[{"pattern":"token:a","reason":"x","expires_at":"`+zero+`"}]`), http.StatusUnprocessableEntity)
		if !strings.Contains(a.body, zero) {
			t.Errorf("a row: %s", a.body)
		}
	})
}
