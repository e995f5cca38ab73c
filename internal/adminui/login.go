package adminui

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/phrase"
)

// maxLogin bounds the size of the login form, which anybody may send, in bytes.
const maxLogin = 16 << 10

// unsentPage offers to send a form that was sent after its session had ended.
type unsentPage struct {
	site.Frame
	*site.UnsentForm
}

// loginHandler logs users in and out, and stores their theme.
type loginHandler struct {
	*site.Site
	sessions *sessions
	logins   *identities.Logins
	openID   *identities.OpenIDLogins // nil without a provider
	openAs   string                   // see Deps.OpenAs
}

func (h *loginHandler) routes() []httpserver.Route {
	return append(h.openIDRoutes(), []httpserver.Route{
		h.Get("/login", identity.Public, h.showLogin),
		h.Post("/login", identity.Public, h.logIn),
		h.Get("/login/code", identity.Public, h.showCode),
		h.Post("/login/code", identity.Public, h.confirmLogin),
		h.Post("/logout", identity.Account, h.logOut),
		h.Post("/theme", identity.Public, h.setTheme),
	}...)
}

func (h *loginHandler) showLogin(c *httpserver.Call) error {
	if h.openAs != "" {
		return h.logInAsGuest(c)
	}
	page := site.LoginPage{Next: site.OwnPath(c.Query("next", "/")), Ended: c.Query("ended") != "", AskPassword: c.Query("password") != "" || c.Query("changed") != "", Changed: c.Query("changed") != ""}
	if c.Query("out") != "" && h.openID != nil {
		page.LoggedOut, page.LogoutURL = true, h.openID.LogoutURL("/login")
	}
	return h.renderLogin(c, http.StatusOK, page)
}

// logInAsGuest logs in everybody on this machine, without a password. Pages of other sites make no sessions.
func (h *loginHandler) logInAsGuest(c *httpserver.Call) error {
	if c.Get("Sec-Fetch-Site") == "cross-site" && c.Get("Sec-Fetch-Mode") != "navigate" {
		return errForged
	}
	user, err := h.logins.Users.FindUserByName(c.Context(), h.openAs)
	if err != nil {
		return err
	}
	secret, err := h.logins.Sessions.Begin(c.Context(), user, c.Address, format.ClipLine(c.Get(fiber.HeaderUserAgent), 200))
	if err != nil {
		return err
	}
	return h.finishLogin(c, secret, site.LoginPage{Next: site.OwnPath(c.Query("next", "/"))})
}

func (h *loginHandler) renderLogin(c *httpserver.Call, status int, page site.LoginPage) error {
	page.Frame, page.OpenID = h.NewFrame(c, "Log in", ""), h.openIDChoice(page.Next)
	return h.Render(c, status, "login", page)
}

// readLogin returns the fields of the login form, and the page that shows the form again.
func (h *loginHandler) readLogin(c *httpserver.Call) (values url.Values, page site.LoginPage, err error) {
	if !fromHere(c.Ctx) {
		return nil, page, errForged
	}
	if _, err := httpserver.ReadBody(c.Ctx.Context(), maxLogin); err != nil {
		return nil, page, fault.New(fault.TooLarge, "Nobody was logged in: the form has more than %d bytes.", maxLogin)
	}
	if values, err = form.Read(c); err != nil {
		return nil, page, err
	}
	return values, site.LoginPage{
		AskPassword: true,
		Next:        site.OwnPath(values.Get("next")), Name: format.ClipLine(strings.TrimSpace(values.Get("name")), 64), Unsent: site.ReadUnsent(values),
	}, nil
}

func (h *loginHandler) logIn(c *httpserver.Call) error {
	values, page, err := h.readLogin(c)
	if err != nil {
		return err
	}
	in, err := h.logins.LogIn(c.Context(), identities.LogIn{
		Name: page.Name, Password: values.Get("password"), Address: c.Address,
		Agent: format.ClipLine(c.Get(fiber.HeaderUserAgent), 200), Former: h.sessions.cookie(c.Ctx),
	})
	var wrong *identities.WrongPassword
	switch {
	case errors.As(err, &wrong):
		page.Problem, page.Advice = "Name and password do not match.", triesLeft(wrong.Left)
		return h.renderLogin(c, http.StatusUnprocessableEntity, page)
	case err != nil:
		return h.refuseLogin(c, err, page, h.renderLogin)
	case in.Pending != "":
		h.sessions.setPendingCookie(c.Ctx, in.Pending, identity.PendingLoginLifetime)
		return h.renderCode(c, http.StatusOK, page)
	}
	return h.finishLogin(c, in.Session, page)
}

// refuseLogin shows the form again after an error that both steps of a login can have.
func (h *loginHandler) refuseLogin(c *httpserver.Call, err error, page site.LoginPage, render func(*httpserver.Call, int, site.LoginPage) error) error {
	var throttled *identities.ThrottledLogin
	switch {
	case errors.As(err, &throttled):
		page.Problem, page.Advice = "Too many attempts.", "Wait "+phrase.Duration(format.RoundUp(throttled.Wait))+", then try again. Until then no password is read."
		c.Set("Retry-After", format.Seconds(throttled.Wait))
		return render(c, http.StatusTooManyRequests, page)
	case fault.Is(err, fault.Conflict): // the user was changed in between
		page.Problem, page.Advice = "You are not logged in.", err.Error()
		return h.renderLogin(c, http.StatusConflict, page)
	}
	return err
}

// finishLogin sets the session cookie, and redirects to the requested page.
func (h *loginHandler) finishLogin(c *httpserver.Call, secret string, page site.LoginPage) error {
	h.sessions.setCookie(c.Ctx, secret, h.sessions.Lifetime)
	if page.Unsent != nil {
		return h.offerUnsent(c, secret, page.Unsent)
	}
	return h.Redirect(c, page.Next)
}

// showCode shows the second step of a login again, for a browser that reloads its address.
func (h *loginHandler) showCode(c *httpserver.Call) error {
	page := site.LoginPage{Next: site.OwnPath(c.Query("next", "/"))}
	secret := h.sessions.pendingCookie(c.Ctx)
	if secret == "" {
		return h.Redirect(c, "/login")
	}
	if _, err := h.logins.Awaits(c.Context(), secret); err != nil {
		if fault.Is(err, fault.NotFound) {
			return h.Redirect(c, "/login")
		}
		return err
	}
	return h.renderCode(c, http.StatusOK, page)
}

func (h *loginHandler) renderCode(c *httpserver.Call, status int, page site.LoginPage) error {
	page.Frame = h.NewFrame(c, "Log in", "")
	return h.Render(c, status, "login-code", page)
}

// confirmLogin is the second step of a login.
func (h *loginHandler) confirmLogin(c *httpserver.Call) error {
	values, page, err := h.readLogin(c)
	if err != nil {
		return err
	}
	session, err := h.logins.Confirm(c.Context(), identities.ConfirmLogin{
		Pending: h.sessions.pendingCookie(c.Ctx), Code: format.ClipLine(values.Get("code"), 64), Address: c.Address,
		Agent: format.ClipLine(c.Get(fiber.HeaderUserAgent), 200), Former: h.sessions.cookie(c.Ctx),
	})
	var wrong *identities.WrongCode
	switch {
	case errors.As(err, &wrong):
		page.Problem, page.Advice = "The code was not accepted.", wrong.Reason+" "+codesLeft(wrong.Left)
		return h.renderCode(c, http.StatusUnprocessableEntity, page)
	case fault.Is(err, fault.NotFound):
		h.sessions.setPendingCookie(c.Ctx, "", -1)
		page.Problem, page.Advice = "You are not logged in yet.", "A code is accepted for five minutes and five tries. Enter your name and password again."
		return h.renderLogin(c, http.StatusUnprocessableEntity, page)
	case err != nil:
		return h.refuseLogin(c, err, page, h.renderCode)
	}
	h.sessions.setPendingCookie(c.Ctx, "", -1)
	return h.finishLogin(c, session, page)
}

func codesLeft(n int) string {
	switch n {
	case 0:
		return "That was the last try; log in again for more."
	case 1:
		return "1 more try."
	}
	return phrase.Number(int64(n)) + " more tries."
}

// offerUnsent shows the unsent form to the user who has logged in, to be sent now.
func (h *loginHandler) offerUnsent(c *httpserver.Call, secret string, unsent *site.UnsentForm) error {
	l, err := h.sessions.Find(c.Context(), identity.HashSecret(secret))
	if err != nil {
		return err
	}
	if l == nil { // the session has already ended
		return h.Redirect(c, "/login")
	}
	page := unsentPage{Frame: h.NewFrame(c, "Not sent yet", ""), UnsentForm: unsent}
	page.CSRF = site.MaskCSRF(l.Session.CSRF)
	return h.Render(c, http.StatusOK, "unsent", page)
}

func triesLeft(n int) string {
	switch n {
	case 0:
		return "That was the last try; the next one has to wait."
	case 1:
		return "1 more try, then a wait of one minute."
	}
	return phrase.Number(int64(n)) + " more tries, then a wait of one minute."
}

func (h *loginHandler) logOut(c *httpserver.Call) error {
	ctx := c.Context()
	if err := h.sessions.end(ctx, c); err != nil {
		return err
	}
	if l := loginOf(c); l != nil && l.User.Source() == identity.OpenID {
		return h.Redirect(c, "/login?out=yes")
	}
	return h.Redirect(c, "/login")
}

const themeLifetime = 400 * 24 * time.Hour // browsers keep no cookie longer

// setTheme stores the theme in a cookie of this browser. It changes nothing else, so it needs
// no login.
func (h *loginHandler) setTheme(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	theme := values.Get("theme")
	if !slices.Contains(site.Themes, theme) {
		return fault.Field("theme", "must be one of %s", strings.Join(site.Themes, ", "))
	}
	c.Cookie(&fiber.Cookie{
		Name: site.ThemeCookie, Value: theme, Path: "/", MaxAge: int(themeLifetime / time.Second),
		SameSite: fiber.CookieSameSiteLaxMode, Secure: h.sessions.overTLS(c.Ctx),
	})
	return h.Redirect(c, site.OwnPath(values.Get("back")))
}
