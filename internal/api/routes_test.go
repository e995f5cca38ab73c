package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

func TestServedRoutesAreInRouteTable(t *testing.T) {
	n := startNode(t)
	inTable := func(listener httpserver.Listener, method, path string) bool {
		if method == http.MethodHead {
			method = http.MethodGet
		}
		return slices.ContainsFunc(n.server.Routes(), func(r httpserver.Route) bool {
			return r.Listener == listener && r.Method == method && r.Path == path
		})
	}
	for listener, app := range map[httpserver.Listener]*fiber.App{httpserver.Checks: n.server.CheckApp(), httpserver.Admin: n.server.AdminApp()} {
		routes := app.GetRoutes()
		if len(routes) == 0 {
			t.Fatal("no route is registered")
		}
		for _, r := range routes {
			if !inTable(listener, r.Method, r.Path) {
				t.Errorf("%s %s is served and is not in the route table", r.Method, r.Path)
			}
		}
	}
	for _, r := range n.server.Routes() {
		switch r.Access {
		case identity.Public, identity.Check, identity.Bouncer, identity.Read, identity.Operate, identity.Admin:
		default:
			t.Errorf("%s %s requires the unknown access %q", r.Method, r.Path, r.Access)
		}
	}
}

// Paths that match two routes, such as /v1/keys/notes/{id} and /v1/keys/{key}/limit, would make
// both descriptions unclear.
func TestRoutePathsAreUnambiguous(t *testing.T) {
	var paths [][]string
	for _, r := range startNode(t).server.Routes() {
		paths = append(paths, strings.Split(r.Path, "/"))
	}
	for i, a := range paths {
		for _, b := range paths[:i] {
			if len(a) == len(b) && areAmbiguous(a, b) {
				t.Errorf("a path can match both %s and %s", strings.Join(b, "/"), strings.Join(a, "/"))
			}
		}
	}
}

// areAmbiguous reports whether a path may match both, and neither is more specific in every
// segment in which they differ.
func areAmbiguous(a, b []string) bool {
	aSaysMore, bSaysMore := false, false
	for i := range a {
		aVaries, bVaries := strings.HasPrefix(a[i], ":"), strings.HasPrefix(b[i], ":")
		switch {
		case aVaries && !bVaries:
			bSaysMore = true
		case bVaries && !aVaries:
			aSaysMore = true
		case !aVaries && a[i] != b[i]:
			return false
		}
	}
	return aSaysMore && bSaysMore
}

// credential is a kind of credential, and the access that it gives.
type credential struct {
	name   string
	header string
	access []identity.Access // nil: it is invalid
}

func credentials(n *testNode) []credential {
	all := []credential{
		{"no token", "", nil},
		{"a token that does not exist", "Bearer " + identity.NewSecret(nil).Text, nil},
		{"basic credentials", "Basic YWRtaW46YWRtaW4=", nil},
		{"a token without its scheme", n.tokens[identity.Admin], nil},
	}
	for scope, secret := range n.tokens {
		all = append(all, credential{"a token with the scope " + string(scope), "Bearer " + secret, []identity.Access{scope}})
	}
	everything := []identity.Access{identity.Admin, identity.Check}
	revoked := n.makeToken(identity.Token{Name: "revoked", Scopes: everything})
	token, _ := n.known.TokenByHash(identity.HashSecret(revoked))
	if _, err := n.store.Identities.RevokeToken(n.Context(), audit.SystemActor("test"), token.ID); err != nil {
		n.Fatal(err)
	}
	expired := n.makeToken(identity.Token{Name: "expired", Scopes: everything, Expires: n.clock.Now().Add(time.Second)})
	n.clock.Add(time.Second)
	return append(all,
		credential{"a revoked token", "Bearer " + revoked, nil},
		credential{"an expired token", "Bearer " + expired, nil},
		credential{"a token with two scopes", "Bearer " + n.makeToken(identity.Token{Name: "two", Scopes: []identity.Access{identity.Check, identity.Read}}), []identity.Access{identity.Check, identity.Read}},
	)
}

func TestRoutesRejectCallersWithoutAccess(t *testing.T) {
	reached := false
	n := startNode(t, func(d *nodeParts) {
		d.Server.CheckAuth = true
		d.Server.Sessions = roleSessions{}
	})
	// The real handlers would change state during the test.
	for i := range n.server.Routes() {
		n.server.Routes()[i].Handler = func(c *httpserver.Call) error { reached = true; return c.SendStatus(http.StatusNoContent) }
	}
	all := credentials(n)
	for _, role := range []identity.Role{identity.Viewer, identity.Operator, identity.Administrator} {
		all = append(all, credential{"a session of the role " + string(role), "Role " + string(role), []identity.Access{role.Access()}})
	}
	for _, r := range n.server.Routes() {
		base := n.admin
		if r.Listener == httpserver.Checks {
			base = n.check
		}
		path := strings.NewReplacer(":name", "default", ":id", "1").Replace(r.Path)
		for _, who := range all {
			n.clock.Add(time.Hour) // so that no guess is counted against the next
			if strings.HasPrefix(who.name, "a session") && r.Listener == httpserver.Checks {
				continue
			}
			may := r.Access == identity.Public || (&httpserver.Principal{Access: who.access}).May(r.Access)
			want := http.StatusForbidden
			switch {
			case may:
				want = http.StatusNoContent
			case who.access == nil || r.Listener == httpserver.Checks:
				want = http.StatusUnauthorized
			}
			reached = false
			var headers []string
			if who.header != "" {
				headers = []string{"Authorization: " + who.header}
			}
			a := n.send(r.Method, base+path, "", headers...)
			if a.status != want || reached != may {
				t.Errorf("%s %s with %s: got %d, want %d (reached %v)", r.Method, path, who.name, a.status, want, reached)
			}
			if want == http.StatusUnauthorized && a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s with %s: the 401 has no WWW-Authenticate header", r.Method, path, who.name)
			}
		}
	}
}

// roleSessions gives everyone the role that a header names, as a logged in
// user of the pages has one.
type roleSessions struct{}

func (roleSessions) SessionOf(_ context.Context, c *fiber.Ctx) (*httpserver.Principal, error) {
	name, found := strings.CutPrefix(c.Get(fiber.HeaderAuthorization), "Role ")
	if !found {
		return nil, nil
	}
	role := identity.Role(name)
	return &httpserver.Principal{Kind: audit.User, ID: "u", Name: "someone", Role: role, Access: []identity.Access{role.Access()}}, nil
}

func (roleSessions) SessionHolds(context.Context, *httpserver.Principal) (bool, error) {
	return true, nil
}

func TestProblemDetailsSayWhatIsAllowed(t *testing.T) {
	n := startNode(t)
	admin := func(method, path, body string, headers ...string) answer {
		return n.as(identity.Admin, method, path, body, headers...)
	}
	for _, c := range []struct {
		a     answer
		field string
		want  string
	}{
		{n.ask(`[]`), "", "must be a JSON object, got an array."},
		{n.ask(`"x"`), "", "must be a JSON object, got string."},
		{n.ask(`{"key":{}}`), "key", "must be a string, got an object"},
		{admin(http.MethodPost, wire.PathTokens, `[]`), "", "must be a JSON object, got an array."},
		{admin(http.MethodPost, wire.PathTokens, `{"name":"a","scopes":["read"],"expires_in":5}`), "expires_in", "expires_in: must be a string, got number"},
		{admin(http.MethodPost, wire.PathTokens, `{"name":"a","scopes":["read"],"expires_in":"5"}`), "expires_in", "expires_in: must be a length of time"},
		{admin(http.MethodPost, wire.PathTokens, `{"name":"a","scopes":["read"],"expires_at":5}`), "expires_at", "expires_at: must be an RFC 3339 time in quotes"},
		{admin(http.MethodPost, wire.PathTokens, `{"name":"a","scopes":["read"],"expires_at":"0001-01-01T00:00:00Z"}`), "expires_at", "expires_at: must be later than 0001-"},
		{admin(http.MethodPut, "/v1/policies/Bad%20Name", `{"name":"Bad Name","match":["q:*"],"rules":["1/s"]}`, "If-None-Match: *"), "name", "must be 1 to 64 of a-z"},
		{admin(http.MethodPut, "/v1/policies/good", `{"name":"better","match":["q:*"],"rules":["1/s"]}`, "If-None-Match: *"), "name", `must be as in the path, "good", or be omitted`},
		{admin(http.MethodGet, wire.PathAttack+"?at=foo", ""), "at", "is not a parameter here; this path takes no parameters"},
		{admin(http.MethodGet, wire.PathAudit+"?at=foo", ""), "at", "is not a parameter here; the parameters are "},
	} {
		if p := n.wantProblem(c.a, http.StatusUnprocessableEntity, c.field); !strings.Contains(p.Detail, c.want) {
			t.Errorf("got %q, want it to contain %q", p.Detail, c.want)
		}
	}
	if p := n.wantProblem(admin(http.MethodGet, "/v1/policies/Bad%20Name", ""), http.StatusNotFound, ""); !strings.Contains(p.Detail, `"Bad Name"`) {
		t.Errorf("got %q, want it to contain the name", p.Detail)
	}
	n.wantProblem(admin(http.MethodGet, "/v1/policies/bad%0Aname", ""), http.StatusNotFound, "")
}

func TestTwoAuthorizationHeadersAreRejected(t *testing.T) {
	n := startNode(t)
	request := "GET /v1/policies HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + n.tokens[identity.Check] + "\r\nAuthorization: Bearer " + n.tokens[identity.Admin] + "\r\n\r\n"
	answers := raw(t, n.admin, request)
	if len(answers) != 1 || answers[0].status != http.StatusUnauthorized {
		t.Fatalf("got %+v", answers)
	}
}

func TestGuessingTokensIsThrottledForWrongTokensOnly(t *testing.T) {
	n := startNode(t)
	guess := func() answer {
		return n.send(http.MethodGet, n.admin+wire.PathWhoami, "", "Authorization: Bearer guess")
	}
	for range 20 {
		n.wantProblem(guess(), http.StatusUnauthorized, "")
	}
	a := guess()
	n.wantProblem(a, http.StatusTooManyRequests, "")
	if a.header.Get("Retry-After") != "60" {
		t.Errorf("got Retry-After %q, want 60", a.header.Get("Retry-After"))
	}
	n.must(n.as(identity.Read, http.MethodGet, wire.PathWhoami, ""), http.StatusOK)
	n.clock.Add(time.Minute)
	n.wantProblem(guess(), http.StatusUnauthorized, "")
}

func TestUnauthorizedProblemExplainsBadToken(t *testing.T) {
	n := startNode(t)
	good := n.tokens[identity.Admin]
	for header, want := range map[string]string{
		"Bearer " + good[:len(good)-1] + "!": "no such token",
		"Bearer " + swapLast(good):           "mistyped",
		"Bearer ":                            "Send a token",
	} {
		p := n.wantProblem(n.send(http.MethodGet, n.admin+wire.PathWhoami, "", "Authorization: "+header), http.StatusUnauthorized, "")
		if !strings.Contains(p.Detail, want) {
			t.Errorf("got %q, want it to contain %q", p.Detail, want)
		}
	}
	if strings.Contains(n.logged.String(), good[20:40]) {
		t.Error("the log contains a secret")
	}
}

func swapLast(text string) string {
	last := byte('0')
	if text[len(text)-1] == last {
		last = '1'
	}
	return text[:len(text)-1] + string(last)
}

func TestTokenUseIsStored(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		n.must(n.as(identity.Read, http.MethodGet, wire.PathWhoami, ""), http.StatusOK)
		n.server.FlushTokenUse(t.Context())
		page := read[wire.Page[wire.Token]](t, n.must(n.as(identity.Admin, http.MethodGet, wire.PathTokens, ""), http.StatusOK))
		for _, token := range page.Items {
			if used := !token.LastUsedAt.IsZero(); used != (token.Name == "test-read") {
				t.Errorf("%s: last used %s", token.Name, token.LastUsedAt)
			}
		}
	})
}
