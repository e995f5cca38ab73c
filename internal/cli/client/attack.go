package client

import (
	"context"
	"net/http"

	v1 "github.com/stint-dev/stint/internal/api/v1"
)

// Attack returns whether there is an attack now, and its source.
func (c *Client) Attack(ctx context.Context) (*v1.Attack, error) {
	found := &v1.Attack{}
	err := c.do(ctx, request{method: http.MethodGet, path: v1.PathAttack}, found)
	return found, err
}
