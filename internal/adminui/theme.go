package adminui

import (
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
)

const (
	themeCookie   = "stint_theme"
	themeLifetime = 400 * 24 * time.Hour // browsers keep no cookie longer
)

var themes = []string{"system", "light", "dark"}

func themeOf(c *fiber.Ctx) string {
	if theme := c.Cookies(themeCookie); slices.Contains(themes, theme) {
		return theme
	}
	return themes[0]
}

// setTheme keeps the theme in a cookie of this browser. It changes nothing else
// and so needs no login.
func (h *loginHandler) setTheme(c *httpserver.Call) error {
	values, err := form(c)
	if err != nil {
		return err
	}
	theme := values.Get("theme")
	if !slices.Contains(themes, theme) {
		return fault.Field("theme", "must be one of %s", strings.Join(themes, ", "))
	}
	c.Cookie(&fiber.Cookie{
		Name: themeCookie, Value: theme, Path: "/", MaxAge: int(themeLifetime / time.Second),
		SameSite: fiber.CookieSameSiteLaxMode, Secure: h.sessions.overTLS(c.Ctx),
	})
	return h.seeOther(c, ownPath(values.Get("back")))
}

// ownPath returns path where it is an address within these pages, and the
// first page otherwise: no form and no link may lead to another site.
func ownPath(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}
