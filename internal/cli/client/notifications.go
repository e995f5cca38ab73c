package client

import (
	"context"
	"strconv"

	"github.com/stint-dev/stint/internal/wire"
)

// Notifications shows the notifications and tests the channels.
type Notifications struct{ conn *conn }

// List returns the channels and the newest deliveries.
func (n Notifications) List(ctx context.Context, limit int) (*wire.Notifications, error) {
	return call[wire.Notifications](ctx, n.conn, get(wire.PathNotifications).with(param("limit", strconv.Itoa(limit))))
}

// Test sends a message over one channel.
func (n Notifications) Test(ctx context.Context, channel string) (*wire.TestAnswer, error) {
	return call[wire.TestAnswer](ctx, n.conn, post(wire.PathNotifications+"/test", wire.TestRequest{Channel: channel}))
}
