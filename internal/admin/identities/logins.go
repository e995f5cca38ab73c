package identities

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
)

// Logins is the use case of logging in with a name and a password. It is safe for concurrent
// use.
type Logins struct {
	Users    UserNames
	Sessions *Sessions
	Factors  FactorFinder
	Throttle LoginThrottle
	Failed   *FailedLogins // nil: failures are not recorded
	Counter  LoginCounter  // nil: attempts are not counted
	// PasswordUsers are the names of the only users who may log in with a password, nil for all
	// users.
	PasswordUsers []string
	Now           func() time.Time
}

// UserNames finds users by their names.
type UserNames interface {
	// FindUserByName returns a user. The error is a *fault.Error NotFound if there is none.
	FindUserByName(ctx context.Context, name string) (*identity.User, error)
}

// FactorFinder finds second factors.
type FactorFinder interface {
	// FindTOTP returns the second factor of a user, nil for none.
	FindTOTP(ctx context.Context, user string) (*identity.TOTP, error)
}

// LoginThrottle limits the guessing of passwords and codes.
type LoginThrottle interface {
	// Login counts an attempt and returns how long the caller must wait, 0 to go on.
	Login(ctx context.Context, from netip.Addr, account string) time.Duration
	// Code is Login for a code of the app, to which lower limits apply in addition.
	Code(ctx context.Context, from netip.Addr, account string) time.Duration
	// IsStranger reports whether the account has not recently logged in from the address. It is
	// false for addresses of this machine.
	IsStranger(from netip.Addr, account string) bool
	// LoginsLeft returns how many more attempts are allowed. It counts nothing.
	LoginsLeft(ctx context.Context, from netip.Addr, account string) int
	// LoggedIn resets the counts after a successful attempt.
	LoggedIn(ctx context.Context, from netip.Addr, account string)
}

// LogIn is a request to log in.
type LogIn struct {
	Name, Password string
	Address        netip.Addr
	Agent          string // the browser
	// Former is the secret of the browser's previous session, which ends; "" for none.
	Former string
}

// ThrottledLogin is the error of a login that has to wait. Its password was not checked.
type ThrottledLogin struct{ Wait time.Duration }

// Error says that there were too many attempts.
func (e *ThrottledLogin) Error() string { return "too many attempts to log in" }

// WrongPassword is the error of a login whose name and password do not belong to an enabled
// user.
type WrongPassword struct {
	Left int // attempts before the next one has to wait
}

// Error says that name and password do not match.
func (e *WrongPassword) Error() string { return "name and password do not match" }

// LoggedIn is the result of a login: the secret of a session, or of a pending login for
// Logins.Confirm. The other one is "".
type LoggedIn struct{ Session, Pending string }

// LogIn begins a session or, for a user with a second factor, a login that waits for its code.
// The attempt is counted before the password is checked, and takes as long if no user has the
// name. The error is a *ThrottledLogin, a *WrongPassword, or a fault.Conflict if the user was
// changed while the password was verified.
func (l *Logins) LogIn(ctx context.Context, r LogIn) (LoggedIn, error) {
	in, err := l.logIn(ctx, r)
	outcome := outcomeOf(err)
	if err == nil && in.Pending != "" {
		outcome = identity.LoginPending
	}
	count(l.Counter, identity.ByPassword, outcome)
	return in, err
}

func (l *Logins) logIn(ctx context.Context, r LogIn) (in LoggedIn, err error) {
	if wait := l.Throttle.Login(ctx, r.Address, r.Name); wait > 0 {
		return in, l.throttled(r.Address, wait)
	}
	user, err := l.Users.FindUserByName(ctx, r.Name)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return in, err
	}
	if l.PasswordUsers != nil && !slices.Contains(l.PasswordUsers, r.Name) {
		user = nil
	}
	phc := "" // no user's hash: takes as long and never matches
	if user != nil {
		phc = user.PasswordHash
	}
	matches, err := l.verify(ctx, r, phc)
	if err != nil {
		return in, l.throttled(r.Address, strangersWait)
	}
	if !matches || !user.Disabled.IsZero() {
		if l.Failed != nil {
			l.Failed.Wrong(user, r.Address, l.Now())
		}
		return in, &WrongPassword{l.Throttle.LoginsLeft(ctx, r.Address, r.Name)}
	}
	if !user.TOTPSince.IsZero() {
		// The counts are not reset before the code is right: otherwise anyone who knows the
		// password could reset the counts of codes.
		in.Pending, err = l.Sessions.BeginPending(ctx, user, r.Address)
		return in, err
	}
	if err := l.endFormer(ctx, r.Former, r.Address); err != nil {
		return in, err
	}
	if in.Session, err = l.Sessions.Begin(ctx, user, r.Address, r.Agent); err != nil {
		return LoggedIn{}, err
	}
	l.Throttle.LoggedIn(ctx, r.Address, r.Name)
	return in, nil
}

// strangersWait bounds how long a password from an unknown address waits for other comparisons.
const strangersWait = 5 * time.Second

// verify compares the password. It returns an error if so many strangers are logging in that it
// was not compared.
func (l *Logins) verify(ctx context.Context, r LogIn, phc string) (matches bool, err error) {
	if !l.Throttle.IsStranger(r.Address, r.Name) {
		return identity.VerifyPassword(phc, r.Password), nil
	}
	ctx, cancel := context.WithTimeout(ctx, strangersWait)
	defer cancel()
	return identity.VerifyStrangersPassword(ctx, phc, r.Password)
}

func (l *Logins) throttled(from netip.Addr, wait time.Duration) error {
	if l.Failed != nil {
		l.Failed.Refused(from, l.Now())
	}
	return &ThrottledLogin{wait}
}

func (l *Logins) endFormer(ctx context.Context, secret string, from netip.Addr) error {
	if secret == "" {
		return nil
	}
	return l.Sessions.End(ctx, secret, from)
}

// ConfirmLogin is a request to finish a pending login with its code.
type ConfirmLogin struct {
	Pending string // see LoggedIn.Pending
	Code    string // a code of the app, or a recovery code
	Address netip.Addr
	Agent   string // the browser
	Former  string // see LogIn.Former
}

// WrongCode is the error of a login with the right password and a code that was wrong or used
// before.
type WrongCode struct {
	Left   int    // attempts before the password is needed again
	Reason string // a sentence
}

// Error returns the reason.
func (e *WrongCode) Error() string { return e.Reason }

// countCode counts a second factor before it is checked. It returns how long the caller must
// wait, 0 to go on. The limits of codes do not apply to texts in the form of a recovery code.
// Recovery codes cannot be guessed, and others who know the password could use up the limits of
// codes. Only the form decides, which the sender knows.
func countCode(ctx context.Context, throttle LoginThrottle, typed string, from netip.Addr, account string) time.Duration {
	if identity.IsRecoveryCode(typed) {
		return throttle.Login(ctx, from, account)
	}
	return throttle.Code(ctx, from, account)
}

// Awaits returns the name of the user of a pending login. The error is a fault.NotFound if the
// login has ended.
func (l *Logins) Awaits(ctx context.Context, pending string) (name string, err error) {
	hash := identity.HashSecret(pending)
	user, err := l.Sessions.Pending.FindPendingLogin(ctx, hash[:])
	if err != nil {
		return "", err
	}
	return user.Name, nil
}

// Confirm begins the session of a pending login, and returns its secret. The attempt is counted
// before the code is checked. The error is a *ThrottledLogin, a *WrongCode, a fault.NotFound if
// the pending login has ended, or a fault.Conflict if the user was changed.
func (l *Logins) Confirm(ctx context.Context, r ConfirmLogin) (secret string, err error) {
	secret, err = l.confirm(ctx, r)
	count(l.Counter, identity.LoginMethodOfCode(r.Code), outcomeOf(err))
	return secret, err
}

func (l *Logins) confirm(ctx context.Context, r ConfirmLogin) (secret string, err error) {
	pending := identity.HashSecret(r.Pending)
	user, err := l.Sessions.Pending.FindPendingLogin(ctx, pending[:])
	if err != nil {
		return "", err
	}
	if wait := countCode(ctx, l.Throttle, r.Code, r.Address, user.Name); wait > 0 {
		return "", l.throttled(r.Address, wait)
	}
	left, err := l.Sessions.Pending.CountPendingAttempt(ctx, pending[:])
	if err != nil {
		return "", err
	}
	factor, err := findFactor(ctx, l.Factors, user.ID, r.Code, l.Now())
	if err == nil {
		secret, err = l.Sessions.BeginWithCode(ctx, user, pending, factor, r.Address, r.Agent)
	}
	if mistake := codeFault(err); mistake != nil {
		if l.Failed != nil {
			l.Failed.WrongCode(user, r.Address, l.Now())
		}
		return "", &WrongCode{Left: left, Reason: mistake.Message}
	}
	if err != nil {
		return "", err
	}
	l.Throttle.LoggedIn(ctx, r.Address, user.Name)
	return secret, l.endFormer(ctx, r.Former, r.Address)
}
