package recorder

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/supervise"
)

// Sink is the database as a Flusher writes it.
type Sink interface {
	// Flush writes a batch in one transaction, evaluates the escalations for it in
	// the same one, and returns what they did. Writing a batch again under its
	// id does nothing. An Unavailable fault says that the database is out of
	// reach and nothing, or perhaps all, was written; any other error says
	// that nothing was, and that the same batch would fail again.
	Flush(ctx context.Context, b *offences.Batch, e offences.Evaluation) ([]offences.EscalationEvent, error)
	// Abandon settles a batch whose Flush said nothing certain: it reports
	// whether the batch was written and, where it was not, sees to it that it
	// never will be. An error says that neither is known.
	Abandon(ctx context.Context, id string) (written bool, err error)
}

// FlusherOptions make a Flusher.
type FlusherOptions struct {
	Recorder *Recorder
	Sink     Sink
	Node     string
	Secret   func() []byte
	// Escalations returns the present escalations, and Exempt whether a key is let
	// through whatever it does.
	Escalations func() map[int64]offences.EscalationPolicy
	Exempt      func(key string) bool
	SafetyLimit func() float64 // see offences.AllowedBlocks; nil means DefaultSafetyLimit
	// OnEscalation is called after a batch of this node was written, with all that
	// escalations did because of it; not where they did nothing. nil calls nothing. The flusher
	// waits until it returns. New pieces and those that timed out before are written by a
	// goroutine each, so that two calls may overlap.
	OnEscalation func([]offences.EscalationEvent)
	// MaxRows bounds what is kept while the database is unreachable. Beyond
	// it offences go to `other` and lose their keys; totals are always kept.
	// Zero means 100,000: about 150 MB at worst, and once more as much that is
	// on its way.
	MaxRows int
	Now     func() time.Time // nil means time.Now
	Log     *slog.Logger     // nil means slog.Default()
}

// FlushInterval is how often a Flusher writes.
const FlushInterval = time.Second

// closedAfter is how long after its beginning a minute may still get checks
// whose answer took long.
const closedAfter = 65 * time.Second

// Flusher writes what a Recorder counted. See Run.
type Flusher struct {
	FlusherOptions
	maker func() *offences.RefusalIDMaker

	mu      sync.Mutex
	waiting *pendingBatch
	stats   Stats
	// reported says that the log has the present failure.
	reported bool

	fresh queue
	slow  queue // pieces that timed out before, so that no other waits for them
}

// Stats says how a flusher does.
type Stats struct {
	LastSuccess time.Time
	Failing     error     // of the last attempt, nil when it worked
	Since       time.Time // of the first failure in a row
	Waiting     int       // rows that the database has not taken yet
	Slow        int       // rows of Waiting that timed out before and are tried apart
	Flushed     int64     // rows
	Aggregated  int64     // offences that lost their key because too much waited
	Lost        int64     // rows of traffic, sketches and samples left out because of that
	Poison      int64     // rows that no database would take
}

// NewFlusher returns a flusher that has gathered nothing yet.
func NewFlusher(o FlusherOptions) *Flusher {
	defaultTo(&o.MaxRows, 100_000)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.SafetyLimit == nil {
		o.SafetyLimit = func() float64 { return offences.DefaultSafetyLimit }
	}
	return &Flusher{
		FlusherOptions: o, waiting: newPendingBatch(o.MaxRows),
		maker: sync.OnceValue(func() *offences.RefusalIDMaker { return offences.NewRefusalIDMaker(o.Secret()) }),
	}
}

// Run flushes every FlushInterval until ctx ends. It goes on gathering while
// the database hangs. Call Close afterwards.
func (f *Flusher) Run(ctx context.Context) {
	tick := time.NewTicker(FlushInterval)
	defer tick.Stop()
	var senders sync.WaitGroup
	defer senders.Wait()
	// What a sender fails with is kept in Stats, which health shows.
	start := func(q *queue, send func(context.Context) error) {
		senders.Go(func() {
			supervise.Do("flusher", func() {
				if q.sending.TryLock() {
					defer q.sending.Unlock()
					_ = send(ctx)
				}
			})
		})
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		f.gather(false)
		start(&f.fresh, f.send)
		if f.waitingIn(&f.slow) > 0 {
			start(&f.slow, f.sendSlow)
		}
	}
}

// Close writes everything that is left, open minutes included.
func (f *Flusher) Close(ctx context.Context) error {
	f.gather(true)
	err := f.sendAll(ctx)
	for err == nil && f.waitingIn(&f.slow) > 0 {
		err = errors.Join(f.sendAll(ctx), ctx.Err())
	}
	return err
}

// Flush writes now what has been counted.
func (f *Flusher) Flush(ctx context.Context) error {
	f.gather(false)
	return f.sendAll(ctx)
}

func (f *Flusher) sendAll(ctx context.Context) error {
	f.fresh.sending.Lock()
	defer f.fresh.sending.Unlock()
	if err := f.send(ctx); err != nil {
		return err
	}
	f.slow.sending.Lock()
	defer f.slow.sending.Unlock()
	return f.sendSlow(ctx)
}

// Stats returns how it goes.
func (f *Flusher) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stats
	s.Waiting += f.waiting.rows()
	for _, p := range f.slow.pieces {
		s.Slow += p.Rows()
	}
	s.Aggregated += f.waiting.aggregated
	s.Lost += f.waiting.lost
	return s
}

func (f *Flusher) gather(everything bool) {
	closed := offences.MinuteOf(f.Now().Add(-closedAfter).UnixMilli()) + offences.MinuteMillis
	if everything {
		closed = 1<<63 - 1
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Recorder.drain(f.waiting, closed)
}

// maxDelay is how late counts may be before the log says so.
const maxDelay = 5 * time.Second

// note remembers how an attempt went that wrote so many rows. A failure that lasts, of which
// nobody waits for an answer, is one line in the log, and its end is another.
func (f *Flusher) note(err error, rows int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.Now()
	if err == nil && rows == 0 && f.stats.Failing != nil && len(f.slow.pieces) > 0 {
		return // nothing is left to write but what failed
	}
	if err == nil {
		if f.reported {
			f.Log.Info("offences and counts are written again", "late", now.Sub(f.stats.Since).Round(time.Millisecond))
		}
		f.reported = false
		f.stats.LastSuccess, f.stats.Failing, f.stats.Since = now, nil, time.Time{}
		f.stats.Flushed += int64(rows)
		f.stats.Waiting -= rows
		return
	}
	if f.stats.Failing == nil {
		f.stats.Since = now
	}
	f.stats.Failing = err
	if !f.reported && now.Sub(f.stats.Since) > maxDelay {
		f.reported = true
		f.Log.Error("offences and counts cannot be written; they are kept, and what blocks automatically waits for them", "error", err)
	}
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }
