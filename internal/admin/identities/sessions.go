package identities

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
)

const (
	touchEvery = time.Minute // the accuracy of the idle time
	// touchTimeout bounds how long a page waits for the database write.
	touchTimeout = time.Second
	maxRecalled  = 1000
	// maxClockSkew is the allowed difference between the clocks of nodes. A session whose last
	// use is further in the future comes from a node whose clock was ahead. Without this check,
	// it would exceed both its timeouts by that time.
	maxClockSkew = 5 * time.Minute
)

// Sessions find, begin and end the sessions of users. See NewSessions.
type Sessions struct {
	SessionOptions
	mu       sync.Mutex
	recalled map[[32]byte]Login // recently found logins, used while the database is unreachable
}

// SessionOptions configure Sessions.
type SessionOptions struct {
	Store   SessionStore
	Pending PendingLogins
	// UsersRevision is the revision of the newest user change that this node knows.
	UsersRevision func() int64
	// A session ends after IdleTimeout without a request, and Lifetime after the
	// login. Zero means 2 and 24 hours.
	IdleTimeout, Lifetime time.Duration
	// RequireTOTP returns the roles that must have a second factor; nil for none.
	RequireTOTP func() identity.TOTPRoles
	Now         func() time.Time
	Log         *slog.Logger // nil discards
}

// SessionStore stores sessions by the hash of their secret.
type SessionStore interface {
	// BeginSession adds the session of a login and records the login. verified is the hash
	// against which the password was verified. If it is no longer the user's hash, or the user
	// is disabled or deleted, or has a second factor, the error is a Conflict and nothing is
	// added. The addresses become known addresses of the user.
	BeginSession(ctx context.Context, by audit.Actor, s identity.Session, verified string, known ...identity.KnownAddress) error
	FindSession(ctx context.Context, hash []byte) (*identity.Session, *identity.User, error)
	TouchSession(ctx context.Context, hash []byte, at time.Time) error
	// EndSession ends a session on request of its user, and records that. It does nothing if
	// the session has ended.
	EndSession(ctx context.Context, by audit.Actor, hash []byte) error
	// DeleteSession removes a session that has expired.
	DeleteSession(ctx context.Context, hash []byte) error
}

// PendingLogins stores logins that wait for a second factor, by the hash of their secret.
type PendingLogins interface {
	// AddPendingLogin adds a login that waits for its code. If the user's password hash is no
	// longer verified, the error is a Conflict.
	AddPendingLogin(ctx context.Context, by audit.Actor, p identity.PendingLogin, verified string) error
	// FindPendingLogin returns the user of a pending login with attempts left. Otherwise the
	// error is NotFound.
	FindPendingLogin(ctx context.Context, hash []byte) (*identity.User, error)
	// CountPendingAttempt counts a code for a pending login and returns how many attempts are
	// left; the error is NotFound if none was.
	CountPendingAttempt(ctx context.Context, hash []byte) (left int, err error)
	// BeginSessionWithCode is BeginSession for a pending login, which it ends, with a second
	// factor, which it uses up. If the factor was used before, the error is a Conflict of the
	// field "code", and the login remains pending.
	BeginSessionWithCode(ctx context.Context, by audit.Actor, s identity.Session, pending []byte, factor identity.SecondFactor, u *identity.User, known ...identity.KnownAddress) error
}

// Login is an active session and its user.
type Login struct {
	Session identity.Session
	User    identity.User
	// users is UsersRevision before the session was read. If UsersRevision has changed since,
	// the session may have ended.
	users int64
	// MustSetUpTOTP means that the user's role requires a second factor and the user has none.
	// The session then only gives access to setting it up.
	MustSetUpTOTP bool
}

// NewSessions returns Sessions with defaults for unset options.
func NewSessions(o SessionOptions) *Sessions {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = 2 * time.Hour
	}
	if o.Lifetime <= 0 {
		o.Lifetime = 24 * time.Hour
	}
	return &Sessions{SessionOptions: o, recalled: map[[32]byte]Login{}}
}

// Find returns the active session with a hash, nil for none. While the database is unreachable
// it returns the last known state, since nothing can be changed then.
func (s *Sessions) Find(ctx context.Context, hash [32]byte) (*Login, error) {
	users := s.UsersRevision()
	session, user, err := s.Store.FindSession(ctx, hash[:])
	switch {
	case fault.Is(err, fault.NotFound):
		s.forget(hash)
		return nil, nil
	case err != nil:
		l, known := s.recall(hash)
		if !known || l.users != users || !s.isActive(&l) {
			return nil, err
		}
		l.MustSetUpTOTP = s.mustSetUpTOTP(&l.User)
		return &l, nil
	}
	l := Login{*session, *user, users, s.mustSetUpTOTP(user)}
	if known, is := s.recall(hash); is && known.Session.LastSeen.After(l.Session.LastSeen) {
		l.Session.LastSeen = known.Session.LastSeen
	}
	// Pages must be readable even if the database is read-only.
	limited, cancel := context.WithTimeout(ctx, touchTimeout)
	defer cancel()
	if !s.isActive(&l) {
		s.forget(hash)
		_ = s.Store.DeleteSession(limited, hash[:]) // a job deletes the remaining ones
		return nil, nil
	}
	if now := s.Now(); now.Sub(l.Session.LastSeen) >= touchEvery {
		// On an error, the next attempt, and its log line, follow after touchEvery.
		if err := s.Store.TouchSession(limited, hash[:], now); err != nil && ctx.Err() == nil {
			s.Log.Warn("the latest request of a session could not be recorded: another node, or this one after a restart, may end the session too early",
				"user", l.User.Name, "error", err)
		}
		l.Session.LastSeen = now
	}
	s.remember(hash, l)
	return &l, nil
}

// mustSetUpTOTP reports whether a user must set up a second factor first. For users of an
// OpenID provider, the provider decides about second factors.
func (s *Sessions) mustSetUpTOTP(u *identity.User) bool {
	return s.RequireTOTP != nil && u.TOTPSince.IsZero() && u.Source() == identity.Local && s.RequireTOTP().Include(u.Role)
}

// IsActive reports whether the database has the session as active, for a user with this role.
// Unless onlySetUp is true, it must also give access to more than setting up a second factor.
func (s *Sessions) IsActive(ctx context.Context, hash [32]byte, role identity.Role, onlySetUp bool) (bool, error) {
	session, user, err := s.Store.FindSession(ctx, hash[:])
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return user.Role == role && (onlySetUp || !s.mustSetUpTOTP(user)) && s.isActive(&Login{Session: *session, User: *user}), nil
}

// Begin begins a session and returns its secret. user has the hash against which the password
// was verified. If the user was changed since, the error is a Conflict.
func (s *Sessions) Begin(ctx context.Context, user *identity.User, address netip.Addr, agent string) (string, error) {
	secret, session := s.newSession(user, address, agent)
	return secret, s.Store.BeginSession(ctx, actorOf(user, address), session, user.PasswordHash, identity.KnownAddressesOf(address)...)
}

// BeginPending begins a login that waits for its code. It returns the login's secret, which
// gives no access. user is as in Begin.
func (s *Sessions) BeginPending(ctx context.Context, user *identity.User, address netip.Addr) (string, error) {
	secret := rand.Text() + rand.Text()
	hash := identity.HashSecret(secret)
	return secret, s.Pending.AddPendingLogin(ctx, actorOf(user, address), identity.PendingLogin{Hash: hash[:], UserID: user.ID, Address: identity.KnownAddressOf(address)}, user.PasswordHash)
}

// BeginWithCode is Begin for the pending login with this hash and a second factor.
func (s *Sessions) BeginWithCode(ctx context.Context, user *identity.User, pending [32]byte, factor identity.SecondFactor, address netip.Addr, agent string) (string, error) {
	secret, session := s.newSession(user, address, agent)
	return secret, s.Pending.BeginSessionWithCode(ctx, actorOf(user, address), session, pending[:], factor, user, identity.KnownAddressesOf(address)...)
}

func (s *Sessions) newSession(user *identity.User, address netip.Addr, agent string) (secret string, session identity.Session) {
	now := s.Now()
	secret = rand.Text() + rand.Text()
	hash := identity.HashSecret(secret)
	return secret, identity.Session{
		Hash: hash[:], UserID: user.ID, CSRF: rand.Text(), Created: now, LastSeen: now,
		Expires: now.Add(s.Lifetime), Address: address.String(), Agent: agent,
	}
}

// End ends the session of a secret, if there is one.
func (s *Sessions) End(ctx context.Context, secret string, address netip.Addr) error {
	hash := identity.HashSecret(secret)
	session, user, err := s.Store.FindSession(ctx, hash[:])
	s.forget(hash)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.Store.EndSession(ctx, actorOf(user, address), session.Hash)
}

func actorOf(user *identity.User, address netip.Addr) audit.Actor {
	return audit.Actor{Kind: audit.User, ID: user.ID, Name: user.Name, Address: address.String()}
}

func (s *Sessions) isActive(l *Login) bool {
	now := s.Now()
	idle := now.Sub(l.Session.LastSeen)
	return now.Before(l.Session.Expires) && idle < s.IdleTimeout && idle >= -maxClockSkew &&
		l.User.Disabled.IsZero() && l.User.Role.Access() != ""
}

func (s *Sessions) remember(hash [32]byte, l Login) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.recalled[hash]; !known && len(s.recalled) >= maxRecalled {
		for old := range s.recalled { // any one: they are only needed in an outage
			delete(s.recalled, old)
			break
		}
	}
	s.recalled[hash] = l
}

func (s *Sessions) recall(hash [32]byte) (Login, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, known := s.recalled[hash]
	return l, known
}

func (s *Sessions) forget(hash [32]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.recalled, hash)
}
