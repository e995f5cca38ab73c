package adminui

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
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

// sessions finds, begins and ends the sessions of users.
type sessions struct {
	identity identity.Store
	catalog  *catalog.Catalog
	secure   bool // the listener speaks TLS itself
	// idleTimeout and lifetime end a session.
	idleTimeout, lifetime time.Duration
	now                   func() time.Time

	mu    sync.Mutex
	known map[[32]byte]login // sessions seen lately, used while the database is unreachable
}

// login is one session and whose it is.
type login struct {
	session identity.Session
	user    identity.User
	// users is the catalog's UsersRevision before it was read: once that moves,
	// the session may have ended.
	users int64
}

const (
	loginLocal localKey = "login"
)

type localKey string

// loginOf returns the session that a request belongs to, nil for none: a token
// may ask for a page too.
func loginOf(c *httpserver.Call) *login {
	l, _ := c.Locals(loginLocal).(*login)
	return l
}

// SessionOf implements httpserver.Sessions.
func (s *sessions) SessionOf(c *fiber.Ctx) (*httpserver.Principal, error) {
	secret := s.cookie(c)
	if secret == "" {
		return nil, nil
	}
	hash := identity.HashSecret(secret)
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	l, err := s.findLogin(ctx, hash)
	if err != nil || l == nil {
		return nil, err
	}
	if changes(c.Method()) {
		if err := s.prove(c, &l.session); err != nil {
			return nil, err
		}
	}
	c.Locals(loginLocal, l)
	c.Locals(site.CSRFLocal, l.session.CSRF)
	return &httpserver.Principal{
		Kind: audit.User, ID: l.user.ID, Name: l.user.Name,
		Role: l.user.Role, Access: []identity.Access{l.user.Role.Access()}, Proof: hash,
	}, nil
}

// SessionHolds implements httpserver.Sessions.
func (s *sessions) SessionHolds(ctx context.Context, p *httpserver.Principal) (bool, error) {
	session, user, err := s.identity.FindSession(ctx, p.Proof[:])
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return user.Role == p.Role && s.isActive(&login{session: *session, user: *user}), nil
}

func (s *sessions) cookie(c *fiber.Ctx) string {
	if secret := c.Cookies(secureCookie); secret != "" || s.secure {
		return secret
	}
	return c.Cookies(plainCookie)
}

// findLogin returns an active session, nil for none. While the database is
// unreachable it goes by what it said last: nothing can be changed then.
func (s *sessions) findLogin(ctx context.Context, hash [32]byte) (*login, error) {
	users := s.catalog.UsersRevision()
	session, user, err := s.identity.FindSession(ctx, hash[:])
	switch {
	case fault.Is(err, fault.NotFound):
		s.forget(hash)
		return nil, nil
	case err != nil:
		l, known := s.recall(hash)
		if !known || l.users != users || !s.isActive(&l) {
			return nil, err
		}
		return &l, nil
	}
	l := login{*session, *user, users}
	if !s.isActive(&l) {
		s.forget(hash)
		return nil, s.identity.DeleteSession(ctx, hash[:])
	}
	if now := s.now(); now.Sub(l.session.LastSeen) >= touchEvery {
		if err := s.identity.TouchSession(ctx, hash[:], now); err != nil {
			return nil, err
		}
		l.session.LastSeen = now
	}
	s.remember(hash, l)
	return &l, nil
}

func (s *sessions) isActive(l *login) bool {
	now := s.now()
	return now.Before(l.session.Expires) && now.Sub(l.session.LastSeen) < s.idleTimeout &&
		l.user.Disabled.IsZero() && l.user.Role.Access() != ""
}

func (s *sessions) remember(hash [32]byte, l login) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.known[hash]; !known && len(s.known) >= maxKnown {
		for old := range s.known { // any will do: only an outage asks for it
			delete(s.known, old)
			break
		}
	}
	s.known[hash] = l
}

func (s *sessions) recall(hash [32]byte) (login, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, known := s.known[hash]
	return l, known
}

func (s *sessions) forget(hash [32]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, hash)
}

// begin logs a user in under a new secret and sets the cookie. The user
// is as the password was verified against.
func (s *sessions) begin(ctx context.Context, c *httpserver.Call, user *identity.User) error {
	now := s.now()
	secret := rand.Text() + rand.Text()
	hash := identity.HashSecret(secret)
	by := audit.Actor{Kind: audit.User, ID: user.ID, Name: user.Name, Address: c.Address.String()}
	err := s.identity.BeginSession(ctx, by, identity.Session{
		Hash: hash[:], UserID: user.ID, CSRF: rand.Text(), Created: now, LastSeen: now,
		Expires: now.Add(s.lifetime), Address: c.Address.String(), Agent: format.ClipLine(c.Get(fiber.HeaderUserAgent), 200),
	}, user.PasswordHash, identity.KnownAddressOf(c.Address))
	if err != nil {
		return err
	}
	s.setCookie(c.Ctx, secret, s.lifetime)
	return nil
}

// end ends the session of a request, if it has one.
func (s *sessions) end(ctx context.Context, c *httpserver.Call) error {
	secret := s.cookie(c.Ctx)
	if secret == "" {
		return nil
	}
	hash := identity.HashSecret(secret)
	session, user, err := s.identity.FindSession(ctx, hash[:])
	s.forget(hash)
	s.setCookie(c.Ctx, "", -1)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	by := audit.Actor{Kind: audit.User, ID: user.ID, Name: user.Name, Address: c.Address.String()}
	return s.identity.EndSession(ctx, by, session.Hash)
}

// setCookie has the browser keep value for lifetime, at least a second, or
// delete it where lifetime is negative. It says how long, not until when: the
// browser's clock may be wrong.
func (s *sessions) setCookie(c *fiber.Ctx, value string, lifetime time.Duration) {
	maxAge := -1
	if lifetime >= 0 {
		maxAge = max(1, int(lifetime/time.Second))
	}
	cookie := fiber.Cookie{
		Name: plainCookie, Value: value, Path: "/", MaxAge: maxAge,
		HTTPOnly: true, SameSite: fiber.CookieSameSiteStrictMode,
	}
	if s.overTLS(c) {
		cookie.Name, cookie.Secure = secureCookie, true
	}
	c.Cookie(&cookie)
}

// overTLS reports whether the browser came by TLS: this listener's own, or that
// of a proxy before it, as the page's origin says.
func (s *sessions) overTLS(c *fiber.Ctx) bool {
	return s.secure || strings.HasPrefix(c.Get(fiber.HeaderOrigin), "https://")
}

func changes(method string) bool {
	return method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

var errForged = fault.New(fault.Forbidden, "Nothing was changed: the form does not belong to your present login. Go back, load the page again and repeat it.")

// prove returns an error unless a change comes from a page of this session:
// the browser says that it comes from here, and it carries the session's token.
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
	if subtle.ConstantTimeCompare([]byte(token), []byte(session.CSRF)) != 1 {
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
