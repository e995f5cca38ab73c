package adminui_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/openidprovider"
)

// A reader of the audit may think that Ann and ann are one user.
func TestOpenIDUserNamesDifferByMoreThanCase(t *testing.T) {
	p := openidprovider.New(t)
	n := openIDNode(t, p, nil)
	_, err := n.store.Identities.AddUser(t.Context(), audit.SystemActor("test"), identity.User{Name: "Lee", Role: identity.Viewer})
	must(t, err)
	for name, subject := range map[string]string{"lee": "1", "LEE": "2", "kim": "3", "Kim": "4"} {
		n.logsInAs(p, map[string]any{"groups": "staff", "preferred_username": name, "sub": subject})
		v := n.visitor(t)
		v.get(v.callback("/login/oidc")).is(http.StatusOK)
	}
	users, err := n.store.Identities.FindUsers(t.Context(), wire.UserList{})
	must(t, err)
	seen := map[string]bool{}
	for _, u := range users.Items {
		if folded := strings.ToLower(u.Name); seen[folded] {
			t.Errorf("two users have the name %q, ignoring case", u.Name)
		} else {
			seen[folded] = true
		}
	}
}
