package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// Users manages the users of the admin pages.
type Users struct{ conn *conn }

// List returns the users whose name contains search, all for "".
func (u Users) List(ctx context.Context, search string) ([]wire.User, error) {
	return items[wire.User](ctx, u.conn, get(wire.PathUsers).with(param("search", search)))
}

// Create creates a user.
func (u Users) Create(ctx context.Context, user wire.UserRequest) (*wire.User, error) {
	return call[wire.User](ctx, u.conn, post(wire.PathUsers, user))
}

// Edit changes a user's role, or disables or enables the user.
func (u Users) Edit(ctx context.Context, id string, change wire.UserPatch) (*wire.User, error) {
	return call[wire.User](ctx, u.conn, request{method: http.MethodPatch, path: userPath(id), body: change})
}

// SetPassword sets a user's password and ends the user's sessions.
func (u Users) SetPassword(ctx context.Context, id, password string) error {
	return u.conn.do(ctx, request{method: http.MethodPut, path: userPath(id) + "/password", body: wire.PasswordRequest{Password: password}}, nil)
}

// ResetTOTP removes a user's two-factor authentication and ends the user's sessions.
func (u Users) ResetTOTP(ctx context.Context, id string) (*wire.User, error) {
	return call[wire.User](ctx, u.conn, remove(userPath(id)+"/totp", nil))
}

// Delete deletes a user.
func (u Users) Delete(ctx context.Context, id string) error {
	return u.conn.do(ctx, remove(userPath(id), nil), nil)
}

func userPath(id string) string { return wire.PathUsers + "/" + url.PathEscape(id) }
