package adminui

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// maxLogin is how many bytes the form may have that anybody may send.
const maxLogin = 16 << 10

type loginPage struct {
	site.Frame
	Next    string
	Name    string
	Problem string // what did not work, "" on the first visit
	Advice  string
}

// loginHandler logs users in and out, and keeps their theme.
type loginHandler struct {
	*site.Site
	sessions     *sessions
	users        LoginStore
	throttle     *httpserver.Throttle
	failedLogins *httpserver.FailedLogins
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
	return h.renderLogin(c, http.StatusOK, loginPage{Next: site.OwnPath(c.Query("next", "/"))})
}

func (h *loginHandler) renderLogin(c *httpserver.Call, status int, page loginPage) error {
	page.Frame = h.NewFrame(c, "Log in", "")
	return h.Render(c, status, "login", page)
}

// logIn counts the attempt before it looks at the password.
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
	page := loginPage{Next: site.OwnPath(values.Get("next")), Name: format.ClipLine(strings.TrimSpace(values.Get("name")), 64)}
	ctx := c.Context()
	if wait := h.throttle.Login(ctx, c.Address, page.Name); wait > 0 {
		h.failedLogins.Refused(c.Address, h.Now())
		page.Problem, page.Advice = "Too many attempts.", "Wait "+format.Duration(format.RoundUp(wait))+", then try again. The right password will not be looked at before."
		c.Set("Retry-After", format.Seconds(wait))
		return h.renderLogin(c, http.StatusTooManyRequests, page)
	}
	user, err := h.users.FindUserByName(ctx, page.Name)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	phc := "" // of nobody: takes as long and is never right
	if user != nil {
		phc = user.PasswordHash
	}
	if !identity.VerifyPassword(phc, values.Get("password")) || !user.Disabled.IsZero() {
		h.failedLogins.Wrong(user, c.Address, h.Now())
		page.Problem = "Name and password do not match."
		page.Advice = triesLeft(h.throttle.LoginsLeft(ctx, c.Address, page.Name))
		return h.renderLogin(c, http.StatusUnprocessableEntity, page)
	}
	if err := h.sessions.end(ctx, c); err != nil { // the session that this browser had before
		return err
	}
	err = h.sessions.begin(ctx, c, user)
	if fault.Is(err, fault.Conflict) { // the user was changed a moment ago
		page.Problem, page.Advice = "You are not logged in.", err.Error()
		return h.renderLogin(c, http.StatusConflict, page)
	}
	if err != nil {
		return err
	}
	h.throttle.LoggedIn(ctx, c.Address, page.Name)
	return h.Redirect(c, page.Next)
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
