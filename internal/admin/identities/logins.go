package identities

import (
	"context"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
)

// Logins is the use case of logging in with a name and a password. It is safe for use by
// many goroutines.
type Logins struct {
	Users    UserNames
	Sessions *Sessions
	Throttle LoginThrottle
	Failed   *FailedLogins // nil: failures are not recorded
	Now      func() time.Time
}

// UserNames finds users by their names.
type UserNames interface {
	// FindUserByName returns a user, or a *fault.Error NotFound.
	FindUserByName(ctx context.Context, name string) (*identity.User, error)
}

// LoginThrottle limits the guessing of passwords.
type LoginThrottle interface {
	// Login counts an attempt and returns how long to wait instead, 0 to go on.
	Login(ctx context.Context, from netip.Addr, account string) time.Duration
	// LoginsLeft returns how many more attempts are let through. It counts nothing.
	LoginsLeft(ctx context.Context, from netip.Addr, account string) int
	// LoggedIn forgets the attempts before a successful one.
	LoggedIn(ctx context.Context, from netip.Addr, account string)
}

// LogIn asks for a session.
type LogIn struct {
	Name, Password string
	Address        netip.Addr
	Agent          string // the browser
	// Former is the secret of the session that the browser had, which ends, "" for none.
	Former string
}

// ThrottledLogin is the error of a login that has to wait. Its password was not looked at.
type ThrottledLogin struct{ Wait time.Duration }

// Error says that there were too many attempts.
func (e *ThrottledLogin) Error() string { return "too many attempts to log in" }

// WrongPassword is the error of a login whose name and password do not belong to an
// enabled user.
type WrongPassword struct {
	Left int // attempts before the next one has to wait
}

// Error says that name and password do not match.
func (e *WrongPassword) Error() string { return "name and password do not match" }

// LogIn begins a session and returns its secret. The attempt is counted before the
// password is looked at, and takes as long for a name that no user has. The error is a
// *ThrottledLogin or a *WrongPassword, or a fault.Conflict if the user was changed while
// the password was verified.
func (l *Logins) LogIn(ctx context.Context, r LogIn) (secret string, err error) {
	if wait := l.Throttle.Login(ctx, r.Address, r.Name); wait > 0 {
		if l.Failed != nil {
			l.Failed.Refused(r.Address, l.Now())
		}
		return "", &ThrottledLogin{wait}
	}
	user, err := l.Users.FindUserByName(ctx, r.Name)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return "", err
	}
	phc := "" // of nobody: takes as long and never matches
	if user != nil {
		phc = user.PasswordHash
	}
	if !identity.VerifyPassword(phc, r.Password) || !user.Disabled.IsZero() {
		if l.Failed != nil {
			l.Failed.Wrong(user, r.Address, l.Now())
		}
		return "", &WrongPassword{l.Throttle.LoginsLeft(ctx, r.Address, r.Name)}
	}
	if r.Former != "" {
		if err := l.Sessions.End(ctx, r.Former, r.Address); err != nil {
			return "", err
		}
	}
	if secret, err = l.Sessions.Begin(ctx, user, r.Address, r.Agent); err != nil {
		return "", err
	}
	l.Throttle.LoggedIn(ctx, r.Address, r.Name)
	return secret, nil
}
