package adminui

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/phrase"
)

// The cookie of a login in progress. Browsers send it when the provider redirects them back,
// unlike the session's cookie, which is SameSite=Strict.
const (
	secureFlowCookie = "__Host-stint-oidc"
	plainFlowCookie  = "stint_oidc"
)

const startPath = "/login/oidc"

// openIDRoutes returns the routes for logging in with an OpenID provider, none without a
// provider.
func (h *loginHandler) openIDRoutes() []httpserver.Route {
	if h.openID == nil {
		return nil
	}
	return []httpserver.Route{
		h.Get(startPath, identity.Public, h.startOpenID),
		h.Get(identities.OpenIDCallbackPath, identity.Public, h.finishOpenID),
	}
}

// openIDChoice returns the button that leads to the provider, nil without a provider.
func (h *loginHandler) openIDChoice(next string) *site.OpenIDChoice {
	if h.openID == nil {
		return nil
	}
	choice := &site.OpenIDChoice{
		Label: h.openID.Label(), Start: startPath, Failing: h.openID.Failing(), NoPasswords: h.logins.PasswordUsers != nil,
	}
	if next != "/" {
		choice.Start += "?" + url.Values{"next": {next}}.Encode()
	}
	return choice
}

// startOpenID redirects the browser to the provider. A request from a link on another site is
// redirected to the login page instead, so that nobody is logged in unintentionally.
func (h *loginHandler) startOpenID(c *httpserver.Call) error {
	next := site.OwnPath(c.Query("next", "/"))
	if !fromHere(c.Ctx) {
		return h.Redirect(c, "/login?"+url.Values{"next": {next}}.Encode())
	}
	started, err := h.openID.Start(c.Context(), next, h.sessions.cookie(c.Ctx))
	var failure *identities.OpenIDFailure
	if errors.As(err, &failure) {
		return h.showOpenIDFailure(c, failure, next)
	}
	if err != nil {
		return err
	}
	h.setFlowCookie(c.Ctx, started.Cookie, identities.OpenIDFlowLifetime)
	return c.Redirect(started.URL, http.StatusSeeOther)
}

// finishOpenID logs in a user whom the provider redirected back.
func (h *loginHandler) finishOpenID(c *httpserver.Call) error {
	session, err := h.openID.Finish(c.Context(), identities.FinishOpenID{
		Callback: identities.OpenIDCallback{
			Cookie: c.Cookies(h.flowCookie()), State: c.Query("state"), Code: c.Query("code"), Issuer: c.Query("iss"), Error: c.Query("error"),
		},
		Address: c.Address, Agent: format.ClipLine(c.Get(fiber.HeaderUserAgent), 200),
	})
	var failure *identities.OpenIDFailure
	var throttled *identities.ThrottledLogin
	switch {
	case errors.As(err, &throttled):
		c.Set("Retry-After", format.Seconds(throttled.Wait))
		return h.renderLogin(c, http.StatusTooManyRequests, site.LoginPage{
			Next: "/", Problem: "Too many attempts.", Advice: "Wait " + phrase.Duration(format.RoundUp(throttled.Wait)) + ", then log in again.",
		})
	case errors.As(err, &failure):
		if failure.Reason != identities.OpenIDWrongState { // another page may have caused this: the login in progress stays valid
			h.setFlowCookie(c.Ctx, "", -1)
		}
		return h.showOpenIDFailure(c, failure, "/")
	case fault.Is(err, fault.Conflict): // the user was changed in between
		return h.renderLogin(c, http.StatusConflict, site.LoginPage{Next: "/", Problem: "You are not logged in.", Advice: err.Error()})
	case err != nil:
		return err
	}
	h.setFlowCookie(c.Ctx, "", -1)
	h.sessions.setCookieOver(c.Ctx, session.Secret, h.sessions.Lifetime, h.openID.IsOverTLS())
	// Browsers do not send a strict cookie after a redirect from the provider.
	page := site.LoginDone{Frame: h.NewFrame(c, "Logged in", ""), Next: site.OwnPath(session.Next)}
	return h.Render(c, http.StatusOK, "login-done", page)
}

// showOpenIDFailure explains why the login failed, and what to do.
func (h *loginHandler) showOpenIDFailure(c *httpserver.Call, f *identities.OpenIDFailure, next string) error {
	page := site.LoginPage{Next: next, Problem: "You are not logged in.", Advice: format.Capital(string(f.Reason)) + " Try again."}
	status := http.StatusForbidden
	switch f.Reason {
	case identities.OpenIDNoRole, identities.OpenIDNoGroups:
		page.Problem = "You have no access to Stint."
		who := "You are"
		if f.Person != nil {
			who = "The provider knows you as " + identities.LoginName(f.Person.Name) + ", but you are"
		}
		page.Advice = who + " in no group that has a role here. Ask an admin of Stint to give one of your groups a role."
	case identities.OpenIDDisabled:
		page.Problem, page.Advice = "Your user is disabled.", "Ask an admin of Stint to enable it."
	case identities.OpenIDWrongState, identities.OpenIDFlowExpired, identities.OpenIDReplayed:
		page.Advice = "This login was started in another browser, took more than ten minutes, or was finished before. Start again."
	case identities.OpenIDUnreachable:
		status = http.StatusServiceUnavailable
		page.Problem, page.Advice = "Single sign-on cannot be reached.", "Try again in a moment. Users with a password can still log in with it."
	}
	return h.renderLogin(c, status, page)
}

func (h *loginHandler) flowCookie() string {
	if h.openID.IsOverTLS() {
		return secureFlowCookie
	}
	return plainFlowCookie
}

// setFlowCookie sets the cookie of a login in progress, or deletes it if lifetime is negative.
func (h *loginHandler) setFlowCookie(c *fiber.Ctx, value string, lifetime time.Duration) {
	c.Cookie(&fiber.Cookie{
		Name: h.flowCookie(), Value: value, Path: "/", MaxAge: max(-1, int(lifetime/time.Second)), HTTPOnly: true,
		SameSite: fiber.CookieSameSiteLaxMode, Secure: h.openID.IsOverTLS(),
	})
}
