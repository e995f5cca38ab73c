package client

import (
	"context"
	"net/http"

	"github.com/stint-dev/stint/internal/wire"
)

// Attack returns whether there is an attack now, and its source.
func (c *Client) Attack(ctx context.Context) (*wire.Attack, error) {
	found := &wire.Attack{}
	err := c.do(ctx, request{method: http.MethodGet, path: wire.PathAttack}, found)
	return found, err
}
