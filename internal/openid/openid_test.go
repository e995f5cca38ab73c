package openid_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/openid"
	"github.com/stint-dev/stint/test/openidprovider"
)

const back = "http://127.0.0.1:8081" + openid.CallbackPath

// client is a node's client of a provider, at a time of its own.
type client struct {
	*openid.Provider
	now    time.Time
	secret []byte
	log    *strings.Builder
}

func newClient(t *testing.T, at *openidprovider.Provider, change ...func(*openid.Settings)) *client {
	t.Helper()
	roles, err := openid.ParseRoleMap("staff=viewer; ops=operator; cn=admins,ou=x=admin")
	if err != nil {
		t.Fatal(err)
	}
	s := openid.Settings{
		Issuer: at.URL, ClientID: openidprovider.ClientID, ClientSecret: openidprovider.ClientSecret, RedirectURL: back,
		Scopes: []string{"openid", "profile"}, GroupsClaim: "groups", NameClaim: "preferred_username", Roles: roles, Label: "Log in",
	}
	for _, f := range change {
		f(&s)
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	c := &client{now: time.Now(), secret: []byte("a secret that all nodes share"), log: &strings.Builder{}}
	c.Provider = openid.New(openid.Options{
		Settings: s, Secret: func() []byte { return c.secret }, Log: slog.New(slog.NewTextHandler(c.log, nil)), Now: func() time.Time { return c.now },
	})
	return c
}

// browse begins a login and returns the callback of the browser.
func (c *client) browse(t *testing.T, next string) openid.Callback {
	t.Helper()
	started, err := c.Start(t.Context(), next, "")
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := browser.Get(started.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	to, err := answer.Location()
	if err != nil || !strings.HasPrefix(to.String(), back+"?") {
		t.Fatalf("the provider sent the browser to %v, %v", to, err)
	}
	q := to.Query()
	return openid.Callback{Cookie: started.Cookie, State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"), Error: q.Get("error")}
}

// finish completes the login that a callback belongs to.
func (c *client) finish(t *testing.T, with openid.Callback) (*openid.Person, *openid.Flow, error) {
	t.Helper()
	flow, err := c.Match(with)
	if err != nil {
		return nil, nil, err
	}
	person, err := c.Finish(t.Context(), flow, with)
	return person, flow, err
}

func (c *client) wantFailure(t *testing.T, with openid.Callback, want openid.Reason) {
	t.Helper()
	_, _, err := c.finish(t, with)
	var failure *openid.Failure
	if !errors.As(err, &failure) || failure.Reason != want {
		t.Errorf("got %v, want %q", err, want)
	}
}

var inGroups = map[string]any{"groups": []string{"staff", "ops", "others"}}

func TestFinishReturnsHighestRoleOfGroups(t *testing.T) {
	p := openidprovider.New(t)
	c := newClient(t, p)
	for role, claims := range map[identity.Role]map[string]any{
		identity.Operator:      inGroups,
		identity.Viewer:        {"groups": "staff"},
		identity.Administrator: {"groups": []any{"cn=admins,ou=x", 7, "staff"}},
	} {
		p.Behave(openidprovider.Behaviour{Claims: claims})
		person, flow, err := c.finish(t, c.browse(t, "/blocks?x=1"))
		if err != nil || person.Role != role || person.Subject != "subject-1" || person.Issuer != p.URL || person.Name != "kim" || flow.Next != "/blocks?x=1" {
			t.Errorf("%s: %+v, %+v, %v", role, person, flow, err)
		}
	}
}

func TestFinishWorksOnOtherNodeWithSameSecretOnly(t *testing.T) {
	p := openidprovider.New(t)
	p.Behave(openidprovider.Behaviour{Claims: inGroups})
	one, two := newClient(t, p), newClient(t, p)
	if _, _, err := two.finish(t, one.browse(t, "/")); err != nil {
		t.Fatal(err)
	}
	stranger := newClient(t, p)
	stranger.secret = []byte("a secret of another installation")
	stranger.wantFailure(t, one.browse(t, "/"), openid.WrongState)
	other := newClient(t, p, func(s *openid.Settings) { s.ClientID = "other" })
	other.wantFailure(t, one.browse(t, "/"), openid.WrongState)
	one.secret = nil
	if _, err := one.Start(t.Context(), "/", ""); err == nil {
		t.Error("Start succeeded without a secret")
	}
}

func TestFinishRejectsForgedCallbacks(t *testing.T) {
	p := openidprovider.New(t)
	p.Behave(openidprovider.Behaviour{Claims: inGroups})
	c := newClient(t, p)
	change := func(f func(*openid.Callback)) openid.Callback {
		answer := c.browse(t, "/")
		f(&answer)
		return answer
	}
	mine, yours := c.browse(t, "/"), c.browse(t, "/")
	asked := p.Asked("/token")
	c.wantFailure(t, change(func(a *openid.Callback) { a.Cookie = "" }), openid.WrongState)
	c.wantFailure(t, change(func(a *openid.Callback) { a.State = "" }), openid.WrongState)
	c.wantFailure(t, change(func(a *openid.Callback) { a.Cookie = a.Cookie[:40] + "A" + a.Cookie[41:] + "A" }), openid.WrongState)
	c.wantFailure(t, change(func(a *openid.Callback) { a.Cookie = strings.Repeat("A", 5000) }), openid.WrongState)
	c.wantFailure(t, openid.Callback{Cookie: mine.Cookie, State: yours.State, Code: yours.Code, Issuer: p.URL}, openid.WrongState)
	c.wantFailure(t, change(func(a *openid.Callback) { a.Issuer = "https://evil.example.com" }), openid.WrongIssuer)
	c.wantFailure(t, change(func(a *openid.Callback) { a.Issuer = "" }), openid.WrongIssuer)
	c.wantFailure(t, change(func(a *openid.Callback) { a.Code = "" }), openid.NoCode)
	c.wantFailure(t, change(func(a *openid.Callback) { a.Error = "access_denied" }), "the provider answered access_denied")
	c.wantFailure(t, change(func(a *openid.Callback) { a.Error = "<script>" }), "the provider answered an unknown error")
	if p.Asked("/token") != asked {
		t.Error("the provider was called for a callback that belongs to no login")
	}
	// The code of another login does not match this one's PKCE verifier.
	c.wantFailure(t, openid.Callback{Cookie: mine.Cookie, State: mine.State, Code: yours.Code, Issuer: p.URL}, openid.CodeRefused)
	late := c.browse(t, "/")
	c.now = c.now.Add(openid.FlowLifetime)
	c.wantFailure(t, late, openid.FlowExpired)
	c.now = c.now.Add(-openid.FlowLifetime)
	once := c.browse(t, "/")
	if _, _, err := c.finish(t, once); err != nil {
		t.Fatal(err)
	}
	c.wantFailure(t, once, openid.CodeRefused)
}

func TestFinishRejectsInvalidIDTokens(t *testing.T) {
	p := openidprovider.New(t)
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	with := func(name string, value any) openidprovider.Behaviour {
		return openidprovider.Behaviour{Claims: map[string]any{"groups": []string{"ops"}, name: value}}
	}
	signed := func(sign func([]byte) string) openidprovider.Behaviour {
		return openidprovider.Behaviour{Claims: inGroups, Sign: sign}
	}
	for _, is := range []struct {
		behaviour openidprovider.Behaviour
		want      openid.Reason
	}{
		{with("nonce", "of another login"), openid.WrongNonce},
		{with("nonce", nil), openid.WrongNonce},
		{with("aud", "another-client"), openid.InvalidToken},
		{with("aud", []string{openidprovider.ClientID, "another-client"}), openid.WrongParty},
		{with("azp", "another-client"), openid.WrongParty},
		{with("iss", "https://evil.example.com"), openid.InvalidToken},
		{with("exp", time.Now().Add(-time.Minute).Unix()), openid.TokenExpired},
		{with("sub", ""), openid.NoSubject},
		{with("sub", strings.Repeat("x", 256)), openid.NoSubject},
		{with("sub", "a\x00b"), openid.NoSubject},
		{with("SUB", "subject-2"), openid.InvalidToken}, // package oidc reads it as sub
		{with("\u017fub", "subject-2"), openid.InvalidToken},
		{with("Aud", openidprovider.ClientID), openid.InvalidToken},
		{with("groups", nil), openid.NoGroups},
		{with("groups", []string{"others"}), openid.NoRole},
		{with("groups", map[string]any{"ops": true}), openid.NoGroups},
		{signed(openidprovider.Unsigned), openid.InvalidToken},
		{signed(func(claims []byte) string {
			return openidprovider.SignWith(jose.HS256, []byte(openidprovider.ClientSecret+strings.Repeat(" ", 32)), claims)
		}), openid.InvalidToken},
		{signed(func(claims []byte) string { return openidprovider.SignWith(jose.ES256, stranger, claims) }), openid.InvalidToken},
		{signed(func([]byte) string { return "" }), openid.NoIDToken},
		{signed(func([]byte) string { return "not.a.token" }), openid.InvalidToken},
	} {
		p.Behave(is.behaviour)
		c := newClient(t, p)
		c.wantFailure(t, c.browse(t, "/"), is.want)
		if strings.Contains(c.log.String(), "eyJ") {
			t.Errorf("%s: the log contains a token: %s", is.want, c.log)
		}
	}
}

func TestFinishAcceptsRotatedKeys(t *testing.T) {
	p := openidprovider.New(t)
	p.Behave(openidprovider.Behaviour{Claims: inGroups})
	c := newClient(t, p)
	for range 3 {
		if _, _, err := c.finish(t, c.browse(t, "/")); err != nil {
			t.Fatal(err)
		}
		p.RotateKey()
	}
}

func TestGroupsAreReadFromUserinfoOfSameSubject(t *testing.T) {
	p := openidprovider.New(t)
	c := newClient(t, p, func(s *openid.Settings) { s.GroupsClaim, s.NameClaim = "realm_access.roles", "nickname" })
	roles := map[string]any{"roles": []string{"ops"}}
	p.Behave(openidprovider.Behaviour{UserInfo: map[string]any{"sub": "subject-1", "realm_access": roles, "nickname": "Kim B."}})
	person, _, err := c.finish(t, c.browse(t, "/"))
	if err != nil || person.Role != identity.Operator || person.Name != "Kim B." {
		t.Fatalf("%+v, %v", person, err)
	}
	for _, info := range []map[string]any{
		{"sub": "subject-2", "realm_access": roles}, {"sub": "subject-2", "\u017fub": "subject-1", "realm_access": roles}, {"sub": "subject-1"},
	} {
		p.Behave(openidprovider.Behaviour{UserInfo: info})
		c.wantFailure(t, c.browse(t, "/"), openid.NoGroups)
	}
	p.Behave(openidprovider.Behaviour{UserInfo: map[string]any{}, Paths: map[string]http.HandlerFunc{"/userinfo": func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "down", http.StatusBadGateway)
	}}})
	c.wantFailure(t, c.browse(t, "/"), openid.Unreachable) // the person may have groups
}

func TestLoginCookieWithLongNextPathStaysSmall(t *testing.T) {
	p := openidprovider.New(t)
	p.Behave(openidprovider.Behaviour{Claims: inGroups})
	c := newClient(t, p)
	for next, want := range map[string]string{
		"/x?" + strings.Repeat("a=1&", 250): "/x?" + strings.Repeat("a=1&", 250),
		"/x?" + strings.Repeat("&", 900):    "/", // in JSON each has six bytes
		"/" + strings.Repeat("x", 9000):     "/",
	} {
		answer := c.browse(t, next)
		if len(answer.Cookie) > 4000 {
			t.Errorf("%.10s: the cookie has %d bytes, want at most 4000", next, len(answer.Cookie))
		}
		if _, flow, err := c.finish(t, answer); err != nil || flow.Next != want {
			t.Errorf("%.10s: got %+v, %v, want the next page %.10s", next, flow, err, want)
		}
	}
}

func TestMisbehavingProviderFailsLoginAndLogsOnce(t *testing.T) {
	const metadata = "/.well-known/openid-configuration"
	p := openidprovider.New(t)
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for range 64 {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}
	elsewhere := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, p.URL+"/other", http.StatusTemporaryRedirect)
	}
	fails := func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "eyJhbGciOi", http.StatusInternalServerError)
	}
	for what, b := range map[string]openidprovider.Behaviour{
		"endless metadata":     {Paths: map[string]http.HandlerFunc{metadata: endless}},
		"redirected metadata":  {Paths: map[string]http.HandlerFunc{metadata: elsewhere}},
		"failing metadata":     {Paths: map[string]http.HandlerFunc{metadata: fails}},
		"another issuer":       {Metadata: map[string]any{"issuer": "https://evil.example.com"}},
		"a file as endpoint":   {Metadata: map[string]any{"token_endpoint": "file:///etc/passwd"}},
		"no keys":              {Metadata: map[string]any{"jwks_uri": ""}},
		"a login elsewhere":    {Metadata: map[string]any{"authorization_endpoint": "javascript:alert(1)"}},
		"metadata of nonsense": {Paths: map[string]http.HandlerFunc{metadata: func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("[")) }}},
	} {
		p.Behave(b)
		c := newClient(t, p)
		var failure *openid.Failure
		if _, err := c.Start(t.Context(), "/", ""); !errors.As(err, &failure) || failure.Reason != openid.Unreachable || c.Failing().IsZero() {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, b := range map[string]openidprovider.Behaviour{
		"an endless token":   {Paths: map[string]http.HandlerFunc{"/token": endless}},
		"a redirected token": {Paths: map[string]http.HandlerFunc{"/token": elsewhere}},
		"a failing token":    {Paths: map[string]http.HandlerFunc{"/token": fails}},
		"endless keys":       {Claims: inGroups, Paths: map[string]http.HandlerFunc{"/jwks": endless}},
		"redirected keys":    {Claims: inGroups, Paths: map[string]http.HandlerFunc{"/jwks": elsewhere}},
		"keys over file":     {Claims: inGroups, Paths: map[string]http.HandlerFunc{"/jwks": fails}},
	} {
		p.Behave(b)
		c := newClient(t, p)
		answer := c.browse(t, "/")
		var failure *openid.Failure
		if _, _, err := c.finish(t, answer); !errors.As(err, &failure) {
			t.Errorf("%s: %v", what, err)
		}
		c.log.Reset()
		if _, _, err := c.finish(t, answer); err == nil || c.log.Len() > 0 {
			t.Errorf("%s: the second failure returned %v and logged %q, want an error and no log", what, err, c.log)
		}
	}
	if p.Asked("/other") > 0 {
		t.Error("a redirect was followed")
	}
}

func TestProviderIsRetriedAfterOutage(t *testing.T) {
	const metadata = "/.well-known/openid-configuration"
	p := openidprovider.New(t)
	p.Behave(openidprovider.Behaviour{Paths: map[string]http.HandlerFunc{metadata: http.NotFound}})
	c := newClient(t, p)
	for range 5 { // only the first call asks the provider
		if _, err := c.Start(t.Context(), "/", ""); err == nil {
			t.Fatal("Start succeeded without a provider")
		}
	}
	if n := p.Asked(metadata); n != 1 {
		t.Errorf("the provider was asked %d times, want once", n)
	}
	p.Behave(openidprovider.Behaviour{Claims: inGroups})
	c.now = c.now.Add(3 * time.Second)
	if _, _, err := c.finish(t, c.browse(t, "/")); err != nil || !c.Failing().IsZero() {
		t.Errorf("%v, failing since %v", err, c.Failing())
	}
	u, err := url.Parse(c.LogoutURL("/login"))
	if err != nil || u.Path != "/logout" || u.Query().Get("post_logout_redirect_uri") != "http://127.0.0.1:8081/login" {
		t.Errorf("got the logout URL %v, %v", u, err)
	}
}

func TestValidateNamesBadSettings(t *testing.T) {
	roles, _ := openid.ParseRoleMap("a=viewer")
	good := openid.Settings{
		Issuer: "https://id.example.com", ClientID: "stint", ClientSecret: "s", RedirectURL: "https://stint.example.com" + openid.CallbackPath,
		Scopes: []string{"openid"}, GroupsClaim: "groups", NameClaim: "name", Roles: roles, Label: "Log in",
	}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*openid.Settings){
		"--oidc-issuer is missing":       func(s *openid.Settings) { s.Issuer = "" },
		"--oidc-issuer: must begin":      func(s *openid.Settings) { s.Issuer = "http://id.example.com" },
		"--oidc-issuer: must be a URL":   func(s *openid.Settings) { s.Issuer = "id.example.com" },
		"--oidc-client-id":               func(s *openid.Settings) { s.ClientID = "" },
		"STINT_OIDC_CLIENT_SECRET":       func(s *openid.Settings) { s.ClientSecret = "" },
		"--oidc-redirect-url is missing": func(s *openid.Settings) { s.RedirectURL = "" },
		"--oidc-redirect-url: must end":  func(s *openid.Settings) { s.RedirectURL = "https://stint.example.com/" },
		"--oidc-redirect-url: must be":   func(s *openid.Settings) { s.RedirectURL += "?x=1" },
		"--oidc-roles":                   func(s *openid.Settings) { s.Roles = nil },
		"--oidc-scopes":                  func(s *openid.Settings) { s.Scopes = []string{"email"} },
		"--oidc-groups-claim":            func(s *openid.Settings) { s.GroupsClaim = "" },
		"--oidc-label":                   func(s *openid.Settings) { s.Label = "" },
	} {
		s := good
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v", want, err)
		}
	}
	for _, bad := range []string{"a", "a=", "=viewer", "a=owner", "a=viewer; a=admin"} {
		if m, err := openid.ParseRoleMap(bad); err == nil {
			t.Errorf("ParseRoleMap(%q) = %v, want an error", bad, m)
		}
	}
	if none := openid.New(openid.Options{}); none != nil {
		t.Error("New returned a provider without settings")
	}
}
