package httpserver

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
)

// authorize sets the principal of a call and refuses a request without sufficient access. On
// the check listener every refusal is 401, because 403 there means that a block refuses.
// CheckAuth applies only to checks.
func (s *Server) authorize(c *Call, r *Route) error {
	if r.Access == identity.Public || r.Listener == Checks && r.Access == identity.Check && !s.o.CheckAuth {
		return nil
	}
	c.need, c.users = r.Access, s.o.Credentials.UsersRevision()
	principal, err := s.principal(c, r)
	if err != nil {
		return err
	}
	c.Principal = principal
	if principal.May(r.Access) {
		return nil
	}
	if principal.MustSetUpTOTP {
		return fault.New(fault.Forbidden, "Your role needs two-factor authentication: set it up on the page /account first.")
	}
	code := fault.Forbidden
	if r.Listener == Checks {
		code = fault.Unauthorized
	}
	if principal.Role != "" {
		return fault.New(code, "This needs the access %q; your role %s has %s.", r.Access, principal.Role, AccessList(principal.Access))
	}
	return fault.New(code, "This needs the access %q; the token has %s.", r.Access, AccessList(principal.Access))
}

// AccessList formats accesses for messages.
func AccessList(all []identity.Access) string {
	if len(all) == 0 {
		return "none"
	}
	texts := make([]string, len(all))
	for i, a := range all {
		texts[i] = string(a)
	}
	return strings.Join(texts, ", ")
}

func (s *Server) principal(c *Call, r *Route) (*Principal, error) {
	secret, given := token(c.Ctx, r)
	if !given && s.o.Sessions != nil && r.TokenHeader == "" {
		principal, err := sessionOf(s, c)
		if err != nil || principal != nil {
			return principal, err
		}
	}
	if !given && r.TokenHeader != "" {
		return nil, fault.New(fault.Unauthorized, "Have the proxy send a token in the header %s.", r.TokenHeader)
	}
	if !given {
		return nil, fault.New(fault.Unauthorized, `Send a token in the header "Authorization: Bearer ...".`)
	}
	return s.holder(c.Address, secret)
}

// sessionOf returns the principal of the request's session, nil for none. A request that only reads
// has one time for finding the session and for all that follows.
func sessionOf(s *Server, c *Call) (*Principal, error) {
	if onlyReads(c) {
		return s.o.Sessions.SessionOf(c.Context(), c.Ctx)
	}
	ctx, cancel := storeContext(s.o.StoreLiveness, c.DecisionContext(), true)
	defer cancel()
	return s.o.Sessions.SessionOf(ctx, c.Ctx)
}

// AuthorizeCheck refuses a check that arrived over another protocol, unless checks need no
// token or this token allows them. secret is the token, "" for none. It returns the token's name. The error is a
// *fault.Error or a *RetryError. Invalid tokens are counted as for HTTP requests.
func (s *Server) AuthorizeCheck(address netip.Addr, secret string) (caller string, err error) {
	if !s.o.CheckAuth {
		return "", nil
	}
	if secret == "" {
		return "", fault.New(fault.Unauthorized, "Send a token of the scope check.")
	}
	principal, err := s.holder(address, secret)
	if err != nil {
		return "", err
	}
	if !principal.May(identity.Check) {
		return "", fault.New(fault.Unauthorized, "This needs the access %q; the token has %s.", identity.Check, AccessList(principal.Access))
	}
	return principal.Name, nil
}

// KnowsCheckToken reports whether AuthorizeCheck decides about a secret without waiting. For an
// invalid secret, AuthorizeCheck calls the throttle that all nodes share.
func KnowsCheckToken(s *Server, secret string) bool {
	if !s.o.CheckAuth || secret == "" {
		return true
	}
	token, found := s.o.Credentials.TokenByHash(identity.HashSecret(secret))
	return found && token.ActiveAt(s.o.Now())
}

// holder returns the principal of a token that came from an address.
func (s *Server) holder(address netip.Addr, secret string) (*Principal, error) {
	if !s.o.Credentials.Loaded() {
		return nil, fault.New(fault.Unavailable, "This node has not loaded its tokens yet; try again in a moment.")
	}
	now := s.o.Now()
	token, found := s.o.Credentials.TokenByHash(identity.HashSecret(secret))
	if _, unconfirmed := s.o.Credentials.Unconfirmed(); !found && unconfirmed {
		return nil, fault.New(fault.Unavailable, "This node started while its database is unreachable and cannot look this token up; try again when the database is back.")
	}
	if !found || !token.ActiveAt(now) {
		return nil, s.badToken(address, secret, found, token)
	}
	s.tokens.note(token.ID, now)
	return &Principal{Kind: audit.Token, ID: token.ID, Name: token.Name, Access: token.Scopes, Expires: token.Expires, Proof: identity.HashSecret(secret)}, nil
}

// badToken counts an invalid token and returns an error that says what is wrong. Only a caller
// who knows the secret learns that the token was revoked or has expired.
func (s *Server) badToken(address netip.Addr, secret string, found bool, token *identity.Token) error {
	wait := s.o.Throttle.BadToken(context.Background(), address)
	if s.o.CountToken != nil {
		outcome := identity.LoginRefused
		if wait > 0 {
			outcome = identity.LoginThrottled
		}
		s.o.CountToken(outcome)
	}
	if wait > 0 {
		return &RetryError{fault.New(fault.TooMany, "Too many wrong tokens came from this address; wait before you try another."), wait}
	}
	switch {
	case found && !token.Revoked.IsZero():
		return fault.New(fault.Unauthorized, "The token %q was revoked.", token.Name)
	case found:
		return fault.New(fault.Unauthorized, "The token %q has expired.", token.Name)
	case identity.Mistyped(secret):
		return fault.New(fault.Unauthorized, "The token is mistyped: its last characters do not fit the others.")
	}
	return fault.New(fault.Unauthorized, "There is no such token.")
}

// ParseTokenHeader reads the name of a header that holds a token; see Route.TokenHeader. It
// refuses headers that have their own meaning.
func ParseTokenHeader(text string) (TokenHeader, error) {
	if !isToken(text) || isFramingHeader(text) {
		return "", fmt.Errorf("%q cannot hold the token of a proxy; name a header that the proxy sets, for example X-Stint-Token", text)
	}
	return TokenHeader(text), nil
}

// TokenHeader is the name of a header that holds a token.
type TokenHeader string

// String returns the name.
func (h TokenHeader) String() string { return string(h) }

// token returns the token of a request to a route.
func token(c *fiber.Ctx, r *Route) (string, bool) {
	return secretIn(c.Request().Header.PeekAll(r.headerOfToken()), r)
}

// headerOfToken returns the name of the header that holds the token.
func (r *Route) headerOfToken() string {
	if r.TokenHeader == "" {
		return fiber.HeaderAuthorization
	}
	return string(r.TokenHeader)
}

// secretIn returns the token in the lines of the header. A request with two lines has none.
func secretIn(lines [][]byte, r *Route) (string, bool) {
	if len(lines) != 1 {
		return "", false
	}
	if r.TokenHeader == "" {
		return bearerOf(lines[0])
	}
	secret := strings.TrimSpace(string(lines[0]))
	return secret, secret != ""
}

// bearerOf returns the token in a line of the header Authorization.
func bearerOf(line []byte) (string, bool) {
	scheme, secret, found := strings.Cut(string(line), " ")
	secret = strings.TrimSpace(secret)
	return secret, found && strings.EqualFold(scheme, "Bearer") && secret != ""
}

// tokenUse collects when tokens were last used, so that a check needs no database write.
type tokenUse struct {
	mu   sync.Mutex
	used map[string]time.Time
}

func newTokenUse() *tokenUse { return &tokenUse{used: map[string]time.Time{}} }

func (t *tokenUse) note(id string, at time.Time) {
	t.mu.Lock()
	t.used[id] = at
	t.mu.Unlock()
}

func (t *tokenUse) take() map[string]time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	used := t.used
	t.used = map[string]time.Time{}
	return used
}

// putBack keeps the result of take for the next flush.
func (t *tokenUse) putBack(used map[string]time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, at := range used {
		if at.After(t.used[id]) {
			t.used[id] = at
		}
	}
}

// FlushTokenUse writes which tokens were used since the last flush.
func (s *Server) FlushTokenUse(ctx context.Context) {
	used := s.tokens.take()
	if len(used) == 0 {
		return
	}
	if err := s.o.Tokens.TouchTokens(ctx, used); err != nil {
		s.tokens.putBack(used) // only the displayed time of the last use is late
		s.o.Logger.WarnContext(ctx, "cannot note which tokens were used", "error", escape.Log(err.Error()))
	}
}
