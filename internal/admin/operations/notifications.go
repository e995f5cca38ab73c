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

// Notifications is the use case of showing notifications, and of creating, testing and
// silencing their channels.
type Notifications struct {
	Outbox   Outbox
	Channels ChannelStore
	Notifier Notifier // nil on a node that sends no notifications
	// Apply gives the Notifier the stored channels and silences before a change of them is
	// acknowledged; nil if there is nothing to do.
	Apply   func(ctx context.Context)
	Builder ChannelBuilder
	// Preset are the channels of the settings, which can only be changed there.
	Preset   []Channel
	Recorder audit.Recorder
	Now      func() time.Time
}

// Outbox reads the queued notifications.
type Outbox interface {
	// Deliveries returns the newest deliveries.
	Deliveries(ctx context.Context, limit int) ([]notify.Delivery, error)
}

// Notifier sends messages over its channels.
type Notifier interface {
	// Channels returns the names of the enabled channels.
	Channels() []string
	// Silences returns the active silences known to this node.
	Silences() []notify.Silence
	// Test sends a message over one channel immediately, and returns the error if it did not
	// arrive.
	Test(ctx context.Context, channel string) error
}

// Delivery is the delivery of a notification over one channel.
type Delivery = notify.Delivery

var errNoNotifications = fault.New(fault.NotFound, "This node sends no notifications.")

// changed calls Apply after a change of channels or silences that ended with err, if the change
// was saved.
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

// Test records the test of a channel and sends a message over it, even if it is silenced.
// unsent is why the message did not arrive, nil if it did.
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
