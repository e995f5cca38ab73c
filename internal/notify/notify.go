// Package notify notifies people of what Stint did or needs: an attack, an automatic block, a proposal, a
// paused escalation, an outage, a report. Notifications are first written to a durable outbox.
// A dispatcher groups them, sends them and retries.
//
// To add a type of channel, add a Type in types.go, implement Channel in package services or in
// a new package, and add one line in package channels, which builds them.
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
	AttackBegan      Kind = "attack.began"
	AttackSource     Kind = "attack.source" // an attack has a new main source
	AttackEnded      Kind = "attack.ended"
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

// Notification is one event to notify people of.
type Notification struct {
	ID   int64
	Kind Kind
	At   time.Time
	// Subject is one line and Text some lines for people. Both contain unescaped keys and
	// reasons: each channel must escape them.
	Subject string
	Text    string
	// Facts are the same for programs, in the API's terms.
	Facts map[string]string
	// Happenings is the number of events in the notification. A burst has one for all events
	// after the first ones. 0 means 1.
	Happenings int
	// Page is a self-contained HTML page to attach if the channel supports it, nil for none.
	Page []byte
}

// Message is what a channel sends at once: one notification, or several of one kind.
type Message struct {
	Kind    Kind
	Node    string
	Items   []Notification // the first MaxItems of them, the oldest first
	Total   int            // number of notifications, including those not in Items
	Subject string
	Link    string // the page that shows them, "" for none
}

// MaxItems bounds the notifications that one message contains in full.
const MaxItems = 20

// Channel sends messages somewhere.
type Channel interface {
	// Name is unique among the channels. Pages and logs show it.
	Name() string
	// Send delivers m. An error that is Permanent must not be retried. Errors contain no
	// secret.
	Send(ctx context.Context, m Message) error
}

type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Permanent marks an error that a retry cannot resolve.
func Permanent(err error) error { return permanent{err} }

// IsPermanent reports whether err is marked by Permanent.
func IsPermanent(err error) bool {
	var p permanent
	return errors.As(err, &p)
}

// Delivery is the delivery of one notification over one channel.
type Delivery struct {
	Notification
	Channel  string
	Attempts int
	Next     time.Time // earliest time of the next attempt
	Sent     time.Time // zero: not yet
	Failed   time.Time // zero: may still be tried
	Err      string    // of the last attempt
}

// Due is a delivery that is due, without its texts.
type Due struct {
	ID         int64 // of the notification
	Kind       Kind
	At         time.Time
	Attempts   int
	Happenings int
}

// MaxDue bounds the due deliveries of one kind that are read, so that no kind hides another.
const MaxDue = 5000

// Store is the durable outbox.
type Store interface {
	// AddNotifications adds all to the outbox of each channel, or none.
	AddNotifications(ctx context.Context, all []Notification, channels []string) error
	// Due returns the unfinished deliveries that may be tried at now, the oldest first, at most
	// MaxDue of each kind.
	Due(ctx context.Context, channel string, now time.Time) ([]Due, error)
	// NotificationsOf returns notifications by their ids, the oldest first.
	NotificationsOf(ctx context.Context, ids []int64) ([]Notification, error)
	// LastSent returns when a channel last sent a notification of a kind, zero for never. It
	// ignores times after now, which come from a clock that was ahead: they would delay all
	// others until then.
	LastSent(ctx context.Context, channel string, kind Kind, now time.Time) (time.Time, error)
	MarkSent(ctx context.Context, channel string, ids []int64, at time.Time) error
	MarkTried(ctx context.Context, channel string, ids []int64, next time.Time, problem string) error
	MarkFailed(ctx context.Context, channel string, ids []int64, at time.Time, problem string) error
	// Backlog returns how many deliveries over some channels are neither sent nor given up, and
	// when the oldest of their notifications was added, zero for none.
	Backlog(ctx context.Context, channels []string) (n int, oldest time.Time, err error)
	// Deliveries returns the newest deliveries.
	Deliveries(ctx context.Context, limit int) ([]Delivery, error)
	AcquireLease(ctx context.Context, name, holder string, now, until time.Time) (bool, error)
}
