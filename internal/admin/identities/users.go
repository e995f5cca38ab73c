// Package identities contains the use cases of users, their sessions and API tokens. Package
// admin defines use cases.
package identities

import (
	"cmp"
	"context"
	"crypto/rand"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/wire"
)

// Users are the use cases of users.
type Users struct {
	Store  UserStore
	Secret func() []byte // signs invitations; all nodes of a database share it
	Now    func() time.Time
}

// UserStore stores users. Errors that a caller can fix are *fault.Error: NotFound; Conflict of
// the field "name" for a name that is taken; Conflict for a change after which there would be
// no enabled admin and no active admin token.
type UserStore interface {
	FindUsers(ctx context.Context, f wire.UserList) (paging.Page[*identity.User], error)
	FindUserByID(ctx context.Context, id string) (*identity.User, error)
	AddUser(ctx context.Context, by audit.Actor, u identity.User) (*identity.User, error)
	// UpdateUser changes a user and ends the user's sessions in the same transaction, because
	// the role or password may have changed.
	UpdateUser(ctx context.Context, by audit.Actor, id string, u identity.UserUpdate) (*identity.User, error)
	// InviteUser gives a user a new revision and records the invitation, which ends within the time.
	// The error is a Conflict if the user is disabled or has no password here.
	InviteUser(ctx context.Context, by audit.Actor, id, within string) (*identity.User, error)
	// ResetTOTP removes the second factor of a user and ends the user's sessions. The error is
	// a Conflict if the user has none.
	ResetTOTP(ctx context.Context, by audit.Actor, id string) (*identity.User, error)
	// DeleteUser deletes a user and the user's sessions.
	DeleteUser(ctx context.Context, by audit.Actor, id string) error
}

// Find returns a page of the users.
func (u *Users) Find(ctx context.Context, _ admin.Caller, f wire.UserList) (wire.Page[wire.User], error) {
	found, err := u.Store.FindUsers(ctx, f)
	return paging.ToWire(found, wireUser), err
}

// ByID returns a user.
func (u *Users) ByID(ctx context.Context, _ admin.Caller, r wire.ByID) (wire.User, error) {
	return shownUser(u.Store.FindUserByID(ctx, r.ID))
}

// Create creates a user, who can log in immediately or, without a password, after an invitation.
func (u *Users) Create(ctx context.Context, c admin.Caller, r wire.UserRequest) (wire.User, error) {
	if err := identity.CheckUserName(r.Name); err != nil {
		return wire.User{}, fault.Field("name", "%s", err.Error())
	}
	role, err := parseRole(r.Role)
	if err != nil {
		return wire.User{}, err
	}
	password := cmp.Or(r.Password, rand.Text()) // nobody knows the latter
	hash, err := hashPassword(password)
	if err != nil {
		return wire.User{}, err
	}
	return shownUser(u.Store.AddUser(ctx, c.Actor, identity.User{Name: r.Name, Role: role, PasswordHash: hash}))
}

// Update changes the role of a user, or disables or enables the user. It ends the
// user's sessions.
func (u *Users) Update(ctx context.Context, c admin.Caller, r wire.UserPatch) (wire.User, error) {
	var change identity.UserUpdate
	if r.Disabled.Given {
		change.Disabled = &r.Disabled.Value
	}
	if r.Role.Given {
		role, err := parseRole(r.Role.Value)
		if err != nil {
			return wire.User{}, err
		}
		if err := u.checkLocal(ctx, r.ID); err != nil {
			return wire.User{}, err
		}
		change.Role = &role
	}
	if change.Role == nil && change.Disabled == nil {
		return wire.User{}, fault.New(fault.Invalid, "Nothing to change: send role or disabled.")
	}
	return shownUser(u.Store.UpdateUser(ctx, c.Actor, r.ID, change))
}

// checkLocal refuses to set a role that the groups at the OpenID provider determine: the next
// login would undo it.
func (u *Users) checkLocal(ctx context.Context, id string) error {
	user, err := u.Store.FindUserByID(ctx, id)
	if err != nil || user.Source() == identity.Local {
		return err
	}
	e := fault.New(fault.Conflict, "The groups of %q at the OpenID provider decide the role; change them there, or disable the user.", user.Name)
	e.Field = "role"
	return e
}

// SetPassword changes the password of another user and ends that user's sessions. For their own
// password, users use OwnPassword, which requires the current one.
func (u *Users) SetPassword(ctx context.Context, c admin.Caller, r wire.PasswordRequest) (wire.User, error) {
	if c.Actor.Kind == audit.User && c.Actor.ID == r.ID {
		return wire.User{}, fault.New(fault.Forbidden, "You cannot set your own password here: change it on the page of your account, where the current one is asked for.")
	}
	hash, err := hashPassword(r.Password)
	if err != nil {
		return wire.User{}, err
	}
	return shownUser(u.Store.UpdateUser(ctx, c.Actor, r.ID, identity.UserUpdate{PasswordHash: &hash}))
}

// ResetTOTP removes the second factor of another user and ends that user's sessions. The user
// can then log in with the password alone or, if the role requires a second factor, set it up
// again. For their own second factor, users use TwoFactor.Disable, which requires password and
// code.
func (u *Users) ResetTOTP(ctx context.Context, c admin.Caller, r wire.ByID) (wire.User, error) {
	if c.Actor.Kind == audit.User && c.Actor.ID == r.ID {
		return wire.User{}, fault.New(fault.Forbidden, "You cannot reset your own two-factor authentication: disable it on the page of your account, with your password and a code.")
	}
	return shownUser(u.Store.ResetTOTP(ctx, c.Actor, r.ID))
}

// Delete deletes a user and ends the user's sessions.
func (u *Users) Delete(ctx context.Context, c admin.Caller, r wire.ByID) (wire.None, error) {
	return wire.None{}, u.Store.DeleteUser(ctx, c.Actor, r.ID)
}

// wireUser returns a user as operators see it.
func wireUser(u *identity.User) wire.User {
	return wire.User{
		ID: u.ID, Name: u.Name, Role: string(u.Role), Disabled: !u.Disabled.IsZero(),
		Source: string(u.Source()), Issuer: u.Issuer, Subject: u.Subject,
		CreatedAt: wire.At(u.Created), LastLoginAt: wire.At(u.LastLogin), DisabledAt: wire.At(u.Disabled),
		TOTPSince: wire.At(u.TOTPSince),
	}
}

func shownUser(u *identity.User, err error) (wire.User, error) {
	if err != nil {
		return wire.User{}, err
	}
	return wireUser(u), nil
}

func parseRole(text string) (identity.Role, error) {
	role := identity.Role(text)
	if role.Access() == "" {
		return "", fault.Field("role", "must be viewer, operator or admin")
	}
	return role, nil
}

func hashPassword(password string) (string, error) {
	if err := identity.CheckPassword(password); err != nil {
		return "", fault.Field("password", "%s", err.Error())
	}
	return identity.HashPassword(password), nil
}
