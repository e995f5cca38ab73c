package adminui

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/api"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
)

// The session's cookie. A browser takes the first name only over TLS, for the
// whole host and from the host itself.
const (
	secureCookie = "__Host-stint"
	plainCookie  = "stint_session"
)

const (
	touchEvery   = time.Minute // how exactly the idle time is kept
	maxKnown     = 1000
	storeTimeout = 10 * time.Second
)

// login is one session and whose it is.
type login struct {
	session identity.Session
	user    identity.User
	// users is the catalog's UsersRevision before it was read: once that moves,
	// the session may have ended.
	users int64
}

type localsKey string

const (
	loginLocal  localsKey = "login"
	formLocal   localsKey = "form"
	uploadLocal localsKey = "upload"
)

// loginOf returns the session that a request belongs to, nil for none: a token
// may ask for a page too.
func loginOf(c *api.Call) *login {
	l, _ := c.Locals(loginLocal).(*login)
	return l
}

// SessionOf implements api.Sessions.
func (u *UI) SessionOf(c *fiber.Ctx) (*api.Principal, error) {
	secret := u.cookie(c)
	if secret == "" {
		return nil, nil
	}
	hash := identity.HashSecret(secret)
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	l, err := u.findLogin(ctx, hash)
	if err != nil || l == nil {
		return nil, err
	}
	if changes(c.Method()) {
		if err := u.prove(c, &l.session); err != nil {
			return nil, err
		}
	}
	c.Locals(loginLocal, l)
	return &api.Principal{
		Kind: audit.User, ID: l.user.ID, Name: l.user.Name,
		Role: l.user.Role, Access: []identity.Access{l.user.Role.Access()}, Proof: hash,
	}, nil
}

// SessionHolds implements api.Sessions.
func (u *UI) SessionHolds(ctx context.Context, p *api.Principal) (bool, error) {
	session, user, err := u.Identity.FindSession(ctx, p.Proof[:])
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return user.Role == p.Role && u.stands(&login{session: *session, user: *user}), nil
}

func (u *UI) cookie(c *fiber.Ctx) string {
	if secret := c.Cookies(secureCookie); secret != "" || u.Secure {
		return secret
	}
	return c.Cookies(plainCookie)
}

// findLogin returns a session that stands, nil for none. While the database is
// out of reach it goes by what it said last: nothing can be changed then.
func (u *UI) findLogin(ctx context.Context, hash [32]byte) (*login, error) {
	users := u.Catalog.UsersRevision()
	session, user, err := u.Identity.FindSession(ctx, hash[:])
	switch {
	case fault.Is(err, fault.NotFound):
		u.forget(hash)
		return nil, nil
	case err != nil:
		l, known := u.recall(hash)
		if !known || l.users != users || !u.stands(&l) {
			return nil, err
		}
		return &l, nil
	}
	l := login{*session, *user, users}
	if !u.stands(&l) {
		u.forget(hash)
		return nil, u.Identity.DeleteSession(ctx, hash[:])
	}
	if now := u.Now(); now.Sub(l.session.LastSeen) >= touchEvery {
		if err := u.Identity.TouchSession(ctx, hash[:], now); err != nil {
			return nil, err
		}
		l.session.LastSeen = now
	}
	u.remember(hash, l)
	return &l, nil
}

func (u *UI) stands(l *login) bool {
	now := u.Now()
	return now.Before(l.session.Expires) && now.Sub(l.session.LastSeen) < u.IdleTimeout &&
		l.user.Disabled.IsZero() && l.user.Role.Access() != ""
}

func (u *UI) remember(hash [32]byte, l login) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, known := u.known[hash]; !known && len(u.known) >= maxKnown {
		for old := range u.known { // any will do: only an outage asks for it
			delete(u.known, old)
			break
		}
	}
	u.known[hash] = l
}

func (u *UI) recall(hash [32]byte) (login, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	l, known := u.known[hash]
	return l, known
}

func (u *UI) forget(hash [32]byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.known, hash)
}

// beginSession logs a user in under a new secret and sets the cookie. The user
// is as the password was verified against.
func (u *UI) beginSession(ctx context.Context, c *api.Call, user *identity.User) error {
	now := u.Now()
	secret := rand.Text() + rand.Text()
	hash := identity.HashSecret(secret)
	by := audit.Actor{Kind: audit.User, ID: user.ID, Name: user.Name, Address: c.Address.String()}
	err := u.Identity.BeginSession(ctx, by, identity.Session{
		Hash: hash[:], UserID: user.ID, CSRF: rand.Text(), Created: now, LastSeen: now,
		Expires: now.Add(u.Lifetime), Address: c.Address.String(), Agent: clipLine(c.Get(fiber.HeaderUserAgent), 200),
	}, user.PasswordHash, identity.KnownAddressOf(c.Address))
	if err != nil {
		return err
	}
	u.setCookie(c.Ctx, secret, u.Lifetime)
	return nil
}

// endSession ends the session of a request, if it has one.
func (u *UI) endSession(ctx context.Context, c *api.Call) error {
	secret := u.cookie(c.Ctx)
	if secret == "" {
		return nil
	}
	hash := identity.HashSecret(secret)
	session, user, err := u.Identity.FindSession(ctx, hash[:])
	u.forget(hash)
	u.setCookie(c.Ctx, "", -1)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	by := audit.Actor{Kind: audit.User, ID: user.ID, Name: user.Name, Address: c.Address.String()}
	return u.Identity.EndSession(ctx, by, session.Hash)
}

// setCookie has the browser keep value for lifetime, at least a second, or
// delete it where lifetime is negative. It says how long, not until when: the
// browser's clock may be wrong.
func (u *UI) setCookie(c *fiber.Ctx, value string, lifetime time.Duration) {
	maxAge := -1
	if lifetime >= 0 {
		maxAge = max(1, int(lifetime/time.Second))
	}
	cookie := fiber.Cookie{
		Name: plainCookie, Value: value, Path: "/", MaxAge: maxAge,
		HTTPOnly: true, SameSite: fiber.CookieSameSiteStrictMode,
	}
	if u.overTLS(c) {
		cookie.Name, cookie.Secure = secureCookie, true
	}
	c.Cookie(&cookie)
}

// overTLS reports whether the browser came by TLS: this listener's own, or that
// of a proxy before it, which the page's origin tells.
func (u *UI) overTLS(c *fiber.Ctx) bool {
	return u.Secure || strings.HasPrefix(c.Get(fiber.HeaderOrigin), "https://")
}

func changes(method string) bool {
	return method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

var errForged = fault.New(fault.Forbidden, "Nothing was changed: the form does not belong to your present login. Go back, load the page again and repeat it.")

// prove returns an error unless a change comes from a page of this session:
// the browser says that it comes from here, and it carries the session's token.
func (u *UI) prove(c *fiber.Ctx, s *identity.Session) error {
	if !fromHere(c) {
		return errForged
	}
	token := c.Get("X-CSRF-Token")
	if token == "" {
		form, err := readForm(c)
		if err != nil {
			return err
		}
		token = form.Get("csrf")
	}
	if subtle.ConstantTimeCompare([]byte(token), []byte(s.CSRF)) != 1 {
		return errForged
	}
	return nil
}

// fromHere reports whether a request comes from a page of this very origin, as
// far as the browser says. What is no browser says nothing.
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
