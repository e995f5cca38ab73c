package client

import (
	"context"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// Connect shows how gateways are connected.
type Connect struct{ conn *conn }

// Gateways returns all gateways.
func (c Connect) Gateways(ctx context.Context) ([]wire.Gateway, error) {
	return items[wire.Gateway](ctx, c.conn, get(wire.PathConnect))
}

// Guide returns the configuration of a gateway.
func (c Connect) Guide(ctx context.Context, gateway string) (*wire.Guide, error) {
	return call[wire.Guide](ctx, c.conn, get(guidePath(gateway)))
}

// CreateToken creates a token for a gateway and returns the configuration with it.
func (c Connect) CreateToken(ctx context.Context, gateway string) (*wire.Guide, error) {
	return call[wire.Guide](ctx, c.conn, post(guidePath(gateway)+"/token", nil))
}

func guidePath(gateway string) string { return wire.PathConnect + "/" + url.PathEscape(gateway) }
