package adminui_test

import (
	"context"
	"html"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/pquerna/otp/totp"

	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/storetest"
)

// code returns the current code of an app with this secret, by the library and not by the
// code under test.
func (n *node) code(t testing.TB, secret string) string {
	t.Helper()
	code, err := totp.GenerateCode(secret, n.clock.Now())
	must(t, err)
	return code
}

var (
	shownSecret = regexp.MustCompile(`aria-label="The secret">([A-Z2-7\s]+)<`)
	shownCodes  = regexp.MustCompile(`aria-label="Recovery codes">([a-z2-7\s-]+)<`)
)

// secret returns the secret that a page shows.
func (a *answer) secret() string {
	a.t.Helper()
	found := shownSecret.FindStringSubmatch(a.body)
	if found == nil {
		a.t.Fatalf("the page has no secret: %s", a.shown())
	}
	return strings.Join(strings.Fields(found[1]), "")
}

// recoveryCodes returns the recovery codes that a page shows.
func (a *answer) recoveryCodes() []string {
	a.t.Helper()
	found := shownCodes.FindStringSubmatch(html.UnescapeString(a.body))
	if found == nil {
		a.t.Fatalf("the page has no recovery codes: %s", a.shown())
	}
	return strings.Fields(found[1])
}

// startTOTP begins to set up a second factor and returns its secret.
func (v *visitor) startTOTP() string {
	v.t.Helper()
	v.get("/account").is(http.StatusOK)
	return v.post("/account/totp/start", nil).is(http.StatusOK).secret()
}

// withTOTP gives a user a second factor.
func (n *node) withTOTP(t testing.TB, name string) (secret string, recovery []string) {
	t.Helper()
	made, codes := storetest.SetUpTOTP(t, n.store.Factors, n.userID(t, name))
	return made.Text(), codes
}

var mariasLogin = url.Values{"name": {"maria"}, "password": {password}, "next": {"/settings?a=b"}}

func TestTwoFactorLoginRequiresPasswordAndCode(t *testing.T) {
	n := newNode(t)
	secret, recovery := n.withTOTP(t, "maria")
	v := n.visitor(t)
	step := v.post("/login", mariasLogin).is(http.StatusOK).holds("Enter your code").holds(`name="next" value="/settings?a=b"`)
	cookie := step.header.Get("Set-Cookie")
	for _, part := range []string{"stint_code=", "HttpOnly", "SameSite=Strict", "max-age=300"} {
		if !strings.Contains(cookie, part) {
			t.Errorf("the cookie %s does not contain %s", cookie, part)
		}
	}
	if strings.Contains(cookie, "stint_session") {
		t.Error("the password alone began a session")
	}
	// The cookie of a pending login gives no access, under either name.
	pending, _, _ := strings.Cut(strings.TrimPrefix(cookie, "stint_code="), ";")
	for _, name := range []string{"stint_code", "stint_session"} {
		stranger := n.visitor(t)
		stranger.do(http.MethodGet, "/settings", nil, http.Header{"Cookie": {name + "=" + pending}}).is(http.StatusSeeOther)
		stranger.do(http.MethodGet, "/account", nil, http.Header{"Cookie": {name + "=" + pending}}).is(http.StatusSeeOther)
		stranger.do(http.MethodGet, "/v1/policies", nil, http.Header{"Cookie": {name + "=" + pending}}).is(http.StatusUnauthorized)
	}
	v.get("/settings").is(http.StatusSeeOther)
	v.get("/login/code?next=/blocks").is(http.StatusOK).holds(`value="/blocks"`)

	v.post("/login/code", url.Values{"code": {"000000"}, "next": {"/settings?a=b"}}).is(http.StatusUnprocessableEntity).
		holds("The code was not accepted.").holds("4 more tries").holds(`value="/settings?a=b"`)
	code := n.code(t, secret)
	done := v.post("/login/code", url.Values{"code": {code}, "next": {"/settings?a=b"}}).is(http.StatusSeeOther)
	if to := done.header.Get("Location"); to != "/settings?a=b" {
		t.Errorf("redirected to %s, want the requested page", to)
	}
	v.get("/settings").is(http.StatusOK)

	// The same code is not accepted again, nor is the completed pending login.
	again := n.visitor(t)
	again.do(http.MethodPost, "/login/code", url.Values{"code": {code}}, http.Header{"Cookie": {"stint_code=" + pending}}).
		is(http.StatusUnprocessableEntity).holds("You are not logged in yet")
	again.post("/login", mariasLogin).is(http.StatusOK)
	again.post("/login/code", url.Values{"code": {code}}).is(http.StatusUnprocessableEntity).holds("used already")
	again.post("/login/code", url.Values{"code": {strings.ToUpper(recovery[3])}, "next": {"//evil.example"}}).is(http.StatusSeeOther)
	if to := again.get("/account").is(http.StatusOK).holds("9 recovery codes left").header.Get("Cache-Control"); to != "no-store" {
		t.Errorf("the account page has Cache-Control %s, want no-store", to)
	}
	third := n.visitor(t)
	third.post("/login", mariasLogin).is(http.StatusOK)
	third.post("/login/code", url.Values{"code": {recovery[3]}}).is(http.StatusUnprocessableEntity).holds("not one of the remaining recovery codes")
}

func TestPendingLoginExpires(t *testing.T) {
	n := newNode(t)
	secret, _ := n.withTOTP(t, "maria")
	v := n.visitor(t)
	v.get("/login/code").is(http.StatusSeeOther)
	v.post("/login/code", url.Values{"code": {"000000"}}).is(http.StatusUnprocessableEntity).holds("You are not logged in yet")
	v.post("/login", mariasLogin).is(http.StatusOK)
	n.clock.advance(5 * time.Minute)
	v.post("/login/code", url.Values{"code": {n.code(t, secret)}, "next": {"/blocks"}}).is(http.StatusUnprocessableEntity).
		holds("You are not logged in yet").holds(`name="next" value="/blocks"`)

	// A change of the user ends a pending login too.
	v.post("/login", mariasLogin).is(http.StatusOK)
	other := n.as(t, "olu") // a session from before the change
	hash := identity.HashPassword("another " + password)
	_, err := n.store.Identities.UpdateUser(t.Context(), audit.SystemActor("test"), n.userID(t, "maria"), identity.UserUpdate{PasswordHash: &hash})
	must(t, err)
	v.post("/login/code", url.Values{"code": {n.code(t, secret)}}).is(http.StatusUnprocessableEntity).holds("You are not logged in yet")
	other.get("/settings").is(http.StatusOK)

	// A form from another site is refused.
	w := n.visitor(t)
	w.do(http.MethodPost, "/login/code", url.Values{"code": {"000000"}}, http.Header{"Sec-Fetch-Site": {"cross-site"}}).is(http.StatusForbidden)
	w.post("/login/code", url.Values{"code": {strings.Repeat("0", 20_000)}}).is(http.StatusRequestEntityTooLarge)
}

func TestGuessingCodesIsThrottledAcrossLogins(t *testing.T) {
	n := newNode(t)
	secret, _ := n.withTOTP(t, "maria")
	v := n.visitor(t)
	tried := 0
	for range 10 { // as somebody who knows the password
		if v.post("/login", mariasLogin).status == http.StatusTooManyRequests {
			break
		}
		for range identity.MaxPendingAttempts {
			if v.post("/login/code", url.Values{"code": {"000000"}}).status != http.StatusUnprocessableEntity {
				break
			}
			tried++
		}
	}
	if tried == 0 || tried > 4 {
		t.Errorf("%d codes could be tried in a minute, want 1 to 4", tried)
	}
	n.clock.advance(time.Minute)
	v.post("/login", mariasLogin).is(http.StatusOK)
	v.post("/login/code", url.Values{"code": {n.code(t, secret)}}).is(http.StatusSeeOther)
}

func TestTwoFactorIsSetUpRenewedAndDisabled(t *testing.T) {
	n := newNode(t)
	v, elsewhere := n.as(t, "vic"), n.as(t, "vic")
	v.get("/account").is(http.StatusOK).holds("Set up two-factor authentication")
	start := v.post("/account/totp/start", nil).is(http.StatusOK).holds(`<svg class="qr"`)
	secret := start.secret()
	if start.header.Get("Cache-Control") != "no-store" || start.header.Get("Content-Encoding") != "" {
		t.Errorf("the page with the secret has the headers %v, want no-store and no compression", start.header)
	}
	if again := v.startTOTP(); again != secret {
		t.Error("loading the page again shows another secret")
	}
	if other := elsewhere.startTOTP(); other == secret {
		t.Error("another session is shown the same secret")
	}
	confirm := url.Values{"code": {n.code(t, secret)}, "password": {password}}
	v.post("/account/totp", confirm).is(http.StatusConflict) // the secret of the other session is stored now
	secret = v.startTOTP()
	v.post("/account/totp", url.Values{"code": {"000000"}, "password": {password}}).is(http.StatusUnprocessableEntity).holds("not the code that the app shows").holds(`<svg class="qr"`)
	confirm.Set("code", n.code(t, secret))
	codes := v.post("/account/totp", confirm).is(http.StatusOK).recoveryCodes()
	if len(codes) != identity.RecoveryCodeCount {
		t.Fatalf("got the recovery codes %q", codes)
	}
	elsewhere.get("/account").is(http.StatusSeeOther) // the other session has ended
	v.get("/account").is(http.StatusOK).holds("10 recovery codes left").lacks(codes[0]).lacks(secret)
	v.post("/account/totp/start", nil).is(http.StatusConflict)

	renewed := v.post("/account/totp/recovery", url.Values{"code": {codes[0]}}).is(http.StatusOK).recoveryCodes()
	v.post("/account/totp/recovery", url.Values{"code": {codes[1]}}).is(http.StatusConflict).holds("not one of the remaining recovery codes")
	v.post("/account/totp/disable", url.Values{"password": {"wrong"}, "code": {renewed[0]}}).is(http.StatusUnprocessableEntity).holds("Is wrong")
	v.post("/account/totp/disable", url.Values{"password": {password}, "code": {"123"}}).is(http.StatusUnprocessableEntity)
	v.post("/account/totp/disable", url.Values{"password": {password}, "code": {renewed[0]}}).is(http.StatusSeeOther)
	n.as(t, "vic")
	for _, e := range n.entries(t, audit.Filter{Limit: 1000}) {
		text := e.Summary + string(e.Before) + string(e.After)
		for _, hidden := range append(codes, secret, codes[0][:4]+codes[0][5:9]) {
			if strings.Contains(text, hidden) {
				t.Errorf("an audit record contains %s: %s", hidden, text)
			}
		}
	}
}

// Another person with access to a session cannot take over the user by setting up an app.
func TestTwoFactorSetUpRequiresPassword(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "vic")
	secret := v.startTOTP()
	wrong := url.Values{"code": {n.code(t, secret)}, "password": {"a guess"}}
	v.post("/account/totp", url.Values{"code": {n.code(t, secret)}}).is(http.StatusUnprocessableEntity).holds("Is wrong").holds(`id="setup-password"`)
	tried := 1
	for v.post("/account/totp", wrong).status == http.StatusUnprocessableEntity {
		if tried++; tried > 20 {
			t.Fatal("20 guesses of the password were not throttled")
		}
	}
	v.post("/account/totp", url.Values{"code": {n.code(t, secret)}, "password": {password}}).is(http.StatusTooManyRequests)
	v.get("/account").is(http.StatusOK).holds("Off.")
	wantParts(t, n.summaries(t, "session.login_failed"), `failed logins as "vic"`)
	n.clock.advance(time.Minute)
	v.post("/account/totp", url.Values{"code": {n.code(t, secret)}, "password": {password}}).is(http.StatusOK)
}

// A user who must set it up is asked for the password again only in an older session.
func TestTwoFactorSetUpAfterLoginNeedsNoPassword(t *testing.T) {
	n := newNode(t, func(d *adminui.Deps) {
		d.Logins.Sessions.RequireTOTP = func() identity.TOTPRoles { return "admin" }
	})
	v := n.visitor(t)
	v.post("/login", mariasLogin).is(http.StatusSeeOther)
	v.get("/account").is(http.StatusOK)
	v.post("/account/totp/start", nil).is(http.StatusOK).lacks(`id="setup-password"`)
	n.clock.advance(identity.TOTPSetupLifetime)
	secret := v.post("/account/totp/start", nil).is(http.StatusOK).holds(`id="setup-password"`).secret()
	v.post("/account/totp", url.Values{"code": {n.code(t, secret)}}).is(http.StatusUnprocessableEntity).holds("Is wrong")
	v.post("/account/totp", url.Values{"code": {n.code(t, secret)}, "password": {password}}).is(http.StatusOK)
}

func TestThrottledCodesDoNotBlockRecoveryCodes(t *testing.T) {
	n := newNode(t)
	secret, recovery := n.withTOTP(t, "maria")
	v := n.visitor(t)
	// Others try codes of the account from other addresses,
	for i := range 100 {
		from := netip.AddrFrom4([4]byte{203, 0, 113, byte(i)})
		if n.throttle.Code(t.Context(), from, "maria") > 0 {
			n.clock.advance(time.Minute)
		}
	}
	n.clock.advance(time.Minute)
	for range 10 { // and from the same address.
		n.throttle.Code(t.Context(), netip.MustParseAddr("127.0.0.1"), "maria")
		n.clock.advance(15 * time.Second)
	}
	n.clock.advance(time.Minute)
	v.post("/login", mariasLogin).is(http.StatusOK)
	v.post("/login/code", url.Values{"code": {n.code(t, secret)}}).is(http.StatusTooManyRequests)
	// The limits of logins also apply to guessed recovery codes.
	v.post("/login/code", url.Values{"code": {"aaaa-bbbb-cccc-dddd"}}).is(http.StatusUnprocessableEntity)
	v.post("/login/code", url.Values{"code": {recovery[0]}}).is(http.StatusSeeOther)
	v.get("/settings").is(http.StatusOK)

	w := n.visitor(t)
	refused := false
	for range 20 {
		w.post("/login", mariasLogin)
		if w.post("/login/code", url.Values{"code": {"aaaa-bbbb-cccc-dddd"}}).status == http.StatusTooManyRequests {
			refused = true
		}
	}
	if !refused {
		t.Error("20 guesses of recovery codes were not throttled")
	}
}

func TestRequiredTwoFactorRestrictsToSetUp(t *testing.T) {
	roles := identity.TOTPRoles("none")
	n := newNode(t, func(d *adminui.Deps) {
		d.Logins.Sessions.RequireTOTP = func() identity.TOTPRoles { return roles }
		d.Ready = func(context.Context) wire.Readiness {
			return wire.Readiness{Parts: []wire.Part{{Name: "A secret part"}}}
		}
	})
	before := n.as(t, "maria")
	before.post("/notifications/silences", url.Values{"for": {"1h"}, "reason": {"A secret silence"}}).is(http.StatusSeeOther)
	roles = "admin"
	before.get("/settings").is(http.StatusSeeOther) // also in an existing session
	vic := n.as(t, "vic")
	vic.get("/settings").is(http.StatusOK)

	v := n.visitor(t)
	v.post("/login", mariasLogin).is(http.StatusSeeOther)
	to := v.get("/settings?a=b").is(http.StatusSeeOther).header.Get("Location")
	if to != "/account?next=%2Fsettings%3Fa%3Db" {
		t.Fatalf("redirected to %s, want the account page", to)
	}
	v.get(to).is(http.StatusOK).holds("Your role needs two-factor authentication").lacks(`href="/blocks"`)
	for _, r := range n.routes {
		if r.Access == identity.Public || r.Access == identity.Account {
			continue
		}
		path := pathParam.ReplaceAllString(r.Path, "nothing")
		got := v.do(r.Method, path, url.Values{"csrf": {v.csrf}}, nil)
		if r.Method == http.MethodGet {
			got.is(http.StatusSeeOther)
		} else {
			got.is(http.StatusForbidden).lacks("A secret part").lacks("A secret silence").lacks("/blocks")
		}
	}
	vic.get("/account").is(http.StatusOK).holds("A secret part").holds("A secret silence")
	v.do(http.MethodGet, "/v1/policies", nil, nil).is(http.StatusForbidden).holds("/account")
	v.do(http.MethodGet, "/v1/whoami", nil, nil).is(http.StatusForbidden)
	secret := v.post("/account/totp/start", url.Values{"next": {"/settings?a=b"}}).is(http.StatusOK).secret()
	v.post("/account/totp", url.Values{"code": {n.code(t, secret)}, "next": {"/settings?a=b"}}).is(http.StatusOK).holds(`href="/settings?a=b"`)
	v.get("/settings").is(http.StatusOK)
	before.get("/settings").is(http.StatusSeeOther)
	// After it was disabled, it must be set up again.
	n.clock.advance(time.Minute)
	v.post("/account/totp/disable", url.Values{"password": {password}, "code": {n.code(t, secret)}}).is(http.StatusSeeOther)
	v.get("/blocks").is(http.StatusSeeOther)
	v.post("/logout", nil).is(http.StatusSeeOther)
}

func TestAdminResetsTwoFactorOfOtherUsers(t *testing.T) {
	n := newNode(t)
	maria, olu := n.as(t, "maria"), n.as(t, "olu")
	id := n.userID(t, "olu")
	maria.get("/users?edit=" + id).is(http.StatusOK).lacks("Reset two-factor")
	maria.post("/users/"+id+"/totp/reset", nil).is(http.StatusConflict)
	n.withTOTP(t, "olu")
	n.visitor(t).post("/login", url.Values{"name": {"olu"}, "password": {password}}).is(http.StatusOK)
	maria.get("/users?edit=" + id).is(http.StatusOK).holds("Reset two-factor authentication").holds(">on<")
	olu.post("/users/"+id+"/totp/reset", nil).is(http.StatusSeeOther) // setting it up has ended the session
	maria.post("/users/"+id+"/totp/reset", nil).is(http.StatusSeeOther)
	n.as(t, "olu")
	// Users cannot reset their own second factor, neither on the page nor by the API.
	secret, _ := n.withTOTP(t, "maria")
	maria = n.visitor(t)
	maria.post("/login", mariasLogin).is(http.StatusOK)
	maria.post("/login/code", url.Values{"code": {n.code(t, secret)}}).is(http.StatusSeeOther)
	own := n.userID(t, "maria")
	maria.get("/users?edit=" + own).is(http.StatusOK).lacks("Reset two-factor")
	maria.post("/users/"+own+"/totp/reset", nil).is(http.StatusForbidden).holds("cannot reset your own")
	maria.do(http.MethodDelete, "/v1/users/"+own+"/totp", nil, http.Header{"X-CSRF-Token": {maria.csrf}}).is(http.StatusForbidden).holds("cannot reset your own")
}

// TestTwoFactorInBrowser sets up a second factor, logs in with it and inspects the
// pages, with the codes of the library at the time of the node's clock.
func TestTwoFactorInBrowser(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.withAxe()
	b.logIn("maria")
	b.inspect("account-off", "/account")
	b.press(".narrow .button.main", "svg.qr")
	b.inspect("account-set-up", "")
	secret := strings.Join(strings.Fields(run(b, chromedp.Evaluate[string](`document.querySelector(".code pre").textContent`))), "")
	b.write("#setup-code", n.code(t, secret))
	b.write("#setup-password", password+"\r")
	b.waitFor(`document.querySelector(".code pre").textContent.trim().split("\n").length === 10`)
	b.inspect("account-codes", "")
	b.press(".narrow .button.main", ".account-forms")
	b.inspect("account-on", "")

	n.clock.advance(time.Minute)
	other := b.another(t)
	other.withAxe()
	other.do(chromedp.Navigate(n.url + "/login?next=/blocks"))
	other.write("#name", "maria")
	other.write("#password", password+"\r")
	other.waitFor(`document.querySelector("#code")`)
	other.inspect("login-code", "")
	other.write("#code", n.code(t, secret)+"\r")
	other.waitFor(`document.querySelector("#list")`)
	b.consoleIsClean()
	other.consoleIsClean()
}
