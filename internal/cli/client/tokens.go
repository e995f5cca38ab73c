package client

import (
	"context"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// Tokens manages API tokens.
type Tokens struct{ conn *conn }

// List returns the tokens whose name or hint contains search, or whose secret it is, all for "",
// including revoked and expired ones.
func (t Tokens) List(ctx context.Context, search string) ([]wire.Token, error) {
	return items[wire.Token](ctx, t.conn, get(wire.PathTokens).with(param("search", search)))
}

// Create creates a token. Only this answer contains its secret.
func (t Tokens) Create(ctx context.Context, token wire.TokenRequest) (*wire.CreatedToken, error) {
	return call[wire.CreatedToken](ctx, t.conn, post(wire.PathTokens, token))
}

// Rotate replaces a token. The old one works for overlap: the server's default for nil,
// not at all for 0.
func (t Tokens) Rotate(ctx context.Context, id string, overlap *wire.Duration) (*wire.CreatedToken, error) {
	var body wire.RotateRequest
	if overlap != nil {
		body.Overlap = wire.To(*overlap)
	}
	return call[wire.CreatedToken](ctx, t.conn, post(tokenPath(id)+"/rotate", body))
}

// Revoke ends a token now.
func (t Tokens) Revoke(ctx context.Context, id string) error {
	return t.conn.do(ctx, remove(tokenPath(id), nil), nil)
}

func tokenPath(id string) string { return wire.PathTokens + "/" + url.PathEscape(id) }
