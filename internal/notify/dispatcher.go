package notify

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/supervise"
)

// How messages are grouped, repeated and given up.
const (
	// Tick is how often the outbox is looked at.
	Tick = time.Second
	// GroupWait is how long the first of a kind waits for others like it.
	GroupWait = 10 * time.Second
	// GroupInterval is the least time between two messages of one kind over
	// one channel, so that an attack does not become a flood of mails.
	GroupInterval = 5 * time.Minute
	// FirstRetry is doubled with each attempt, up to LongestRetry.
	FirstRetry   = 5 * time.Second
	LongestRetry = time.Hour
	// GiveUpAfter is how old a notification may become unsent.
	GiveUpAfter = 24 * time.Hour
	sendTimeout = 30 * time.Second
	batch       = 500
)

// Options make a Dispatcher.
type Options struct {
	Store    Store
	Channels []Channel
	Node     string
	Now      func() time.Time // nil means time.Now
	Log      *slog.Logger
}

// Dispatcher sends what stands in the outbox. It is safe for use by many
// goroutines.
type Dispatcher struct {
	o Options
	// holder has the leases: two nodes may have been given one name.
	holder string
}

// New returns a dispatcher over channels with different names.
func New(o Options) *Dispatcher {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Dispatcher{o, o.Node + "-" + crand.Text()[:8]}
}

// Channels returns the names of the channels, in order.
func (d *Dispatcher) Channels() []string {
	names := make([]string, len(d.o.Channels))
	for i, c := range d.o.Channels {
		names[i] = c.Name()
	}
	return names
}

// Notify puts n into the outbox. With no channel it does nothing.
func (d *Dispatcher) Notify(ctx context.Context, n Notification) error {
	if len(d.o.Channels) == 0 {
		return nil
	}
	if n.At.IsZero() {
		n.At = d.o.Now()
	}
	return d.o.Store.AddNotification(ctx, n, d.Channels())
}

// SendNow sends n over every channel now, once and past the outbox: for when
// the outbox is out of reach.
func (d *Dispatcher) SendNow(ctx context.Context, n Notification) error {
	if n.At.IsZero() {
		n.At = d.o.Now()
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	problems := make([]error, len(d.o.Channels))
	var sending sync.WaitGroup
	for i, c := range d.o.Channels {
		sending.Go(func() {
			problems[i] = supervise.Call("notifications", func() error {
				return c.Send(ctx, d.message(n.Kind, []Delivery{{Notification: n}}))
			})
		})
	}
	sending.Wait()
	return errors.Join(problems...)
}

// Test sends a message over one channel now, past the outbox, and returns what
// came of it; a *fault.Error where there is no such channel.
func (d *Dispatcher) Test(ctx context.Context, channel string) error {
	at := slices.Index(d.Channels(), channel)
	if at < 0 {
		return fault.New(fault.NotFound, "There is no notification channel %q.", channel)
	}
	n := Notification{Kind: Test, At: d.o.Now(), Subject: "Test of Stint's notifications",
		Text: "If you can read this, the channel works."}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return d.o.Channels[at].Send(ctx, d.message(Test, []Delivery{{Notification: n}}))
}

// Run sends until ctx ends.
func (d *Dispatcher) Run(ctx context.Context) {
	var channels sync.WaitGroup
	for _, c := range d.o.Channels {
		channels.Go(func() { supervise.Run(ctx, "notifications", func(ctx context.Context) { d.follow(ctx, c) }) })
	}
	channels.Wait()
}

// follow sends over one channel until ctx ends.
func (d *Dispatcher) follow(ctx context.Context, c Channel) {
	tick := time.NewTicker(Tick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := d.Flush(ctx, c); err != nil && ctx.Err() == nil {
			d.o.Log.Warn("notifications wait", "channel", c.Name(), "error", err)
		}
	}
}

// Flush sends what is due over one channel, by one node at a time. Its error
// is the outbox's; a message that could not be sent is noted there.
func (d *Dispatcher) Flush(ctx context.Context, c Channel) error {
	now := d.o.Now()
	due, err := d.o.Store.DueDeliveries(ctx, c.Name(), now, batch)
	if err != nil || len(due) == 0 {
		return err
	}
	held, err := d.hold(ctx, c)
	if err != nil || !held {
		return err
	}
	// Another node may have sent these while the lease was taken.
	if due, err = d.o.Store.DueDeliveries(ctx, c.Name(), now, batch); err != nil {
		return err
	}
	for _, group := range byKind(due) {
		// Each message may take its time, all of them more than the lease.
		if held, err := d.hold(ctx, c); err != nil || !held {
			return err
		}
		if err := d.flushGroup(ctx, c, group, now); err != nil {
			return err
		}
	}
	return nil
}

// hold takes or renews the lease of a channel for the time that one message
// may take, and reports whether this node has it.
func (d *Dispatcher) hold(ctx context.Context, c Channel) (bool, error) {
	now := d.o.Now()
	return d.o.Store.AcquireLease(ctx, "notify:"+c.Name(), d.holder, now, now.Add(2*sendTimeout))
}

func (d *Dispatcher) flushGroup(ctx context.Context, c Channel, group []Delivery, now time.Time) error {
	kind, oldest := group[0].Kind, group[0]
	if oldest.Attempts == 0 {
		if now.Sub(oldest.At) < GroupWait {
			return nil
		}
		last, err := d.o.Store.LastSent(ctx, c.Name(), kind)
		if err != nil {
			return err
		}
		if !last.IsZero() && now.Sub(last) < GroupInterval {
			return nil
		}
	}
	ids := make([]int64, len(group))
	for i, item := range group {
		ids[i] = item.ID
	}
	sending, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	problem := supervise.Call("notifications", func() error { return c.Send(sending, d.message(kind, group)) })
	switch {
	case problem == nil:
		return d.o.Store.MarkSent(ctx, c.Name(), ids, now)
	case ctx.Err() != nil: // going down: the next start sends it
		return nil
	case IsPermanent(problem) || now.Sub(oldest.At) > GiveUpAfter:
		d.o.Log.Error("notification given up", "channel", c.Name(), "kind", kind, "error", problem)
		return d.o.Store.MarkFailed(ctx, c.Name(), ids, now, problem.Error())
	default:
		d.o.Log.Warn("notification not sent; it is tried again", "channel", c.Name(), "kind", kind, "error", problem)
		return d.o.Store.MarkTried(ctx, c.Name(), ids, now.Add(backoff(oldest.Attempts)), problem.Error())
	}
}

// backoff doubles with each attempt and is spread by a fifth, so that a
// receiver that comes back is not met by everybody at once.
func backoff(attempts int) time.Duration {
	wait := LongestRetry
	if attempts < 10 {
		wait = min(FirstRetry<<attempts, LongestRetry)
	}
	return wait + time.Duration(rand.Int64N(int64(wait)/5))
}

func (d *Dispatcher) message(kind Kind, group []Delivery) Message {
	m := Message{Kind: kind, Node: d.o.Node, Total: len(group), Subject: group[0].Subject}
	for _, item := range group[:min(len(group), MaxItems)] {
		m.Items = append(m.Items, item.Notification)
	}
	if m.Total > 1 {
		m.Subject = fmt.Sprintf("%s, and %d more like it", group[0].Subject, m.Total-1)
	}
	return m
}

// byKind groups deliveries by kind, the reports each apart, in the order of
// each group's first. What was tried before goes apart from what is new, so
// that a failing message holds nothing back and grows no larger.
func byKind(due []Delivery) [][]Delivery {
	type mark struct {
		kind     Kind
		attempts int
		id       int64
	}
	var groups [][]Delivery
	at := map[mark]int{}
	for _, item := range due {
		m := mark{kind: item.Kind, attempts: item.Attempts}
		if item.Kind == Report {
			m.id = item.ID
		}
		i, known := at[m]
		if !known {
			i = len(groups)
			at[m] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], item)
	}
	return groups
}
