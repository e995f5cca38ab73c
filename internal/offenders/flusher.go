package offenders

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/refusal"
	"github.com/stint-dev/stint/internal/supervise"
)

// Sink is the database as a Flusher writes it.
type Sink interface {
	// Flush writes a batch in one transaction, evaluates the ladders for it in
	// the same one, and returns what they did. Writing a batch again under its
	// id does nothing. An Unavailable fault says that the database is out of
	// reach and nothing, or perhaps all, was written; any other error says
	// that nothing was, and that the same batch would fail again.
	Flush(ctx context.Context, b *Batch, e Evaluation) ([]LadderEvent, error)
}

// Evaluation is what a flush evaluates ladders by.
type Evaluation struct {
	Ladders map[int64]Ladder // by policy
	Guard   Guard
	// Exempt reports keys that never climb, nil for none.
	Exempt func(key string) bool
	Now    time.Time
}

// FlusherOptions make a Flusher.
type FlusherOptions struct {
	Recorder *Recorder
	Sink     Sink
	Node     string
	Secret   func() []byte
	// Ladders returns the present escalations, and Exempt whether a key is let
	// through whatever it does.
	Ladders func() map[int64]Ladder
	Exempt  func(key string) bool
	Guard   func() Guard // nil means DefaultGuard
	// OnLadder hears what ladders of this node's flushes did; nil for nobody.
	OnLadder func(LadderEvent)
	// MaxRows bounds what is kept while the database is out of reach. Beyond
	// it offences go to `other` and lose their keys; totals are always kept.
	// Zero means 100,000: about 150 MB at worst, and once more as much that is
	// on its way.
	MaxRows int
	Now     func() time.Time // nil means time.Now
	Log     *slog.Logger     // nil means slog.Default()
}

// FlushInterval is how often a Flusher writes.
const FlushInterval = time.Second

const (
	// pieceRows keeps a transaction short, also after a long outage.
	pieceRows    = 4_000
	pieceTimeout = 10 * time.Second
	// closedAfter is how long after its beginning a minute may still get
	// checks whose answer took long.
	closedAfter = 65 * time.Second
)

// Flusher writes what a Recorder counted. See Run.
type Flusher struct {
	FlusherOptions
	maker func() *refusal.Maker

	mu      sync.Mutex
	waiting *gathering
	stats   FlusherStats

	sending sync.Mutex
	pieces  []*Batch // under sending: on their way, the first one next
}

// FlusherStats says how the flusher does.
type FlusherStats struct {
	LastSuccess time.Time
	Failing     error     // of the last attempt, nil when it worked
	Since       time.Time // of the first failure in a row
	Waiting     int       // rows that the database has not taken yet
	Flushed     int64     // rows
	Folded      int64     // offences that lost their key because too much waited
	Lost        int64     // rows of traffic, sketches and traces left out because of that
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
	if o.Guard == nil {
		o.Guard = func() Guard { return DefaultGuard }
	}
	return &Flusher{
		FlusherOptions: o, waiting: newGathering(o.MaxRows),
		maker: sync.OnceValue(func() *refusal.Maker { return refusal.NewMaker(o.Secret()) }),
	}
}

// Run flushes every FlushInterval until ctx ends. It goes on gathering while
// the database hangs. Call Close afterwards.
func (f *Flusher) Run(ctx context.Context) {
	tick := time.NewTicker(FlushInterval)
	defer tick.Stop()
	var sender sync.WaitGroup
	defer sender.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		f.gather(false)
		sender.Go(func() {
			supervise.Do("flusher", func() {
				if f.sending.TryLock() {
					defer f.sending.Unlock()
					_ = f.send(ctx) // kept in Stats, which health shows
				}
			})
		})
	}
}

// Close writes everything that is left, open minutes included.
func (f *Flusher) Close(ctx context.Context) error {
	f.gather(true)
	f.sending.Lock()
	defer f.sending.Unlock()
	return f.send(ctx)
}

// Flush writes now what has been counted.
func (f *Flusher) Flush(ctx context.Context) error {
	f.gather(false)
	f.sending.Lock()
	defer f.sending.Unlock()
	return f.send(ctx)
}

// Stats returns how it goes.
func (f *Flusher) Stats() FlusherStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stats
	s.Waiting += f.waiting.rows()
	s.Folded += f.waiting.folded
	s.Lost += f.waiting.lost
	return s
}

func (f *Flusher) gather(everything bool) {
	closed := minuteOf(f.Now().Add(-closedAfter).UnixMilli()) + minuteMS
	if everything {
		closed = 1<<63 - 1
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Recorder.drain(f.waiting, closed)
}

// send writes all pieces and then what is waiting, until something fails.
func (f *Flusher) send(ctx context.Context) error {
	for {
		if len(f.pieces) == 0 && !f.cutPieces() {
			f.note(nil, 0)
			return nil
		}
		if err := f.sendPiece(ctx); err != nil {
			f.note(err, 0)
			return err
		}
	}
}

// cutPieces makes what is waiting into pieces, and reports false where nothing
// is.
func (f *Flusher) cutPieces() bool {
	f.mu.Lock()
	g := f.waiting
	if g.rows() == 0 {
		f.mu.Unlock()
		return false
	}
	f.waiting = newGathering(f.MaxRows)
	f.stats.Folded += g.folded
	f.stats.Lost += g.lost
	f.stats.Waiting += g.rows()
	f.mu.Unlock()
	all := []*Batch{g.freeze(newID(), f.Node, f.maker())}
	for len(all) > 0 {
		b := all[0]
		all = all[1:]
		if b.Rows() > pieceRows {
			one, other := b.halves()
			one.ID, other.ID = newID(), newID()
			all = append([]*Batch{one, other}, all...)
			continue
		}
		f.pieces = append(f.pieces, b)
	}
	return true
}

// sendPiece writes the first piece. Where the database refuses it for what it
// holds, it becomes two, down to the one row that is dropped.
func (f *Flusher) sendPiece(ctx context.Context) error {
	b := f.pieces[0]
	err := f.write(ctx, b)
	switch {
	case err == nil:
		f.pieces = f.pieces[1:]
		f.note(nil, b.Rows())
		return nil
	case fault.Is(err, fault.Unavailable) || ctx.Err() != nil:
		return err
	}
	// If nothing at all can be written, no row is to blame.
	if f.write(ctx, &Batch{ID: newID(), Node: f.Node}) != nil {
		return err
	}
	if b.Rows() > 1 {
		one, other := b.halves()
		one.ID, other.ID = newID(), newID()
		f.pieces = append([]*Batch{one, other}, f.pieces[1:]...)
		return nil
	}
	f.Log.Error("a row of the offence counts cannot be stored and is dropped", "row", b.describe(), "error", err)
	f.pieces = f.pieces[1:]
	f.mu.Lock()
	f.stats.Poison++
	f.stats.Waiting--
	f.mu.Unlock()
	return nil
}

func (f *Flusher) write(ctx context.Context, b *Batch) error {
	limited, cancel := context.WithTimeout(ctx, pieceTimeout)
	defer cancel()
	e := Evaluation{Guard: f.Guard(), Exempt: f.Exempt, Now: f.Now()}
	if f.Ladders != nil {
		e.Ladders = f.Ladders()
	}
	var events []LadderEvent
	// A batch that makes the writer panic is one that it cannot write: it is
	// bisected like any other, so that only the row to blame is dropped.
	err := supervise.Call("flusher", func() (err error) {
		events, err = f.Sink.Flush(limited, b, e)
		return err
	})
	if err != nil {
		return err
	}
	for _, event := range events {
		if event.Kind == LadderStopped {
			f.Log.Warn(event.Detail, "policy", event.Name)
		}
		if f.OnLadder != nil {
			f.OnLadder(event)
		}
	}
	return nil
}

// note remembers how an attempt went that wrote so many rows.
func (f *Flusher) note(err error, rows int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.Now()
	if err == nil {
		f.stats.LastSuccess, f.stats.Failing, f.stats.Since = now, nil, time.Time{}
		f.stats.Flushed += int64(rows)
		f.stats.Waiting -= rows
		return
	}
	if f.stats.Failing == nil {
		f.stats.Since = now
	}
	f.stats.Failing = err
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// describe names the one row of a batch without quoting what a caller sent.
func (b *Batch) describe() string {
	switch {
	case len(b.Offences) == 1:
		return "an offence of " + time.UnixMilli(b.Offences[0].Minute).UTC().Format(time.RFC3339)
	case len(b.Totals) == 1:
		return "totals of " + time.UnixMilli(b.Totals[0].Minute).UTC().Format(time.RFC3339)
	case len(b.Keys) == 1:
		return "a key's traffic of " + time.UnixMilli(b.Keys[0].Minute).UTC().Format(time.RFC3339)
	case len(b.Distinct) == 1:
		return "a sketch of " + time.UnixMilli(b.Distinct[0].Minute).UTC().Format(time.RFC3339)
	default:
		return "a chunk of the trace"
	}
}
