package operations

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/wire"
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

var errNoNotifications = fault.New(fault.NotFound, "This node sends no notifications.")

// changed calls Apply after a change of channels or silences that ended with err, if the change
// was saved.
func (n *Notifications) changed(ctx context.Context, err error) {
	if n.Apply != nil && (err == nil || fault.Is(err, fault.Saved)) {
		n.Apply(ctx)
	}
}

// List returns the names of the enabled channels and the newest deliveries.
func (n *Notifications) List(ctx context.Context, _ admin.Caller, r wire.NotificationList) (wire.Notifications, error) {
	if n.Notifier == nil {
		return wire.Notifications{}, errNoNotifications
	}
	newest, err := n.Outbox.Deliveries(ctx, cmp.Or(r.Limit, 100))
	return wire.Notifications{
		Channels: append([]string{}, n.Notifier.Channels()...), Items: wire.NewPage(newest, "", wireDelivery).Items,
	}, err
}

func wireDelivery(d notify.Delivery) wire.Delivery {
	out := wire.Delivery{
		ID: d.ID, Kind: string(d.Kind), At: wire.At(d.At), Subject: d.Subject, Text: d.Text, Channel: d.Channel, Attempts: d.Attempts,
		SentAt: wire.At(d.Sent), FailedAt: wire.At(d.Failed), Error: wire.NullString(d.Err),
	}
	if d.Sent.IsZero() && d.Failed.IsZero() {
		out.NextAt = wire.At(d.Next)
	}
	return out
}

// Test records the test of a channel and sends a message over it, even if it is silenced. A message
// that does not arrive is no error, since the request was valid: the answer says why.
func (n *Notifications) Test(ctx context.Context, by admin.Caller, r wire.TestRequest) (wire.TestAnswer, error) {
	answer := wire.TestAnswer{Channel: r.Channel}
	if n.Notifier == nil {
		return answer, errNoNotifications
	}
	if !slices.Contains(n.Notifier.Channels(), r.Channel) {
		return answer, fault.NoSuch("channel", "there is no enabled channel of that name; the list of the notifications names them")
	}
	if err := n.Recorder.AddRecord(ctx, audit.Record{
		Actor: by.Actor, Action: "notification.test", Object: "notification", ObjectID: r.Channel, Summary: "Sent a test message over the channel " + r.Channel + ".",
	}); err != nil {
		return answer, err
	}
	unsent := n.Notifier.Test(context.WithoutCancel(ctx), r.Channel)
	if answer.Sent = unsent == nil; unsent != nil {
		answer.Error = wire.NullString(escape.Log(unsent.Error()))
	}
	return answer, nil
}
