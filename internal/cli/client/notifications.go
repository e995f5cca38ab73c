package client

import (
	"context"
	"net/http"
	"net/url"
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

// Channels returns all channels, without their secrets.
func (n Notifications) Channels(ctx context.Context) ([]wire.Channel, error) {
	return items[wire.Channel](ctx, n.conn, get(wire.PathChannels))
}

// AddChannel creates a channel.
func (n Notifications) AddChannel(ctx context.Context, c wire.ChannelRequest) (*wire.Channel, error) {
	return call[wire.Channel](ctx, n.conn, post(wire.PathChannels, c))
}

func channelPath(name string) string { return wire.PathChannels + "/" + url.PathEscape(name) }

// Channel returns a channel, without its secrets.
func (n Notifications) Channel(ctx context.Context, name string) (*wire.Channel, error) {
	return call[wire.Channel](ctx, n.conn, get(channelPath(name)))
}

// ChangeChannel changes a channel if its ETag is expect.
func (n Notifications) ChangeChannel(ctx context.Context, name, expect string, p wire.ChannelPatch) (*wire.Channel, error) {
	return call[wire.Channel](ctx, n.conn, request{method: http.MethodPatch, path: channelPath(name), header: ifMatch(expect), body: p})
}

// DeleteChannel deletes a channel in any state.
func (n Notifications) DeleteChannel(ctx context.Context, name string) error {
	return n.conn.do(ctx, request{method: http.MethodDelete, path: channelPath(name), header: ifMatch(AnyState)}, nil)
}

// Silences returns the active silences.
func (n Notifications) Silences(ctx context.Context) ([]wire.Silence, error) {
	return items[wire.Silence](ctx, n.conn, get(wire.PathSilences))
}

// AddSilence silences notifications.
func (n Notifications) AddSilence(ctx context.Context, s wire.SilenceRequest) (*wire.Silence, error) {
	return call[wire.Silence](ctx, n.conn, post(wire.PathSilences, s))
}

// EndSilence ends a silence early.
func (n Notifications) EndSilence(ctx context.Context, id string) error {
	return n.conn.do(ctx, remove(wire.PathSilences+"/"+url.PathEscape(id), nil), nil)
}
