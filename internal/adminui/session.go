package adminui

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// The session's cookie. A browser accepts the first name only over TLS, for the whole host and
// from the host itself.
const (
	secureCookie = "__Host-stint"
	plainCookie  = "stint_session"
)

// The cookie of a login that waits for its code. It gives no access.
const (
	securePendingCookie = "__Host-stint-code"
	plainPendingCookie  = "stint_code"
)

// sessions finds the session of a request by its cookie, and sets the cookie.
type sessions struct {
	*identities.Sessions
	secure bool // the listener itself uses TLS
}

type localKey string

const loginLocal localKey = "login"

// loginOf returns the session of a request, nil for none, for example if the request has a
// token.
func loginOf(c *httpserver.Call) *identities.Login {
	l, _ := c.Locals(loginLocal).(*identities.Login)
	return l
}

// SessionOf implements httpserver.Sessions.
func (s *sessions) SessionOf(ctx context.Context, c *fiber.Ctx) (*httpserver.Principal, error) {
	secret := s.cookie(c)
	if secret == "" {
		return nil, nil
	}
	hash := identity.HashSecret(secret)
	l, err := s.Find(ctx, hash)
	if err != nil || l == nil {
		return nil, err
	}
	if changes(c.Method()) {
		if err := s.prove(c, &l.Session); err != nil {
			return nil, err
		}
	}
	c.Locals(loginLocal, l)
	c.Locals(site.CSRFLocal, l.Session.CSRF)
	access := []identity.Access{l.User.Role.Access(), identity.Account}
	if l.MustSetUpTOTP {
		access = []identity.Access{identity.Account}
	}
	return &httpserver.Principal{
		Kind: audit.User, ID: l.User.ID, Name: l.User.Name,
		Role: l.User.Role, Access: access, Proof: hash, MustSetUpTOTP: l.MustSetUpTOTP, LoggedIn: l.Session.Created,
	}, nil
}

// SessionHolds implements httpserver.Sessions.
func (s *sessions) SessionHolds(ctx context.Context, p *httpserver.Principal) (bool, error) {
	return s.IsActive(ctx, p.Proof, p.Role, p.MustSetUpTOTP)
}

func (s *sessions) cookie(c *fiber.Ctx) string { return s.readCookie(c, secureCookie, plainCookie) }

func (s *sessions) pendingCookie(c *fiber.Ctx) string {
	return s.readCookie(c, securePendingCookie, plainPendingCookie)
}

func (s *sessions) readCookie(c *fiber.Ctx, secure, plain string) string {
	if secret := c.Cookies(secure); secret != "" || s.secure {
		return secret
	}
	return c.Cookies(plain)
}

// end ends the session of a request, if it has one, and deletes its cookie.
func (s *sessions) end(ctx context.Context, c *httpserver.Call) error {
	secret := s.cookie(c.Ctx)
	if secret == "" {
		return nil
	}
	s.setCookie(c.Ctx, "", -1)
	return s.End(ctx, secret, c.Address)
}

// setCookie sets the cookie to value for lifetime, at least a second, or deletes it if lifetime
// is negative. It sends a duration instead of a time, because the browser's clock may be wrong.
func (s *sessions) setCookie(c *fiber.Ctx, value string, lifetime time.Duration) {
	s.writeCookie(c, secureCookie, plainCookie, value, lifetime, s.overTLS(c))
}

// setCookieOver is setCookie for a known use of TLS.
func (s *sessions) setCookieOver(c *fiber.Ctx, value string, lifetime time.Duration, overTLS bool) {
	s.writeCookie(c, secureCookie, plainCookie, value, lifetime, overTLS)
}

// setPendingCookie is setCookie for a login that waits for its code.
func (s *sessions) setPendingCookie(c *fiber.Ctx, value string, lifetime time.Duration) {
	s.writeCookie(c, securePendingCookie, plainPendingCookie, value, lifetime, s.overTLS(c))
}

func (s *sessions) writeCookie(c *fiber.Ctx, secure, plain, value string, lifetime time.Duration, overTLS bool) {
	maxAge := -1
	if lifetime >= 0 {
		maxAge = max(1, int(lifetime/time.Second))
	}
	cookie := fiber.Cookie{
		Name: plain, Value: value, Path: "/", MaxAge: maxAge,
		HTTPOnly: true, SameSite: fiber.CookieSameSiteStrictMode,
	}
	if overTLS {
		cookie.Name, cookie.Secure = secure, true
	}
	c.Cookie(&cookie)
}

// overTLS reports whether the browser uses TLS: to this listener or, according to the page's
// origin, to a proxy in front of it.
func (s *sessions) overTLS(c *fiber.Ctx) bool {
	return s.secure || strings.HasPrefix(c.Get(fiber.HeaderOrigin), "https://")
}

func changes(method string) bool {
	return method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

var errForged = fault.New(fault.Forbidden, "Nothing was changed: the form does not belong to your current login. Go back, reload the page and try again.")

// prove returns an error unless a change comes from a page of this session: the browser says
// that it is same-origin, and the request has the session's token.
func (s *sessions) prove(c *fiber.Ctx, session *identity.Session) error {
	if !fromHere(c) {
		return errForged
	}
	token := c.Get("X-CSRF-Token")
	if token == "" {
		values, err := form.Fields(c)
		if err != nil {
			return err
		}
		token = values.Get("csrf")
	}
	if !site.IsMaskedCSRF(token, session.CSRF) {
		return errForged
	}
	return nil
}

// fromHere reports whether a request comes from a page of this origin, according to the
// browser. Clients other than browsers do not send the header.
func fromHere(c *fiber.Ctx) bool {
	switch c.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return true
	case "":
	default:
		return false
	}
	origin := c.Get(fiber.HeaderOrigin)
	if origin == "" {
		return true
	}
	from, err := url.Parse(origin)
	return err == nil && strings.EqualFold(from.Host, string(c.Request().Host()))
}
