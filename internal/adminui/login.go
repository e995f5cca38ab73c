package adminui

import (
	"errors"
	"net/http"
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
)

// maxLogin is how many bytes the form may have that anybody may send.
const maxLogin = 16 << 10

// unsentPage offers to send a form that was sent after its session had ended.
type unsentPage struct {
	site.Frame
	*site.UnsentForm
}

// loginHandler logs users in and out, and keeps their theme.
type loginHandler struct {
	*site.Site
	sessions *sessions
	logins   *identities.Logins
}

func (h *loginHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.Get("/login", identity.Public, h.showLogin),
		h.Post("/login", identity.Public, h.logIn),
		h.Post("/logout", identity.Read, h.logOut),
		h.Post("/theme", identity.Public, h.setTheme),
	}
}

func (h *loginHandler) showLogin(c *httpserver.Call) error {
	return h.renderLogin(c, http.StatusOK, site.LoginPage{Next: site.OwnPath(c.Query("next", "/")), Ended: c.Query("ended") != ""})
}

func (h *loginHandler) renderLogin(c *httpserver.Call, status int, page site.LoginPage) error {
	page.Frame = h.NewFrame(c, "Log in", "")
	return h.Render(c, status, "login", page)
}

func (h *loginHandler) logIn(c *httpserver.Call) error {
	if !fromHere(c.Ctx) {
		return errForged
	}
	if _, err := httpserver.ReadBody(c.Ctx.Context(), maxLogin); err != nil {
		return fault.New(fault.TooLarge, "Nobody was logged in: the form has more than %d bytes.", maxLogin)
	}
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	page := site.LoginPage{
		Next: site.OwnPath(values.Get("next")), Name: format.ClipLine(strings.TrimSpace(values.Get("name")), 64), Unsent: site.ReadUnsent(values),
	}
	ctx := c.Context()
	secret, err := h.logins.LogIn(ctx, identities.LogIn{
		Name: page.Name, Password: values.Get("password"), Address: c.Address,
		Agent: format.ClipLine(c.Get(fiber.HeaderUserAgent), 200), Former: h.sessions.cookie(c.Ctx),
	})
	var throttled *identities.ThrottledLogin
	var wrong *identities.WrongPassword
	switch {
	case errors.As(err, &throttled):
		page.Problem, page.Advice = "Too many attempts.", "Wait "+format.Duration(format.RoundUp(throttled.Wait))+", then try again. The right password will not be looked at before."
		c.Set("Retry-After", format.Seconds(throttled.Wait))
		return h.renderLogin(c, http.StatusTooManyRequests, page)
	case errors.As(err, &wrong):
		page.Problem, page.Advice = "Name and password do not match.", triesLeft(wrong.Left)
		return h.renderLogin(c, http.StatusUnprocessableEntity, page)
	case fault.Is(err, fault.Conflict): // the user was changed a moment ago
		page.Problem, page.Advice = "You are not logged in.", err.Error()
		return h.renderLogin(c, http.StatusConflict, page)
	case err != nil:
		return err
	}
	h.sessions.setCookie(c.Ctx, secret, h.sessions.Lifetime)
	if page.Unsent != nil {
		return h.offerUnsent(c, secret, page.Unsent)
	}
	return h.Redirect(c, page.Next)
}

// offerUnsent shows what was not sent, to be sent now by the user who has logged in.
func (h *loginHandler) offerUnsent(c *httpserver.Call, secret string, unsent *site.UnsentForm) error {
	l, err := h.sessions.Find(c.Context(), identity.HashSecret(secret))
	if err != nil {
		return err
	}
	if l == nil { // it has ended again
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
	return format.Number(int64(n)) + " more tries, then a wait of one minute."
}

func (h *loginHandler) logOut(c *httpserver.Call) error {
	ctx := c.Context()
	if err := h.sessions.end(ctx, c); err != nil {
		return err
	}
	return h.Redirect(c, "/login")
}

const themeLifetime = 400 * 24 * time.Hour // browsers keep no cookie longer

// setTheme keeps the theme in a cookie of this browser. It changes nothing else
// and so needs no login.
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
