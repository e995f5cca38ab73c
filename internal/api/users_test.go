package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

func TestTheLastAdminCannotBeRemoved(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		var own string
		for _, token := range read[wire.Page[wire.Token]](t, n.as(administer, get, "/v1/tokens", "")).Items {
			if token.Name == "test-admin" {
				own = token.ID
			}
		}
		n.wantProblem(n.as(administer, del, "/v1/tokens/"+own, ""), http.StatusConflict, "")
		n.must(n.as(administer, get, "/v1/tokens/"+own, ""), http.StatusOK)
	})
}

func TestAUserIsMadeChangedAndDeleted(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		a := n.must(n.as(administer, post, "/v1/users", `{"name":"ada","role":"viewer","password":"correct horse"}`), http.StatusCreated)
		u := read[wire.User](t, a)
		if strings.Contains(a.body, "argon2") || u.Role != "viewer" || u.Disabled {
			t.Fatalf("got %s", a.body)
		}
		path := "/v1/users/" + u.ID
		n.wantProblem(n.as(administer, post, "/v1/users", `{"name":"ada","role":"viewer","password":"correct horse"}`), http.StatusConflict, "name")
		if u = read[wire.User](t, n.must(n.as(administer, patch, path, `{"role":"operator","disabled":true}`), http.StatusOK)); u.Role != "operator" || !u.Disabled {
			t.Fatalf("got %+v", u)
		}
		n.must(n.as(administer, put, path+"/password", `{"password":"battery staple"}`), http.StatusOK)
		stored, err := n.store.Identities.FindUserByID(t.Context(), u.ID)
		if err != nil || !identity.VerifyPassword(stored.PasswordHash, "battery staple") {
			t.Fatalf("the password was not changed: %v", err)
		}
		audited := n.must(n.as(reader, get, "/v1/audit?limit=1000", ""), http.StatusOK).body
		if strings.Contains(audited, "argon2") || strings.Contains(audited, "battery") {
			t.Error("the audit holds a password or its hash")
		}
		n.must(n.as(administer, get, path, ""), http.StatusOK)
		n.must(n.as(administer, del, path, ""), http.StatusNoContent)
		n.wantProblem(n.as(administer, get, path, ""), http.StatusNotFound, "")
	})
}
