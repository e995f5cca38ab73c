package recorder

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/stint-dev/stint/internal/keyhash"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/supervise"
)

// Sink is the part of the database to which a Flusher writes.
type Sink interface {
	// Flush writes a batch and evaluates the escalations for it in one transaction, and returns
	// the events of the escalations. Writing a batch again under the same id does nothing. An
	// Unavailable fault says that the database is unreachable and that nothing, or perhaps
	// everything, was written. Any other error says that nothing was written and that the same
	// batch would fail again.
	Flush(ctx context.Context, b *offences.Batch, e offences.Evaluation) ([]offences.EscalationEvent, error)
	// Abandon settles a batch for which Flush returned an uncertain error. It reports whether the
	// batch was written, and ensures that a batch that was not written never will be. An error
	// says that neither is known.
	Abandon(ctx context.Context, id string) (written bool, err error)
}

// FlusherOptions are the settings of a Flusher.
type FlusherOptions struct {
	Recorder *Recorder
	Sink     Sink
	Node     string
	Secret   func() []byte // see Options.Secret
	// Escalations returns the present escalations. Exempt reports whether a key is exempt.
	Escalations func() map[int64]offences.EscalationPolicy
	Exempt      func(key string) bool
	SafetyLimit func() float64 // see offences.AllowedBlocks; nil means DefaultSafetyLimit
	// OnEscalation is called after a batch of this node was written, with all events of
	// escalations that it caused; not if there are none. nil means no calls. The flusher waits
	// until it returns. One goroutine writes new pieces and another those that timed out before,
	// so that two calls may overlap.
	OnEscalation func([]offences.EscalationEvent)
	// MaxRows bounds what is kept while the database is unreachable. Beyond it, offences go to
	// `other` and lose their keys; totals are always kept. Zero means 100,000, which is about 150
	// MB at worst, plus as much again for rows that are being written. Beside them, up to 240 minutes or 32 MB of
	// what was requested are kept.
	MaxRows int
	Now     func() time.Time // nil means time.Now
	Log     *slog.Logger     // nil means slog.Default()
}

// FlushInterval is how often a Flusher writes.
const FlushInterval = time.Second

// closedAfter is how long after its beginning a minute may still receive checks that took long.
const closedAfter = 65 * time.Second

// Flusher writes what a Recorder counted. See Run.
type Flusher struct {
	FlusherOptions
	makers keyhash.PerSecret[*offences.RefusalIDMaker]

	mu      sync.Mutex
	waiting *pendingBatch
	stats   Stats
	// reported means that the present failure has been logged.
	reported bool

	fresh queue
	slow  queue // pieces that timed out before; separate, so that no other piece waits for them
}

// Stats is the state of a flusher.
type Stats struct {
	LastSuccess time.Time
	Failing     error     // the error of the last attempt, nil if it succeeded
	Since       time.Time // the time of the first of the present consecutive failures
	Waiting     int       // rows that the database has not taken yet
	Slow        int       // the rows of Waiting that timed out before and are tried separately
	Flushed     int64     // rows
	Aggregated  int64     // offences that lost their key because more than MaxRows rows were waiting
	Lost        int64     // rows of traffic, sketches and samples left out for the same reason
	Poison      int64     // rows that the database rejected for their content
}

// NewFlusher returns a flusher with nothing to write yet.
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
	return &Flusher{FlusherOptions: o, waiting: newPendingBatch(o.MaxRows)}
}

// Run flushes every FlushInterval until ctx ends. It continues to collect counts while the
// database hangs. Call Close afterwards.
func (f *Flusher) Run(ctx context.Context) {
	tick := time.NewTicker(FlushInterval)
	defer tick.Stop()
	var senders sync.WaitGroup
	defer senders.Wait()
	// The error of a sender is kept in Stats, which health shows.
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

// Close writes everything that is left, including open minutes.
func (f *Flusher) Close(ctx context.Context) error {
	f.gather(true)
	err := f.sendAll(ctx)
	for err == nil && f.waitingIn(&f.slow) > 0 {
		err = errors.Join(f.sendAll(ctx), ctx.Err())
	}
	return err
}

// Flush writes the present counts now.
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

// Stats returns the state of the flusher.
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

// maxDelay is how late counts may be before that is logged.
const maxDelay = 5 * time.Second

// note records the result of an attempt that wrote rows. No caller waits for the result, so a
// failure that lasts is logged, once when it begins and once when it ends.
func (f *Flusher) note(err error, rows int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.Now()
	if err == nil && rows == 0 && f.stats.Failing != nil && len(f.slow.pieces) > 0 {
		return // nothing was written, so a failure has not ended
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
		f.Log.Error("offences and counts cannot be written; they are kept, and automatic blocks wait until they can be", "error", err)
	}
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }
