package accesslog

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/conditions"
)

func TestScopesDependOnMethodAndPath(t *testing.T) {
	scopes, err := ParseScopes([]string{"post /login = login", "/login*=page", "/a=b=c"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ method, path, want string }{
		{"POST", "/login?next=/", "login"}, {"Post", "//login", "login"}, {"GET", "/login", "page"}, {"POST", "/login/reset", "page"},
		{"GET", "/", ""}, {"GET", "", ""}, {"GET", "/a=b", "c"}, {"", "", ""},
	} {
		r := Record{Method: test.method, Path: test.path}
		if got := scopes.Of(&r, conditions.NewRequest(r.Path, r.Method, "", "")); got != test.want {
			t.Errorf("%s %s is in the scope %q, want %q", test.method, test.path, got, test.want)
		}
	}
	for _, text := range []string{"/login", "=login", "/login=", "/login=Login", "login=login", "POST=login", "POST login=login", "/a?b=login", "/" + strings.Repeat("x", 300) + "=login"} {
		if s, err := ParseScopes([]string{text}); err == nil {
			t.Errorf("ParseScopes(%q): got %+v, want an error", text, s)
		}
	}
	if _, err := ParseScopes(make([]string, maxScopes+1)); err == nil {
		t.Error("ParseScopes of too many scopes: got no error")
	}
}
