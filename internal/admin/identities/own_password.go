package identities

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
)

// OwnPassword is the use case of changing one's own password. It requires the current one, so
// that a stolen session is not enough to take over the account. The callers are users, never
// tokens. For the passwords of others see Users.SetPassword.
type OwnPassword struct {
	Store    OwnPasswordStore
	Throttle LoginThrottle
	Failed   *FailedLogins // nil: failures are not recorded
	Counter  LoginCounter  // nil: attempts are not counted
	Now      func() time.Time
}

// OwnPasswordStore stores the passwords of users.
type OwnPasswordStore interface {
	FindUserByID(ctx context.Context, id string) (*identity.User, error)
	// UpdateUser is UserStore.UpdateUser. If the password is no longer the verified one, the
	// error is a Conflict.
	UpdateUser(ctx context.Context, by audit.Actor, id string, u identity.UserUpdate) (*identity.User, error)
}

// Has reports whether the caller has a password. Users of an OpenID provider and tokens have
// none.
func (p *OwnPassword) Has(ctx context.Context, c admin.Caller) (bool, error) {
	if c.Actor.Kind != audit.User {
		return false, nil
	}
	user, err := p.Store.FindUserByID(ctx, c.Actor.ID)
	return err == nil && user.Source() == identity.Local, err
}

// ChangePassword is a request to change one's own password.
type ChangePassword struct{ Current, Password string }

// Change replaces the caller's password and ends all sessions of the caller, including this
// one. The attempt counts as a login. The error is a *ThrottledLogin or a fault: of the field
// "current_password" if that is wrong, of "password" if the new one is not allowed.
func (p *OwnPassword) Change(ctx context.Context, c admin.Caller, r ChangePassword) error {
	if c.Actor.Kind != audit.User {
		return fault.New(fault.Forbidden, "A token has no password; set that of a user.")
	}
	user, err := p.Store.FindUserByID(ctx, c.Actor.ID)
	if err != nil {
		return err
	}
	if user.Source() != identity.Local {
		return fault.New(fault.Conflict, "You log in with an OpenID provider: change your password there.")
	}
	if err := identity.CheckPassword(r.Password); err != nil {
		return fault.Field("password", "%s", err.Error())
	}
	if wait := p.Throttle.Login(ctx, c.Address, c.Actor.Name); wait > 0 {
		count(p.Counter, identity.ByPassword, identity.LoginThrottled)
		if p.Failed != nil {
			p.Failed.Refused(c.Address, p.Now())
		}
		return &ThrottledLogin{wait}
	}
	if !identity.VerifyPassword(user.PasswordHash, r.Current) {
		count(p.Counter, identity.ByPassword, identity.LoginRefused)
		if p.Failed != nil {
			p.Failed.Wrong(user, c.Address, p.Now())
		}
		return fault.Field("current_password", "is wrong")
	}
	count(p.Counter, identity.ByPassword, identity.LoginOK)
	if user.TOTPSince.IsZero() { // otherwise the password alone would reset the counts of codes
		p.Throttle.LoggedIn(ctx, c.Address, c.Actor.Name)
	}
	if r.Password == r.Current {
		return fault.Field("password", "is the current password; choose another")
	}
	hash := identity.HashPassword(r.Password)
	_, err = p.Store.UpdateUser(ctx, c.Actor, user.ID, identity.UserUpdate{PasswordHash: &hash, Verified: user.PasswordHash})
	return err
}
