package adminui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
)

func TestLoginReturnsToRequestedPage(t *testing.T) {
	n := newNode(t)
	v := n.visitor(t)
	got := v.get("/settings?a=b").is(http.StatusSeeOther)
	login := got.header.Get("Location")
	if login != "/login?next=%2Fsettings%3Fa%3Db" {
		t.Fatalf("got %s", login)
	}
	v.get(login).is(http.StatusOK).holds(`name="next" value="/settings?a=b"`)
	got = v.post("/login", url.Values{"name": {"maria"}, "password": {password}, "next": {"/settings?a=b"}}).is(http.StatusSeeOther)
	if to := got.header.Get("Location"); to != "/settings?a=b" {
		t.Errorf("redirected to %s, want the requested page", to)
	}
	cookie := got.header.Get("Set-Cookie")
	for _, part := range []string{"HttpOnly", "SameSite=Strict", "path=/", "max-age=86400"} {
		if !strings.Contains(cookie, part) {
			t.Errorf("the cookie %s does not contain %s", cookie, part)
		}
	}
	v.get("/settings").is(http.StatusOK).holds("maria")
}

func TestLoginNeverRedirectsToOtherSites(t *testing.T) {
	n := newNode(t)
	for _, next := range []string{"//evil.example", "https://evil.example", `/\evil.example`, "javascript:alert(1)", "/\x0b/evil.example", "/\x00", "/\x7f", "/\u0085"} {
		got := n.visitor(t).post("/login", url.Values{"name": {"maria"}, "password": {password}, "next": {next}}).is(http.StatusSeeOther)
		if to := got.header.Get("Location"); to != "/" {
			t.Errorf("next=%s redirects to %s, want /", next, to)
		}
	}
}

func TestFailedLoginsShowTriesLeftAndAreThrottled(t *testing.T) {
	n := newNode(t)
	v := n.visitor(t)
	wrong := url.Values{"name": {"maria"}, "password": {"wrong password"}}
	v.post("/login", wrong).is(http.StatusUnprocessableEntity).holds("do not match").holds("4 more tries")
	for range 4 {
		v.post("/login", wrong).is(http.StatusUnprocessableEntity)
	}
	got := v.post("/login", url.Values{"name": {"maria"}, "password": {password}}).is(http.StatusTooManyRequests).holds("Too many attempts")
	if got.header.Get("Retry-After") != "60" {
		t.Errorf("got Retry-After %q, want 60", got.header.Get("Retry-After"))
	}
	n.clock.advance(time.Minute)
	v.post("/login", url.Values{"name": {"maria"}, "password": {password}}).is(http.StatusSeeOther)
}

func TestLoginReplacesSession(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "maria")
	here, err := url.Parse(n.url)
	must(t, err)
	before := v.http.Jar.Cookies(here)[0].Value
	v.post("/login", url.Values{"name": {"maria"}, "password": {password}}).is(http.StatusSeeOther)
	if after := v.http.Jar.Cookies(here)[0].Value; after == before {
		t.Error("the id of the session did not change")
	}
	old := n.visitor(t)
	old.do(http.MethodGet, "/settings", nil, http.Header{"Cookie": {"stint_session=" + before}}).is(http.StatusSeeOther)
}

func TestSessionEndsWhenIdleOldOrLoggedOut(t *testing.T) {
	for name, end := range map[string]func(n *node, v *visitor){
		"idle": func(n *node, v *visitor) { n.clock.advance(2 * time.Hour) },
		"old": func(n *node, v *visitor) {
			for range 24 {
				v.get("/settings").is(http.StatusOK)
				n.clock.advance(time.Hour)
			}
		},
		"logged out": func(n *node, v *visitor) { v.post("/logout", nil).is(http.StatusSeeOther) },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			v := n.as(t, "maria")
			end(n, v)
			v.get("/settings").is(http.StatusSeeOther)
		})
	}
}

func TestFormsRequireCSRFToken(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "maria")
	other := n.as(t, "maria")
	for name, try := range map[string]struct {
		csrf   string
		header http.Header
	}{
		"no token":                {"", nil},
		"another session's token": {other.csrf, nil},
		"a wrong token":           {"x", nil},
		"from another site":       {v.csrf, http.Header{"Sec-Fetch-Site": {"cross-site"}}},
		"from a sibling":          {v.csrf, http.Header{"Sec-Fetch-Site": {"same-site"}}},
		"from an older browser":   {v.csrf, http.Header{"Sec-Fetch-Site": {""}, "Origin": {"https://evil.example"}}},
	} {
		t.Run(name, func(t *testing.T) {
			v.t = t
			v.do(http.MethodPost, "/logout", url.Values{"csrf": {try.csrf}}, try.header).is(http.StatusForbidden).holds("Nothing was changed")
		})
	}
	v.get("/settings").is(http.StatusOK)
}

func TestAPIChangesBySessionRequireCSRFToken(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "maria")
	v.get("/v1/policies").is(http.StatusOK)
	v.do(http.MethodDelete, "/v1/policies/default", nil, http.Header{"If-Match": {"*"}}).is(http.StatusUnsupportedMediaType)
	v.do(http.MethodDelete, "/v1/policies/default?confirm=default", nil, http.Header{"If-Match": {"*"}, "X-Csrf-Token": {v.csrf}}).is(http.StatusNoContent)
}

func TestPagesSendStrictContentSecurityPolicy(t *testing.T) {
	n := newNode(t)
	for path, v := range map[string]*visitor{"/login": n.visitor(t), "/settings": n.as(t, "vic")} {
		got := v.get(path).is(http.StatusOK)
		policy := got.header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy %q does not contain %q", path, policy, part)
			}
		}
		if strings.Contains(policy, "unsafe") || got.header.Get("X-Content-Type-Options") != "nosniff" || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: got the headers %v", path, got.header)
		}
		got.lacks(" style=").lacks("<style").lacks(" onclick=")
	}
}

func TestStaticFilesAreCachedByVersionedURL(t *testing.T) {
	n := newNode(t)
	v := n.visitor(t)
	page := v.get("/login").body
	_, rest, _ := strings.Cut(page, `rel="stylesheet" href="`)
	path, _, _ := strings.Cut(rest, `"`)
	got := v.get(path).is(http.StatusOK)
	if !strings.Contains(got.header.Get("Cache-Control"), "immutable") || got.header.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("%s: got the headers %v", path, got.header)
	}
	v.do(http.MethodGet, path, nil, http.Header{"If-None-Match": {got.header.Get("Etag")}}).is(http.StatusNotModified)
	if plain := v.get("/static/app.css").is(http.StatusOK); plain.header.Get("Cache-Control") != "no-cache" {
		t.Errorf("a URL without the version: got %v, want no-cache", plain.header)
	}
	v.get("/static/nothing.css").is(http.StatusNotFound)
	v.get("/static/README.md").is(http.StatusNotFound)
}

// A 304 has the headers that say for which requests it may be kept, as RFC 9110 15.4.5 wants, and
// the compressed bytes have a tag of their own, as 8.8.3 wants.
func TestUnchangedStaticFileHasHeadersOfTheFile(t *testing.T) {
	n := newNode(t)
	v := n.visitor(t)
	const path = "/static/app.css"
	tags := map[string]string{}
	for _, coding := range []string{"gzip", "identity"} {
		got := v.do(http.MethodGet, path, nil, http.Header{"Accept-Encoding": {coding}}).is(http.StatusOK)
		tags[coding] = got.header.Get("Etag")
		for _, known := range []string{tags[coding], `"other", W/` + tags[coding], "*"} {
			unchanged := v.do(http.MethodGet, path, nil, http.Header{"Accept-Encoding": {coding}, "If-None-Match": {known}}).is(http.StatusNotModified)
			for _, name := range []string{"Vary", "Etag", "Cache-Control"} {
				if want := got.header.Get(name); want == "" || unchanged.header.Get(name) != want {
					t.Errorf("%s, If-None-Match: %s: got %s: %q in the 304, want %q", coding, known, name, unchanged.header.Get(name), want)
				}
			}
		}
	}
	if tags["gzip"] == tags["identity"] {
		t.Errorf("both codings have the tag %s", tags["gzip"])
	}
	v.do(http.MethodGet, path, nil, http.Header{"Accept-Encoding": {"identity"}, "If-None-Match": {tags["gzip"]}}).is(http.StatusOK)
	v.do(http.MethodGet, path, nil, http.Header{"If-Modified-Since": {"Fri, 20 Nov 2026 14:03:14 GMT"}}).is(http.StatusOK)
}

func TestHeadIsAnsweredAsGet(t *testing.T) {
	n := newNode(t)
	bounced := http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}}
	for name, v := range map[string]*visitor{"not logged in": n.visitor(t), "logged in": n.as(t, "vic")} {
		for _, path := range []string{"/", "/blocks?q=a", "/policies/default", "/tokens", "/login", "/nothing"} {
			for _, headers := range []http.Header{nil, bounced} {
				got, want := v.do(http.MethodHead, path, nil, headers), v.do(http.MethodGet, path, nil, headers)
				if got.status != want.status || got.header.Get("Location") != want.header.Get("Location") {
					t.Errorf("%s: HEAD %s: got %d with the Location %q, want %d with %q", name, path, got.status, got.header.Get("Location"), want.status, want.header.Get("Location"))
				}
			}
		}
	}
}

// A browser with a wrong clock keeps a cookie as long as one with the right
// clock: no cookie has an absolute time.
func TestCookiesUseMaxAgeWithoutExpires(t *testing.T) {
	n := newNode(t)
	v := n.visitor(t)
	login := v.post("/login", url.Values{"name": {"maria"}, "password": {password}}).is(http.StatusSeeOther)
	v.get("/settings").is(http.StatusOK)
	theme := v.post("/theme", url.Values{"theme": {"dark"}}).is(http.StatusSeeOther)
	logout := v.post("/logout", nil).is(http.StatusSeeOther)
	for age, a := range map[string]*answer{"max-age=86400": login, "max-age=34560000": theme, "max-age=0": logout} {
		cookie := strings.ToLower(a.header.Get("Set-Cookie"))
		if !strings.Contains(cookie, age) || strings.Contains(cookie, "expires=") {
			t.Errorf("got the cookie %s, want %s and no expires", cookie, age)
		}
	}
}

func TestThemeIsStoredInCookie(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "vic")
	v.get("/settings").holds(`data-theme="system"`)
	got := v.post("/theme", url.Values{"theme": {"dark"}, "back": {"/settings"}}).is(http.StatusSeeOther)
	if got.header.Get("Location") != "/settings" {
		t.Errorf("got %v", got.header)
	}
	v.get("/settings").holds(`data-theme="dark"`)
}

func TestLoginsAreAudited(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "maria")
	stranger := n.visitor(t)
	stranger.post("/login", url.Values{"name": {"maria"}, "password": {"wrong password"}}).is(http.StatusUnprocessableEntity)
	stranger.post("/login", url.Values{"name": {"a password typed here"}, "password": {"x"}}).is(http.StatusUnprocessableEntity)
	v.post("/logout", nil).is(http.StatusSeeOther)
	must(t, n.failed.Flush(t.Context(), n.store.Audit))
	page, err := n.store.Audit.FindRecords(t.Context(), audit.Filter{Action: "session"})
	must(t, err)
	var got []string
	for _, e := range page.Records {
		got = append(got, e.Summary)
		if strings.Contains(e.Summary+string(e.After), "typed here") {
			t.Errorf("the record contains an unknown user name: %+v", e)
		}
	}
	want := `1 failed login.|1 failed login as "maria".|"maria" logged out.|"maria" logged in.`
	if strings.Join(got, "|") != want {
		t.Errorf("got the records %s, want %s", strings.Join(got, "|"), want)
	}
}

func TestNotFoundPageHidesNodeDetails(t *testing.T) {
	n := newNode(t)
	html := http.Header{"Accept": {"text/html"}}
	n.visitor(t).do(http.MethodGet, "/no/such/page", nil, html).is(http.StatusNotFound).holds("There is no page at this address.").
		lacks("node a").lacks("v0.4.1").lacks("Your address")
	n.visitor(t).do(http.MethodGet, "/login", nil, html).is(http.StatusOK).holds("Your address: 127.0.0.1")
}

// Records that say the same are one row, with how many there are.
func TestAuditFoldsEqualRecords(t *testing.T) {
	n := newNode(t)
	by := audit.Actor{Kind: audit.System, Name: "lists"}
	for range 3 {
		must(t, n.store.Audit.AddRecord(t.Context(), audit.Record{Actor: by, Action: "source.pull", Object: "source", ObjectID: "one", Summary: "Pulled the list one."}))
		n.clock.advance(time.Minute)
	}
	olu := n.as(t, "olu")
	page := olu.get("/audit?object=source").is(http.StatusOK).says("Pulled the list one. × 3").says("since")
	if rows := strings.Count(page.body, `<tr id="entry-`); rows != 1 {
		t.Errorf("three equal records have %d rows, want 1", rows)
	}
	must(t, n.store.Audit.AddRecord(t.Context(), audit.Record{Actor: by, Action: "source.pull", Object: "source", ObjectID: "two", Summary: "Pulled the list two."}))
	must(t, n.store.Audit.AddRecord(t.Context(), audit.Record{Actor: by, Action: "source.pull", Object: "source", ObjectID: "one", Summary: "Pulled the list one."}))
	page = olu.get("/audit?object=source").is(http.StatusOK)
	if rows := strings.Count(page.body, `<tr id="entry-`); rows != 3 {
		t.Errorf("equal records with another between them have %d rows, want 3", rows)
	}
}

func TestSettingsAreSearched(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "vic")
	all := v.get("/settings").is(http.StatusOK)
	v.get("/settings?q=ADMIN+bootstrap").is(http.StatusOK).holds("--admin-token<").holds("1 setting<").lacks("--listen<")
	v.get("/settings?q=logins").is(http.StatusOK).holds(`scope="rowgroup">Logins<`).holds("--admin-token<").lacks(">Storage<").lacks("--redis-url<")
	v.get("/settings?q=no+such+word").is(http.StatusOK).says("No setting matches.").holds("0 settings")
	for _, subject := range []string{"Listeners and TLS", "Logins", "Storage", "Gateways and proxies"} {
		all.holds(`scope="rowgroup">` + subject + "<")
	}
	all.holds("--listen<").lacks("Clear the search")
}
