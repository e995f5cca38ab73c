// Package notify notifies people of what Stint did or needs: an automatic block, a
// proposal, a paused escalation, an outage, a report. Notifications are first written
// to a durable outbox; a dispatcher groups them, sends them and tries again.
// A new type of channel is one Type in types.go, a package below services that implements
// Channel, and one line in channels, which builds them.
package notify

import (
	"context"
	"errors"
	"time"
)

// Kind says what happened.
type Kind string

// The kinds of notification.
const (
	AutomaticBlock   Kind = "block.automatic"
	Proposal         Kind = "proposal"
	EscalationPaused Kind = "escalation.paused"
	Outage           Kind = "outage"
	Recovery         Kind = "recovery"
	RedisEviction    Kind = "redis.eviction"
	Report           Kind = "report"
	JobFailed        Kind = "job.failed"
	Test             Kind = "test"
)

// Notification is one thing that happened.
type Notification struct {
	ID   int64
	Kind Kind
	At   time.Time
	// Subject is one line and Text some lines for people. Both hold keys and
	// reasons as they are: each channel makes them harmless for itself.
	Subject string
	Text    string
	// Facts are the same for machines, in the API's words.
	Facts map[string]string
	// Happenings is how many events the notification is about, those of a burst beyond the
	// first ones; 0 means 1.
	Happenings int
	// Page is a self-contained HTML page to attach where a channel can, nil
	// for none.
	Page []byte
}

// Message is what a channel sends at once: one notification, or several of one
// kind that came close together.
type Message struct {
	Kind    Kind
	Node    string
	Items   []Notification // the first MaxItems of them, the oldest first
	Total   int            // how many there were in all
	Subject string
	Link    string // the page that shows them, "" for none
}

// MaxItems is how many notifications one message spells out.
const MaxItems = 20

// Channel sends messages somewhere.
type Channel interface {
	// Name is unique among the channels, as the pages and logs show it.
	Name() string
	// Send delivers m. An error that is Permanent is not worth another try.
	// Errors hold no secret.
	Send(ctx context.Context, m Message) error
}

type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Permanent marks an error that trying again does not mend.
func Permanent(err error) error { return permanent{err} }

// IsPermanent reports whether err is marked so.
func IsPermanent(err error) bool {
	var p permanent
	return errors.As(err, &p)
}

// Delivery is one notification on its way over one channel.
type Delivery struct {
	Notification
	Channel  string
	Attempts int
	Next     time.Time // not to be tried before
	Sent     time.Time // zero: not yet
	Failed   time.Time // zero: not given up
	Err      string    // of the last attempt
}

// Due is a delivery to be made, without its texts.
type Due struct {
	ID         int64 // of the notification
	Kind       Kind
	At         time.Time
	Attempts   int
	Happenings int
}

// MaxDue bounds what is looked at of one kind, so that none hides another.
const MaxDue = 5000

// Store is the durable outbox.
type Store interface {
	// AddNotifications puts all into the outbox of each channel, or none.
	AddNotifications(ctx context.Context, all []Notification, channels []string) error
	// Due returns what is neither sent nor given up and may be tried at now, the
	// oldest first, at most MaxDue of each kind.
	Due(ctx context.Context, channel string, now time.Time) ([]Due, error)
	// NotificationsOf returns notifications by their ids, the oldest first.
	NotificationsOf(ctx context.Context, ids []int64) ([]Notification, error)
	// LastSent returns when a channel last sent something of a kind, zero for
	// never. What was sent after now, by a clock that was ahead, does not count: it
	// would hold back all others until then.
	LastSent(ctx context.Context, channel string, kind Kind, now time.Time) (time.Time, error)
	MarkSent(ctx context.Context, channel string, ids []int64, at time.Time) error
	MarkTried(ctx context.Context, channel string, ids []int64, next time.Time, problem string) error
	MarkFailed(ctx context.Context, channel string, ids []int64, at time.Time, problem string) error
	// Deliveries returns the newest deliveries.
	Deliveries(ctx context.Context, limit int) ([]Delivery, error)
	AcquireLease(ctx context.Context, name, holder string, now, until time.Time) (bool, error)
}
