package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// Whoami says whose token the client sends and what it may do.
func (c *Client) Whoami(ctx context.Context) (*wire.Whoami, error) {
	w := &wire.Whoami{}
	err := c.do(ctx, request{method: http.MethodGet, path: wire.PathWhoami}, w)
	return w, err
}

// Tokens returns every token, revoked and expired ones included.
func (c *Client) Tokens(ctx context.Context) ([]wire.Token, error) {
	return whole[wire.Token](ctx, c, wire.PathTokens)
}

// CreateToken makes a token; only this answer holds its secret.
func (c *Client) CreateToken(ctx context.Context, t wire.TokenRequest) (*wire.CreatedToken, error) {
	created := &wire.CreatedToken{}
	err := c.do(ctx, request{method: http.MethodPost, path: wire.PathTokens, body: t}, created)
	return created, err
}

// RotateToken makes a token in place of another, which goes on for overlap: not
// at all for 0, the server's default for nil.
func (c *Client) RotateToken(ctx context.Context, id string, overlap *wire.Duration) (*wire.CreatedToken, error) {
	created := &wire.CreatedToken{}
	body := map[string]any{}
	switch {
	case overlap != nil && *overlap == 0:
		body["overlap"] = nil
	case overlap != nil:
		body["overlap"] = *overlap
	}
	err := c.do(ctx, request{method: http.MethodPost, path: tokenPath(id) + "/rotate", body: body}, created)
	return created, err
}

// RevokeToken ends a token now.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	err := c.do(ctx, request{method: http.MethodDelete, path: tokenPath(id)}, nil)
	return err
}

func tokenPath(id string) string { return wire.PathTokens + "/" + url.PathEscape(id) }

// Users returns every user.
func (c *Client) Users(ctx context.Context) ([]wire.User, error) {
	return whole[wire.User](ctx, c, wire.PathUsers)
}

// CreateUser makes a user.
func (c *Client) CreateUser(ctx context.Context, u wire.UserRequest) (*wire.User, error) {
	created := &wire.User{}
	err := c.do(ctx, request{method: http.MethodPost, path: wire.PathUsers, body: u}, created)
	return created, err
}

// EditUser changes a user's role or disables the user.
func (c *Client) EditUser(ctx context.Context, id string, change wire.UserPatch) (*wire.User, error) {
	u := &wire.User{}
	err := c.do(ctx, request{method: http.MethodPatch, path: userPath(id), body: change}, u)
	return u, err
}

// SetPassword sets a user's password and ends the user's sessions.
func (c *Client) SetPassword(ctx context.Context, id, password string) error {
	err := c.do(ctx, request{method: http.MethodPut, path: userPath(id) + "/password", body: wire.PasswordRequest{Password: password}}, nil)
	return err
}

// DeleteUser removes a user.
func (c *Client) DeleteUser(ctx context.Context, id string) error {
	err := c.do(ctx, request{method: http.MethodDelete, path: userPath(id)}, nil)
	return err
}

func userPath(id string) string { return wire.PathUsers + "/" + url.PathEscape(id) }
