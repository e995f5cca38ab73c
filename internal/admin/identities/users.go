// Package identities contains the use cases of users, their sessions and API tokens. Package
// admin defines use cases.
package identities

import (
	"context"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/paging"
)

// Users are the use cases of users.
type Users struct{ Store UserStore }

// UserStore stores users. Errors that a caller can fix are *fault.Error: NotFound; Conflict of
// the field "name" for a name that is taken; Conflict for a change after which there would be
// no enabled admin and no active admin token.
type UserStore interface {
	FindUsers(ctx context.Context, f identity.UserFilter) (paging.Page[*identity.User], error)
	FindUserByID(ctx context.Context, id string) (*identity.User, error)
	AddUser(ctx context.Context, by audit.Actor, u identity.User) (*identity.User, error)
	// UpdateUser changes a user and ends the user's sessions in the same transaction, because
	// the role or password may have changed.
	UpdateUser(ctx context.Context, by audit.Actor, id string, u identity.UserUpdate) (*identity.User, error)
	// ResetTOTP removes the second factor of a user and ends the user's sessions. The error is
	// a Conflict if the user has none.
	ResetTOTP(ctx context.Context, by audit.Actor, id string) (*identity.User, error)
	// DeleteUser deletes a user and the user's sessions.
	DeleteUser(ctx context.Context, by audit.Actor, id string) error
}

// CreateUser is a request to create a user.
type CreateUser struct{ Name, Role, Password string }

// UpdateUser is a change of a user; nil leaves a field unchanged.
type UpdateUser struct {
	Role     *string
	Disabled *bool
}

// Find returns a page of the users.
func (u *Users) Find(ctx context.Context, f identity.UserFilter) (paging.Page[*identity.User], error) {
	return u.Store.FindUsers(ctx, f)
}

// ByID returns a user.
func (u *Users) ByID(ctx context.Context, id string) (*identity.User, error) {
	return u.Store.FindUserByID(ctx, id)
}

// Create creates a user, who can log in immediately.
func (u *Users) Create(ctx context.Context, c admin.Caller, r CreateUser) (*identity.User, error) {
	if err := identity.CheckUserName(r.Name); err != nil {
		return nil, fault.Field("name", "%s", err.Error())
	}
	role, err := parseRole(r.Role)
	if err != nil {
		return nil, err
	}
	hash, err := hashPassword(r.Password)
	if err != nil {
		return nil, err
	}
	return u.Store.AddUser(ctx, c.Actor, identity.User{Name: r.Name, Role: role, PasswordHash: hash})
}

// Update changes the role of a user, or disables or enables the user. It ends the
// user's sessions.
func (u *Users) Update(ctx context.Context, c admin.Caller, id string, r UpdateUser) (*identity.User, error) {
	change := identity.UserUpdate{Disabled: r.Disabled}
	if r.Role != nil {

		role, err := parseRole(*r.Role)
		if err != nil {
			return nil, err
		}
		if err := u.checkLocal(ctx, id); err != nil {
			return nil, err
		}
		change.Role = &role
	}
	if change.Role == nil && change.Disabled == nil {
		return nil, fault.New(fault.Invalid, "Nothing to change: send role or disabled.")
	}
	return u.Store.UpdateUser(ctx, c.Actor, id, change)
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
func (u *Users) SetPassword(ctx context.Context, c admin.Caller, id, password string) (*identity.User, error) {
	if c.Actor.Kind == audit.User && c.Actor.ID == id {
		return nil, fault.New(fault.Forbidden, "You cannot set your own password here: change it on the page of your account, where the current one is asked for.")
	}
	hash, err := hashPassword(password)
	if err != nil {
		return nil, err
	}
	return u.Store.UpdateUser(ctx, c.Actor, id, identity.UserUpdate{PasswordHash: &hash})
}

// ResetTOTP removes the second factor of another user and ends that user's sessions. The user
// can then log in with the password alone or, if the role requires a second factor, set it up
// again. For their own second factor, users use TwoFactor.Disable, which requires password and
// code.
func (u *Users) ResetTOTP(ctx context.Context, c admin.Caller, id string) (*identity.User, error) {
	if c.Actor.Kind == audit.User && c.Actor.ID == id {
		return nil, fault.New(fault.Forbidden, "You cannot reset your own two-factor authentication: disable it on the page of your account, with your password and a code.")
	}
	return u.Store.ResetTOTP(ctx, c.Actor, id)
}

// Delete deletes a user and ends the user's sessions.
func (u *Users) Delete(ctx context.Context, c admin.Caller, id string) error {
	return u.Store.DeleteUser(ctx, c.Actor, id)
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
