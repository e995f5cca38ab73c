package identities

import (
	"context"
	"errors"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
)

// TwoFactor are the use cases of a user's own second factor: codes of an authenticator app
// (TOTP), and recovery codes. An admin removes that of another user with Users.ResetTOTP. The
// callers are users, never tokens.
type TwoFactor struct {
	Store    TwoFactorStore
	Throttle LoginThrottle
	Failed   *FailedLogins // nil: failures are not recorded
	Counter  LoginCounter  // nil: attempts are not counted
	Now      func() time.Time
}

// TwoFactorStore stores second factors. Errors that a caller can fix are *fault.Error. For a
// factor that was used before, or a recovery code that the user does not have, that is a
// Conflict of the field "code".
type TwoFactorStore interface {
	FactorFinder
	FindUserByID(ctx context.Context, id string) (*identity.User, error)
	// StartTOTP stores fresh until the user confirms it in the same session, and returns it. If
	// an earlier secret is still stored for the session, it returns that one. The error is a
	// Conflict if the user has a second factor.
	StartTOTP(ctx context.Context, user string, session []byte, fresh identity.TOTPSecret) (identity.TOTPSecret, error)
	// FindTOTPSetup returns the secret that StartTOTP stored, nil for none.
	FindTOTPSetup(ctx context.Context, user string, session []byte) (identity.TOTPSecret, error)
	// EnableTOTP makes a stored secret the second factor, ends the user's other sessions and
	// forgets the user's known addresses except that of by. No code of a step up to step is
	// accepted afterwards.
	EnableTOTP(ctx context.Context, by audit.Actor, user string, session []byte, secret identity.TOTPSecret, step int64, codes [][]byte) error
	// RenewRecoveryCodes uses a factor up and replaces all recovery codes.
	RenewRecoveryCodes(ctx context.Context, by audit.Actor, user string, factor identity.SecondFactor, codes [][]byte) error
	// DisableTOTP uses a factor up and removes the secret and the recovery codes. verified is
	// the hash against which the password was verified.
	DisableTOTP(ctx context.Context, by audit.Actor, user string, verified string, factor identity.SecondFactor) error
}

// errWrongCode is the fault for a code that is neither the app's code nor in the form of a
// recovery code.
func errWrongCode() error {
	return fault.Field("code", "This is not the code that the app shows now. Check that the clock of the phone is right.")
}

// codeFault returns err as a fault if it is one of the field "code", else nil.
func codeFault(err error) *fault.Error {
	var mistake *fault.Error
	if errors.As(err, &mistake) && mistake.Field == "code" {
		return mistake
	}
	return nil
}

// findFactor returns the second factor that was typed, or a fault of the field "code". The
// store checks whether it was used before.
func findFactor(ctx context.Context, store FactorFinder, user, typed string, at time.Time) (identity.SecondFactor, error) {
	totp, err := store.FindTOTP(ctx, user)
	if err != nil {
		return identity.SecondFactor{}, err
	}
	if totp == nil {
		return identity.SecondFactor{}, fault.New(fault.Conflict, "This account was changed a moment ago; log in again.")
	}
	if totp.Secret == nil && !identity.IsRecoveryCode(typed) {
		return identity.SecondFactor{}, fault.Field("code", "Codes of the app cannot be checked: its secret cannot be read from the database. Use a recovery code, or ask an admin to reset your two-factor authentication.")
	}
	factor, found := identity.SecondFactorOf(typed, totp.Secret, at)
	if !found {
		return identity.SecondFactor{}, errWrongCode()
	}
	return factor, nil
}

// Find returns the second factor of the caller without its secret, nil for none.
func (t *TwoFactor) Find(ctx context.Context, c admin.Caller) (*identity.TOTP, error) {
	found, err := t.Store.FindTOTP(ctx, c.Actor.ID)
	if found != nil {
		found.Secret = nil
	}
	return found, err
}

// Start returns the secret of a second factor that the caller sets up in a session. It takes
// effect after Confirm has verified a code.
func (t *TwoFactor) Start(ctx context.Context, c admin.Caller, session [32]byte) (identity.TOTPSecret, error) {
	return t.Store.StartTOTP(ctx, c.Actor.ID, session[:], identity.NewTOTPSecret())
}

// ConfirmTOTP is a request to put a second factor into effect.
type ConfirmTOTP struct {
	Session        [32]byte // hash of the session's secret
	Password, Code string
	// LoggedIn means that the caller must set up a second factor and has just logged in with
	// the password (see IsFreshLogin), so that Password is not needed.
	LoggedIn bool
}

// IsFreshLogin reports whether a session began so recently that the password need not be
// entered again.
func (t *TwoFactor) IsFreshLogin(began time.Time) bool {
	return t.Now().Sub(began) < identity.TOTPSetupLifetime
}

// Confirm puts the second factor into effect that Start created in this session. It returns the
// recovery codes, which are shown once, and ends the caller's other sessions. The error is a
// *ThrottledLogin or a fault.
func (t *TwoFactor) Confirm(ctx context.Context, c admin.Caller, r ConfirmTOTP) ([]string, error) {
	if !r.LoggedIn {
		if wait := t.Throttle.Login(ctx, c.Address, c.Actor.Name); wait > 0 {
			return nil, t.throttled(c, identity.ByPassword, wait)
		}
		if _, err := t.verifyPassword(ctx, c, r.Password); err != nil {
			return nil, err
		}
	}
	secret, err := t.Store.FindTOTPSetup(ctx, c.Actor.ID, r.Session[:])
	if err != nil {
		return nil, err
	}
	if secret == nil {
		return nil, fault.New(fault.Conflict, "The setup has expired; start again.")
	}
	factor, found := identity.SecondFactorOf(r.Code, secret, t.Now())
	if !found || factor.IsRecovery() {
		return nil, errWrongCode()
	}
	codes, hashes := identity.NewRecoveryCodes()
	err = t.Store.EnableTOTP(ctx, c.Actor, c.Actor.ID, r.Session[:], secret, factor.Step, hashes)
	if _, err := savedWarnings(err); err != nil {
		return nil, err
	}
	if !r.LoggedIn {
		t.Throttle.LoggedIn(ctx, c.Address, c.Actor.Name)
	}
	return codes, nil
}

// RenewRecoveryCodes replaces the caller's recovery codes and returns the new ones, which
// are shown once. The error is a *ThrottledLogin or a fault.
func (t *TwoFactor) RenewRecoveryCodes(ctx context.Context, c admin.Caller, code string) ([]string, error) {
	factor, err := t.factor(ctx, c, code)
	if err != nil {
		return nil, err
	}
	codes, hashes := identity.NewRecoveryCodes()
	_, err = savedWarnings(t.Store.RenewRecoveryCodes(ctx, c.Actor, c.Actor.ID, factor, hashes))
	if err := t.used(c, code, err); err != nil {
		return nil, err
	}
	t.Throttle.LoggedIn(ctx, c.Address, c.Actor.Name)
	return codes, nil
}

// Disable removes the caller's second factor. The error is a *ThrottledLogin or a fault.
func (t *TwoFactor) Disable(ctx context.Context, c admin.Caller, password, code string) error {
	// Counted first: otherwise the password could be guessed here without the login's limits.
	factor, err := t.factor(ctx, c, code)
	if err != nil {
		return err
	}
	user, err := t.verifyPassword(ctx, c, password)
	if err != nil {
		return err
	}
	err = t.Store.DisableTOTP(ctx, c.Actor, user.ID, user.PasswordHash, factor)
	if err := t.used(c, code, err); err != nil {
		return err
	}
	t.Throttle.LoggedIn(ctx, c.Address, c.Actor.Name)
	return nil
}

// verifyPassword returns the caller's user with the hash against which the password was
// verified. The attempt is already counted.
func (t *TwoFactor) verifyPassword(ctx context.Context, c admin.Caller, password string) (*identity.User, error) {
	user, err := t.Store.FindUserByID(ctx, c.Actor.ID)
	if err != nil {
		return nil, err
	}
	if !identity.VerifyPassword(user.PasswordHash, password) {
		count(t.Counter, identity.ByPassword, identity.LoginRefused)
		if t.Failed != nil {
			t.Failed.Wrong(user, c.Address, t.Now())
		}
		return nil, fault.Field("password", "is wrong")
	}
	count(t.Counter, identity.ByPassword, identity.LoginOK)
	return user, nil
}

func (t *TwoFactor) throttled(c admin.Caller, by identity.LoginMethod, wait time.Duration) error {
	count(t.Counter, by, identity.LoginThrottled)
	if t.Failed != nil {
		t.Failed.Refused(c.Address, t.Now())
	}
	return &ThrottledLogin{wait}
}

// factor counts an attempt and returns the factor that was typed.
func (t *TwoFactor) factor(ctx context.Context, c admin.Caller, typed string) (identity.SecondFactor, error) {
	if wait := countCode(ctx, t.Throttle, typed, c.Address, c.Actor.Name); wait > 0 {
		return identity.SecondFactor{}, t.throttled(c, identity.LoginMethodOfCode(typed), wait)
	}
	factor, err := findFactor(ctx, t.Store, c.Actor.ID, typed, t.Now())
	if err != nil {
		err = t.used(c, typed, err)
	}
	return factor, err
}

// used counts the result of a code, and returns err.
func (t *TwoFactor) used(c admin.Caller, typed string, err error) error {
	count(t.Counter, identity.LoginMethodOfCode(typed), outcomeOf(err))
	if codeFault(err) != nil && t.Failed != nil {
		t.Failed.WrongCode(&identity.User{ID: c.Actor.ID, Name: c.Actor.Name}, c.Address, t.Now())
	}
	return err
}
