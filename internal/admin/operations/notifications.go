package operations

import (
	"context"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/notify"
)

// Notifications is the use case of showing the notifications, and of setting up, testing
// and silencing their channels.
type Notifications struct {
	Outbox   Outbox
	Channels ChannelStore
	Notifier Notifier // nil on a node that sends no notifications
	// Apply has the Notifier use the channels and silences that are stored now, before a
	// change of them is acknowledged; nil where that needs nothing.
	Apply   func(ctx context.Context)
	Builder ChannelBuilder
	// Preset are the channels of the settings, which nobody can change but there.
	Preset   []Channel
	Recorder audit.Recorder
	Now      func() time.Time
}

// Outbox keeps the notifications on their way to people.
type Outbox interface {
	// Deliveries returns the newest deliveries.
	Deliveries(ctx context.Context, limit int) ([]notify.Delivery, error)
}

// Notifier sends messages over its channels.
type Notifier interface {
	// Channels returns the names of the enabled channels.
	Channels() []string
	// Silences returns the silences that apply now, as this node knows them.
	Silences() []notify.Silence
	// Test sends a message over one channel now, and returns the error if it did not
	// arrive.
	Test(ctx context.Context, channel string) error
}

// Delivery is a notification on its way over one channel.
type Delivery = notify.Delivery

var errNoNotifications = fault.New(fault.NotFound, "This node sends no notifications.")

// changed applies a change of channels or silences that was made, of which err is the error.
func (n *Notifications) changed(ctx context.Context, err error) {
	if n.Apply != nil && (err == nil || fault.Is(err, fault.Saved)) {
		n.Apply(ctx)
	}
}

// List returns the names of the enabled channels and the newest deliveries, at most limit.
func (n *Notifications) List(ctx context.Context, limit int) (channels []string, newest []Delivery, err error) {
	if n.Notifier == nil {
		return nil, nil, errNoNotifications
	}
	newest, err = n.Outbox.Deliveries(ctx, limit)
	return n.Notifier.Channels(), newest, err
}

// Test records the test of a channel and sends a message over it, silenced or not. unsent
// is why the message did not arrive, nil if it did.
func (n *Notifications) Test(ctx context.Context, by admin.Caller, channel string) (unsent, err error) {
	if n.Notifier == nil {
		return nil, errNoNotifications
	}
	if !slices.Contains(n.Notifier.Channels(), channel) {
		return nil, fault.NoSuch("channel", "there is no enabled channel of that name; the list of the notifications names them")
	}
	if err := n.Recorder.AddRecord(ctx, audit.Record{
		Actor: by.Actor, Action: "notification.test", Object: "notification", ObjectID: channel, Summary: "Sent a test message over the channel " + channel + ".",
	}); err != nil {
		return nil, err
	}
	return n.Notifier.Test(context.WithoutCancel(ctx), channel), nil
}
