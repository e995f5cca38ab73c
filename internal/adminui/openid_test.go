package adminui_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/openid"
	"github.com/stint-dev/stint/test/openidprovider"
)

// openIDNode returns a node whose people may log in with a provider; passwords are the
// only users who may use one, nil for all.
func openIDNode(t *testing.T, p *openidprovider.Provider, passwords []string) *node {
	t.Helper()
	return openIDNodeAt(t, p, passwords, "")
}

// openIDNodeAt is openIDNode for people who reach the pages at another URL, "" for the
// node's own.
func openIDNodeAt(t *testing.T, p *openidprovider.Provider, passwords []string, pages string) *node {
	t.Helper()
	roles, err := openid.ParseRoleMap("staff=viewer; ops=operator; admins=admin")
	must(t, err)
	return newNode(t, func(d *adminui.Deps) {
		d.Logins.PasswordUsers = passwords
		d.OpenID = &identities.OpenIDLogins{
			Users: d.Users.Store.(identities.OpenIDStore), Sessions: d.Logins.Sessions, Throttle: d.Logins.Throttle.(identities.OpenIDThrottle),
			Failed: d.Logins.Failed, Reserved: passwords, Now: d.Now,
			Provider: openid.New(openid.Options{
				Settings: openid.Settings{
					Issuer: p.URL, ClientID: openidprovider.ClientID, ClientSecret: openidprovider.ClientSecret,
					RedirectURL: cmp.Or(pages, d.AdminURL) + openid.CallbackPath, Scopes: []string{"openid"}, GroupsClaim: "groups", NameClaim: "preferred_username",
					Roles: roles, Label: "Log in with Example",
				},
				Secret: func() []byte { return []byte("a secret that all nodes share") }, Log: slog.New(slog.DiscardHandler), Now: d.Now,
			}),
		}
	})
}

// logsInAs makes the provider log everybody in with these claims, at the node's time.
func (n *node) logsInAs(p *openidprovider.Provider, claims map[string]any) {
	p.Behave(openidprovider.Behaviour{Claims: claims, Now: n.clock.Now})
}

// callback begins a login and returns the path that the provider sends the browser to.
func (v *visitor) callback(start string) string {
	v.t.Helper()
	to := v.get(start).is(http.StatusSeeOther).header.Get("Location")
	answer, err := v.http.Get(to)
	must(v.t, err)
	answer.Body.Close()
	back, found := strings.CutPrefix(answer.Header.Get("Location"), v.node.url)
	if !found {
		v.t.Fatalf("the provider redirected to %q", answer.Header.Get("Location"))
	}
	return back
}

func (n *node) userNamed(t *testing.T, name string) *identity.User {
	t.Helper()
	u, err := n.store.Identities.FindUserByName(t.Context(), name)
	must(t, err)
	return u
}

func (n *node) summaries(t *testing.T, action string) string {
	t.Helper()
	must(t, n.failed.Flush(t.Context(), n.store.Audit))
	records, err := n.store.Audit.FindRecords(t.Context(), audit.Filter{Action: action})
	must(t, err)
	var all []string
	for _, r := range records.Records {
		all = append(all, r.Summary)
	}
	return strings.Join(all, "\n")
}

func wantParts(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not contain %q", text, part)
		}
	}
}

func TestOpenIDLoginReturnsToRequestedPage(t *testing.T) {
	p := openidprovider.New(t)
	n := openIDNode(t, p, nil)
	n.logsInAs(p, map[string]any{"groups": []string{"ops"}})
	v := n.visitor(t)
	v.get("/login?next=%2Fblocks%3Fq%3D1").is(http.StatusOK).holds("Log in with Example").holds(`href="/login/oidc?next=%2Fblocks%3Fq%3D1"`).holds("Password")
	back := v.callback("/login/oidc?next=%2Fblocks%3Fq%3D1")
	done := v.get(back).is(http.StatusOK).holds(`href="/blocks?q=1"`).holds(`url=/blocks?q=1`)
	for _, cookie := range done.header.Values("Set-Cookie") {
		if strings.HasPrefix(cookie, "stint_session=") && !(strings.Contains(cookie, "HttpOnly") && strings.Contains(cookie, "SameSite=Strict")) {
			t.Errorf("got the session cookie %s, want HttpOnly and SameSite=Strict", cookie)
		}
	}
	v.get("/blocks").is(http.StatusOK).holds("kim")
	v.get("/users").is(http.StatusForbidden)
	// The same callback cannot be used again.
	v.get(back).is(http.StatusForbidden).holds("Start again")
	n.as(t, "maria").get("/users").is(http.StatusOK).holds("single sign-on").holds("kim")
	wantParts(t, n.summaries(t, "session.login"), `"kim" logged in with the OpenID provider `+p.URL)
	wantParts(t, n.summaries(t, "user.add"), `Added the user "kim"`)
	wantParts(t, n.summaries(t, "session.login_failed"), "the answer does not belong to a login of this browser")
	v.post("/logout", nil).is(http.StatusSeeOther)
	v.get("/login?out=yes").is(http.StatusOK).holds("You are logged out of Stint").holds(p.URL + "/logout?")
}

func TestOpenIDCookiesAreSecureBehindTLSProxy(t *testing.T) {
	p := openidprovider.New(t)
	const pages = "https://stint.example.com"
	n := openIDNodeAt(t, p, nil, pages)
	n.logsInAs(p, map[string]any{"groups": "staff"})
	v := n.visitor(t)
	started := v.get("/login/oidc").is(http.StatusSeeOther)
	flow, err := http.ParseSetCookie(started.header.Get("Set-Cookie"))
	must(t, err)
	if flow.Name != "__Host-stint-oidc" || !flow.Secure || !flow.HttpOnly || flow.SameSite != http.SameSiteLaxMode || flow.Path != "/" || flow.MaxAge != 600 {
		t.Errorf("got the login cookie %v", flow)
	}
	answer, err := v.http.Get(started.header.Get("Location"))
	must(t, err)
	answer.Body.Close()
	back, found := strings.CutPrefix(answer.Header.Get("Location"), pages)
	if !found {
		t.Fatalf("the provider redirected to %q", answer.Header.Get("Location"))
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+back, nil)
	must(t, err)
	request.AddCookie(&http.Cookie{Name: flow.Name, Value: flow.Value})
	done, err := n.visitor(t).http.Do(request)
	must(t, err)
	done.Body.Close()
	var session *http.Cookie
	for _, c := range done.Cookies() {
		if c.Name == "__Host-stint" {
			session = c
		}
	}
	if session == nil || !session.Secure || !session.HttpOnly || session.SameSite != http.SameSiteStrictMode {
		t.Errorf("got the session cookie %v", session)
	}
}

func TestOpenIDLoginNeverRedirectsToOtherSites(t *testing.T) {
	p := openidprovider.New(t)
	n := openIDNode(t, p, nil)
	n.logsInAs(p, map[string]any{"groups": "staff"})
	for _, next := range []string{"https://evil.example.com", "//evil.example.com", `/\evil.example.com`, "javascript:alert(1)", "/" + strings.Repeat("x", 4000)} {
		v := n.visitor(t)
		v.get(v.callback("/login/oidc?next=" + url.QueryEscape(next))).is(http.StatusOK).holds(`href="/"`).lacks("evil").lacks("alert(1)")
	}
	v := n.visitor(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+"/login/oidc", nil)
	must(t, err)
	request.Header.Set("Sec-Fetch-Site", "cross-site")
	answer, err := v.http.Do(request)
	must(t, err)
	answer.Body.Close()
	if to := answer.Header.Get("Location"); !strings.HasPrefix(to, "/login?") {
		t.Errorf("a link on another site redirects to %q, want the login page", to)
	}
}

func TestOpenIDRoleChangeEndsFormerSessions(t *testing.T) {
	p := openidprovider.New(t)
	n := openIDNode(t, p, nil)
	n.logsInAs(p, map[string]any{"groups": []string{"admins", "staff"}})
	v := n.visitor(t)
	v.get(v.callback("/login/oidc")).is(http.StatusOK)
	v.get("/users").is(http.StatusOK)
	n.logsInAs(p, map[string]any{"groups": "staff", "preferred_username": "another name"})
	again := n.visitor(t)
	again.get(again.callback("/login/oidc")).is(http.StatusOK)
	again.get("/users").is(http.StatusForbidden)
	v.get("/users").is(http.StatusSeeOther)
	if u := n.userNamed(t, "kim"); u.Role != identity.Viewer {
		t.Errorf("got the role %s, want viewer", u.Role)
	}
	wantParts(t, n.summaries(t, "user.update"), "role viewer")
	wantParts(t, n.summaries(t, "session.login"), `"kim" logged in`)
}

// A user who has lost some or all groups loses the former sessions with the next login,
// and no other user does.
func TestOpenIDLoginWithoutRoleEndsFormerSessions(t *testing.T) {
	p := openidprovider.New(t)
	n := openIDNode(t, p, nil)
	for reason, claims := range map[string]map[string]any{
		"no group has a role here":    {"groups": "others"},
		"the provider sent no groups": {"groups": nil},
	} {
		n.logsInAs(p, map[string]any{"groups": "admins", "sub": "somebody else", "preferred_username": "lee"})
		other := n.visitor(t)
		other.get(other.callback("/login/oidc")).is(http.StatusOK)
		n.logsInAs(p, map[string]any{"groups": "admins"})
		before := n.visitor(t)
		before.get(before.callback("/login/oidc")).is(http.StatusOK)
		before.get("/users").is(http.StatusOK)
		revision := n.catalog.UsersRevision()
		n.logsInAs(p, claims)
		v := n.visitor(t)
		v.get(v.callback("/login/oidc")).is(http.StatusForbidden).holds("You have no access to Stint").holds("kim")
		before.get("/users").is(http.StatusSeeOther)
		other.get("/users").is(http.StatusOK)
		must(t, n.catalog.Refresh(t.Context()))
		if n.catalog.UsersRevision() == revision {
			t.Error("the users revision did not change, so event streams do not end")
		}
		wantParts(t, n.summaries(t, "session.login_failed"), `as "kim" with the OpenID provider: `+reason)
		wantParts(t, n.summaries(t, "session.end_all"), `Ended the sessions of the user "kim": `+reason)
		v.get(v.callback("/login/oidc")).is(http.StatusForbidden).lacks("code=").holds("/login")
	}
	if records := n.summaries(t, "session.end_all"); strings.Count(records, "\n") != 1 {
		t.Errorf("got the records %s, want none of refusals that ended no session", records)
	}
}

// A user without a role receives no more events: neither by the stream, which ends, nor by
// the live page, which polls for new ones.
func TestOpenIDLoginWithoutRoleEndsEventStream(t *testing.T) {
	p := openidprovider.New(t)
	n := openIDNode(t, p, nil)
	n.logsInAs(p, map[string]any{"groups": "staff"})
	before := n.visitor(t)
	before.get(before.callback("/login/oidc")).is(http.StatusOK)
	before.get("/live").is(http.StatusOK).holds(`data-stream="/v1/events"`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url+"/v1/events", nil)
	must(t, err)
	stream, err := before.http.Do(request)
	must(t, err)
	defer stream.Body.Close()
	if stream.StatusCode != http.StatusOK || stream.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("the stream began with the status %d and type %s", stream.StatusCode, stream.Header.Get("Content-Type"))
	}
	n.logsInAs(p, map[string]any{"groups": "others"})
	v := n.visitor(t)
	v.get(v.callback("/login/oidc")).is(http.StatusForbidden)
	must(t, n.catalog.Refresh(t.Context()))
	if sent, err := io.ReadAll(stream.Body); err != nil {
		t.Errorf("the stream did not end: %v; it sent %q", err, sent)
	}
	before.get("/live").is(http.StatusSeeOther)
	before.do(http.MethodGet, "/live", nil, http.Header{"HX-Request": {"true"}}).lacks("data-stream")
	before.do(http.MethodHead, "/v1/events", nil, nil).is(http.StatusUnauthorized)
}

func TestOpenIDUserIsManagedWithoutPassword(t *testing.T) {
	p := openidprovider.New(t)
	n := openIDNode(t, p, nil)
	// A user with the name of another user does not become that user.
	n.logsInAs(p, map[string]any{"groups": "staff", "preferred_username": "maria"})
	v := n.visitor(t)
	v.get(v.callback("/login/oidc")).is(http.StatusOK)
	v.get("/blocks").is(http.StatusOK).holds("maria-")
	u, err := n.store.Identities.FindUserBySubject(t.Context(), p.URL, "subject-1")
	must(t, err)
	if maria := n.userNamed(t, "maria"); maria.Role != identity.Administrator || maria.Source() != identity.Local || !strings.HasPrefix(u.Name, "maria-") {
		t.Errorf("got the OpenID user %+v and the local user %+v", u, maria)
	}
	v.get("/account").is(http.StatusOK).lacks("Current password")
	v.post("/account/password", url.Values{"current_password": {""}, "password": {"another good password"}}).is(http.StatusConflict)
	admin := n.as(t, "maria")
	admin.get("/users?edit=" + u.ID).is(http.StatusOK).holds("subject-1").lacks("Change password")
	admin.post("/users/"+u.ID+"/password", url.Values{"password": {"another good password"}}).holds("have no password here")
	admin.post("/users/"+u.ID+"/role", url.Values{"role": {"admin"}}).is(http.StatusConflict).holds("decide the role")
	n.visitor(t).post("/login", url.Values{"name": {u.Name}, "password": {""}}).is(http.StatusUnprocessableEntity)
	admin.post("/users/"+u.ID+"/disable", nil).is(http.StatusSeeOther)
	v.get("/blocks").is(http.StatusSeeOther)
	v.get(v.callback("/login/oidc")).is(http.StatusForbidden).holds("Your user is disabled")
	admin.post("/users/"+u.ID+"/delete", nil).is(http.StatusSeeOther)
	v.get(v.callback("/login/oidc")).is(http.StatusOK)
}

func TestLoginNameSanitizesOpenIDNames(t *testing.T) {
	for text, want := range map[string]string{
		"kim": "kim", "kim@example.com": "kim@example.com", "Kim B. Doe": "Kim-B.-Doe", "-kim": "kim", "": "user", "   ": "user", "日本": "user",
		"<script>": "script", "kim\x00\n": "kim", strings.Repeat("k", 300): strings.Repeat("k", 56),
	} {
		if got := identities.LoginName(text); got != want {
			t.Errorf("LoginName(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestOnlyPasswordUsersLogInWithPassword(t *testing.T) {
	n := openIDNode(t, openidprovider.New(t), []string{"maria"})
	n.visitor(t).get("/login").is(http.StatusOK).holds("<summary>Log in with a password</summary>")
	n.visitor(t).post("/login", url.Values{"name": {"olu"}, "password": {password}}).is(http.StatusUnprocessableEntity).holds("Name and password do not match")
	n.as(t, "maria")
}

func TestOpenIDCallbackIsThrottledAndAuditedInSummary(t *testing.T) {
	p := openidprovider.New(t)
	n := openIDNode(t, p, nil)
	n.logsInAs(p, map[string]any{"groups": "staff"})
	v := n.visitor(t)
	answer := v.callback("/login/oidc")
	for i := range 25 { // as a page of another site may make the browser send them
		v.get(fmt.Sprintf("%s?state=s%d&code=c%d", openid.CallbackPath, i, i)).is(http.StatusForbidden)
		n.visitor(t).get(answer).is(http.StatusForbidden)
	}
	v.get(answer).is(http.StatusOK) // the login still works
	for i := range 25 {
		want := http.StatusForbidden
		if i >= 20 {
			want = http.StatusTooManyRequests
		}
		started := v.get("/login/oidc").is(http.StatusSeeOther).header.Get("Location")
		to, err := url.Parse(started)
		must(t, err)
		v.get(openid.CallbackPath + "?error=access_denied&state=" + to.Query().Get("state")).is(want).lacks("..")
	}
	text := n.summaries(t, "session.login_failed")
	wantParts(t, text, "50 failed logins with the OpenID provider: the answer does not belong to a login", "20 failed logins with the OpenID provider",
		"5 failed logins, 5 of them refused as too many")
	if lines := strings.Count(text, "\n"); lines != 2 {
		t.Errorf("got %d records, want 3: %s", lines+1, text)
	}
}

func TestLoginPageShowsOutageOfOpenIDProvider(t *testing.T) {
	p := openidprovider.New(t)
	n := openIDNode(t, p, nil)
	p.Behave(openidprovider.Behaviour{Paths: map[string]http.HandlerFunc{"/.well-known/openid-configuration": http.NotFound}})
	v := n.visitor(t)
	v.get("/login").is(http.StatusOK).lacks("does not answer")
	v.get("/login/oidc").is(http.StatusServiceUnavailable).holds("Single sign-on cannot be reached")
	v.get("/login").is(http.StatusOK).holds("has not answered since").holds("Password")
	n.logsInAs(p, map[string]any{"groups": "staff"})
	n.clock.advance(time.Minute)
	v.get(v.callback("/login/oidc")).is(http.StatusOK)
}

func TestOpenIDLoginInBrowser(t *testing.T) {
	p := openidprovider.New(t)
	n := openIDNode(t, p, nil)
	n.logsInAs(p, map[string]any{"groups": "ops"})
	b := newBrowser(t, n)
	b.do(chromedp.Navigate(n.url + "/blocks"))
	b.press(`a[href^="/login/oidc"]`, "#list")
	if at := run(b, chromedp.Evaluate[string]("location.pathname")); at != "/blocks" {
		t.Errorf("the login redirected to %s, want /blocks", at)
	}
	b.consoleIsClean()
}

// TestOpenIDScreens tests the login page with a provider, as TestScreens tests the others.
func TestOpenIDScreens(t *testing.T) {
	p := openidprovider.New(t)
	n := openIDNode(t, p, nil)
	b := newBrowser(t, n)
	b.withAxe()
	b.screens("login-oidc", "/login")
	b.screens("login-oidc-failed", openid.CallbackPath+"?state=x&code=y")
	b.screens("login-oidc-out", "/login?out=yes")
	p.Behave(openidprovider.Behaviour{Paths: map[string]http.HandlerFunc{"/.well-known/openid-configuration": http.NotFound}})
	n.visitor(t).get("/login/oidc").is(http.StatusServiceUnavailable)
	b.screens("login-oidc-down", "/login")
	few := openIDNode(t, openidprovider.New(t), []string{"maria"})
	b = newBrowser(t, few)
	b.withAxe()
	b.screens("login-oidc-few", "/login?password=yes")
}
