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
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/supervise"
)

// Intervals for grouping, repeating and abandoning messages.
const (
	// Tick is how often the outbox is checked.
	Tick = time.Second
	// GroupWait is how long the first notification of a kind waits for others of the kind.
	GroupWait = 10 * time.Second
	// GroupInterval is the minimum time between two messages of one kind over one channel, so
	// that an attack does not cause a flood of mails.
	GroupInterval = 5 * time.Minute
	// UrgentWait and UrgentInterval are the same for urgent kinds.
	UrgentWait     = 2 * time.Second
	UrgentInterval = 30 * time.Second
	// FirstRetry is the first wait before a retry. It doubles with each attempt, up to
	// LongestRetry.
	FirstRetry   = 5 * time.Second
	LongestRetry = time.Hour
	// GiveUpAfter is the age at which an unsent notification is abandoned.
	GiveUpAfter = 24 * time.Hour
	sendTimeout = 30 * time.Second
	// markTimeout bounds recording that a message was sent.
	markTimeout = 10 * time.Second
)

// Options configure a Dispatcher.
type Options struct {
	Store Store
	// Channels are those of the settings, which send all kinds; see Configure.
	Channels []Channel
	Node     string
	// Pages is the URL of the admin pages for links in messages; "" for no links.
	Pages string
	Now   func() time.Time // nil means time.Now
	Log   *slog.Logger     // nil discards
}

// Dispatcher sends the notifications in the outbox. It is safe for concurrent use.
type Dispatcher struct {
	o Options
	// holder is the holder of the leases. It is not Node, since two nodes may have the same
	// name.
	holder  string
	current atomic.Pointer[outlets]
}

// New returns a dispatcher for channels with different names.
func New(o Options) *Dispatcher {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	d := &Dispatcher{o: o, holder: o.Node + "-" + crand.Text()[:8]}
	d.Configure(nil, nil)
	return d
}

// Configure replaces the channels other than those of the settings, and the silences. A channel
// with the name of one of the settings is ignored. It may be called at any time.
func (d *Dispatcher) Configure(more []Outlet, silences []Silence) {
	next := &outlets{silences: slices.Clone(silences)}
	for _, c := range d.o.Channels {
		next.all = append(next.all, Outlet{Channel: c})
	}
	for _, one := range more {
		if _, taken := next.find(one.Name()); !taken {
			next.all = append(next.all, one)
		}
	}
	d.current.Store(next)
}

// Silences returns the active silences.
func (d *Dispatcher) Silences() []Silence {
	return slices.DeleteFunc(slices.Clone(d.current.Load().silences), func(s Silence) bool { return !s.ActiveAt(d.o.Now()) })
}

// Preset returns the names of the settings' channels, in order.
func (d *Dispatcher) Preset() []string {
	names := make([]string, len(d.o.Channels))
	for i, c := range d.o.Channels {
		names[i] = c.Name()
	}
	return names
}

// Channels returns the names of the enabled channels, those of the settings first.
func (d *Dispatcher) Channels() []string {
	all := d.current.Load().all
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.Name()
	}
	return names
}

// Notify adds all to the outbox of each channel that sends their kinds. Without such a channel
// it does nothing. Notifications of one kind are added together or not at all.
func (d *Dispatcher) Notify(ctx context.Context, all ...Notification) error {
	current := d.current.Load()
	for _, group := range byKind(d.dated(all)) {
		channels := current.takers(group[0].Kind)
		if len(channels) == 0 {
			continue
		}
		if err := d.o.Store.AddNotifications(ctx, group, channels); err != nil {
			return err
		}
	}
	return nil
}

// byKind groups all by kind, in order.
func byKind(all []Notification) (groups [][]Notification) {
	at := map[Kind]int{}
	for _, n := range all {
		i, known := at[n.Kind]
		if !known {
			i = len(groups)
			at[n.Kind] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], n)
	}
	return groups
}

// dated returns all with their times filled in.
func (d *Dispatcher) dated(all []Notification) []Notification {
	all = slices.Clone(all)
	for i := range all {
		if all[i].At.IsZero() {
			all[i].At = d.o.Now()
		}
	}
	return all
}

// SendNow sends all, which must be of one kind, as one message over every channel for the kind
// that is not silenced. It bypasses the outbox and does not retry: use it if the outbox is
// unreachable.
func (d *Dispatcher) SendNow(ctx context.Context, all ...Notification) error {
	if len(all) == 0 {
		return nil
	}
	all = d.dated(all)
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	total := 0
	for _, n := range all {
		total += max(n.Happenings, 1)
	}
	message := d.message(all[0].Kind, total, all)
	current := d.current.Load()
	problems := make([]error, len(current.all))
	var sending sync.WaitGroup
	for i, c := range current.all {
		if !c.Takes(message.Kind) {
			continue
		}
		if silence := current.silenced(c.Name(), message.Kind, d.o.Now()); silence != nil {
			// The outbox, which normally lists silenced notifications, is unreachable.
			d.o.Log.Warn("notification silenced", "channel", c.Name(), "kind", message.Kind, "subject", escape.Visible(message.Subject), "silenced_by", silence.Author)
			continue
		}
		sending.Go(func() {
			problems[i] = supervise.Call("notifications", func() error { return c.Send(ctx, message) })
		})
	}
	sending.Wait()
	return errors.Join(problems...)
}

// Test sends a message over one channel immediately, without the outbox and despite silences,
// and returns the result. If there is no such channel, the error is a *fault.Error.
func (d *Dispatcher) Test(ctx context.Context, channel string) error {
	c, found := d.current.Load().find(channel)
	if !found {
		return fault.New(fault.NotFound, "There is no notification channel %q.", channel)
	}
	n := Notification{Kind: Test, At: d.o.Now(), Subject: "Test of Stint's notifications",
		Text: "If you can read this, the channel works."}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return c.Send(ctx, d.message(Test, 1, []Notification{n}))
}

// Backlog returns how many messages wait for the enabled channels, and since when the oldest.
func (d *Dispatcher) Backlog(ctx context.Context) (n int, oldest time.Time, err error) {
	return d.o.Store.Backlog(ctx, d.Channels())
}

// Run sends until ctx ends. Each channel sends urgent and other messages concurrently, so that
// neither a slow receiver nor a retried message delays urgent ones. It follows Configure within
// a Tick.
func (d *Dispatcher) Run(ctx context.Context) {
	var lanes sync.WaitGroup
	defer lanes.Wait()
	running := map[string]context.CancelFunc{}
	tick := time.NewTicker(Tick)
	defer tick.Stop()
	for {
		names := d.Channels()
		for _, name := range names {
			if running[name] != nil {
				continue
			}
			following, end := context.WithCancel(ctx)
			defer end()
			running[name] = end
			for _, urgent := range []bool{true, false} {
				lanes.Go(func() {
					supervise.Run(following, "notifications", func(ctx context.Context) { d.follow(ctx, name, urgent) })
				})
			}
		}
		for name, end := range running {
			if !slices.Contains(names, name) {
				end()
				delete(running, name)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// follow sends the messages of one lane of a channel until ctx ends.
func (d *Dispatcher) follow(ctx context.Context, name string, urgent bool) {
	tick := time.NewTicker(Tick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c, found := d.current.Load().find(name)
		if !found {
			continue
		}
		if err := d.flush(ctx, lane{c.Channel, urgent}); err != nil && ctx.Err() == nil {
			d.o.Log.Warn("notifications wait", "channel", name, "error", err)
		}
	}
}

// Flush sends what is due over one channel, urgent messages first. Only one node at a time does
// so. An error is one of the outbox; a message that could not be sent is recorded there.
func (d *Dispatcher) Flush(ctx context.Context, c Channel) error {
	return errors.Join(d.flush(ctx, lane{c, true}), d.flush(ctx, lane{c, false}))
}

func (d *Dispatcher) flush(ctx context.Context, l lane) error {
	now := d.o.Now()
	due, err := d.o.Store.Due(ctx, l.Name(), now)
	if err != nil || len(l.groups(due)) == 0 {
		return err
	}
	held, err := d.hold(ctx, l)
	if err != nil || !held {
		return err
	}
	// Another node may have sent some before this one got the lease.
	if due, err = d.o.Store.Due(ctx, l.Name(), now); err != nil {
		return err
	}
	for _, group := range l.groups(due) {
		// Each message may use its full time, and all of them together more than the lease.
		if held, err := d.hold(ctx, l); err != nil || !held {
			return err
		}
		if err := d.flushGroup(ctx, l, group, now); err != nil {
			return err
		}
	}
	return nil
}

// Leads takes or renews the lease of a subject that all nodes see, and reports whether this node
// has it: the one that may notify people of it.
func (d *Dispatcher) Leads(ctx context.Context, subject string, length time.Duration) (bool, error) {
	now := d.o.Now()
	return d.o.Store.AcquireLease(ctx, "notify-of:"+subject, d.holder, now, now.Add(length))
}

// hold takes or renews the lease of a lane for the maximum time of one message, and reports
// whether this node has it.
func (d *Dispatcher) hold(ctx context.Context, l lane) (bool, error) {
	now := d.o.Now()
	return d.o.Store.AcquireLease(ctx, l.lease(), d.holder, now, now.Add(2*sendTimeout))
}

func (d *Dispatcher) flushGroup(ctx context.Context, l lane, group []Due, now time.Time) error {
	kind, oldest := group[0].Kind, group[0]
	if silence := d.current.Load().silenced(l.Name(), kind, now); silence != nil {
		ids := make([]int64, len(group))
		for i, item := range group {
			ids[i] = item.ID
		}
		return d.o.Store.MarkFailed(ctx, l.Name(), ids, now, fmt.Sprintf("silenced by %s until %s UTC: %s",
			silence.Author, silence.Until.UTC().Format("2006-01-02 15:04"), silence.Reason))
	}
	if oldest.Attempts == 0 {
		// Abs: a time that is far in the future comes from a clock that was ahead, and must not
		// wait.
		if now.Sub(oldest.At).Abs() < kind.groupWait() {
			return nil
		}
		last, err := d.o.Store.LastSent(ctx, l.Name(), kind, now)
		if err != nil {
			return err
		}
		if !last.IsZero() && now.Sub(last) < kind.groupInterval() {
			return nil
		}
	}
	ids, total := make([]int64, len(group)), 0
	for i, item := range group {
		ids[i] = item.ID
		total += max(item.Happenings, 1)
	}
	items, err := d.o.Store.NotificationsOf(ctx, ids[:min(len(ids), MaxItems)])
	if err != nil || len(items) == 0 { // deleted by retention in between
		return err
	}
	sending, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	problem := supervise.Call("notifications", func() error { return l.Send(sending, d.message(kind, total, items)) })
	what := ""
	if problem != nil {
		what = escape.Clip(problem.Error(), maxProblem)
	}
	switch {
	case problem == nil:
		// Also during a stop: otherwise the next start would send it again.
		marking, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
		defer cancel()
		return d.o.Store.MarkSent(marking, l.Name(), ids, now)
	case ctx.Err() != nil: // the node stops: the next start sends it
		return nil
	case IsPermanent(problem) || now.Sub(oldest.At) > GiveUpAfter:
		d.o.Log.Error("notification given up", "channel", l.Name(), "kind", kind, "error", what)
		return d.o.Store.MarkFailed(ctx, l.Name(), ids, now, what)
	default:
		d.o.Log.Warn("notification not sent; it is tried again", "channel", l.Name(), "kind", kind, "error", what)
		return d.o.Store.MarkTried(ctx, l.Name(), ids, now.Add(backoff(oldest.Attempts)), what)
	}
}

// maxProblem bounds the stored reason why a message was not sent, in bytes. The reason may come
// from the receiver, and the outbox stores it with each notification.
const maxProblem = 500

// backoff doubles with each attempt and varies by a fifth, so that a receiver that recovers is
// not called by all nodes at once.
func backoff(attempts int) time.Duration {
	wait := LongestRetry
	if attempts < 10 {
		wait = min(FirstRetry<<attempts, LongestRetry)
	}
	return wait + time.Duration(rand.Int64N(int64(wait)/5))
}

func (d *Dispatcher) message(kind Kind, total int, items []Notification) Message {
	m := Message{Kind: kind, Node: d.o.Node, Total: total, Subject: items[0].Subject, Items: items[:min(len(items), MaxItems)]}
	if m.Total > 1 {
		m.Subject = fmt.Sprintf("%s, and %d more like it", m.Subject, m.Total-1)
	}
	if d.o.Pages != "" {
		m.Link = d.o.Pages + kind.page()
	}
	return m
}
