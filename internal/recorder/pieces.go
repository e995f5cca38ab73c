package recorder

import (
	"context"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/supervise"
)

const (
	// pieceRows keeps a transaction short, even after a long outage.
	pieceRows = 8_000
	// pieceTimeout bounds the writing of a piece of pieceRows rows, and minTimeout that of a
	// smaller piece that timed out as part of a larger one. A single row gets more time at each
	// try, up to maxTimeout.
	pieceTimeout = 10 * time.Second
	minTimeout   = 5 * time.Second
	maxTimeout   = 2 * time.Minute
	// maxFailures is how often a piece may fail because of the database without a timeout, before
	// it is treated like one that timed out.
	maxFailures = 5
)

// piece is a batch that is being written.
type piece struct {
	*offences.Batch
	failures int // failed writes after which the piece may or may not be written
	timeouts int // timeouts of this piece and of the pieces that it was a part of
}

func (p *piece) timeout() time.Duration {
	switch {
	case p.timeouts == 0:
		return pieceTimeout
	case p.Rows() == 1:
		return min(pieceTimeout<<min(p.timeouts, 10), maxTimeout)
	}
	return max(minTimeout, pieceTimeout*time.Duration(p.Rows())/pieceRows)
}

// halves splits a piece that was certainly not written.
func (p *piece) halves() []*piece {
	if p.Rows() < 2 {
		whole := *p.Batch
		whole.ID = newID()
		return []*piece{{Batch: &whole, timeouts: p.timeouts}}
	}
	one, other := halve(p.Batch)
	one.ID, other.ID = newID(), newID()
	return []*piece{{Batch: one, timeouts: p.timeouts}, {Batch: other, timeouts: p.timeouts}}
}

// queue holds pieces in the order in which they are written.
type queue struct {
	sending sync.Mutex // held by the goroutine that takes from it
	pieces  []*piece   // guarded by Flusher.mu
}

func (f *Flusher) waitingIn(q *queue) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(q.pieces)
}

// first returns the next piece to write, nil if there is none.
func (f *Flusher) first(q *queue) *piece {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(q.pieces) == 0 {
		return nil
	}
	return q.pieces[0]
}

// replaceFirst replaces the first piece by others.
func (f *Flusher) replaceFirst(q *queue, with ...*piece) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q.pieces = append(with, q.pieces[1:]...)
}

// postpone removes the first piece and appends pieces to the slow queue.
func (f *Flusher) postpone(q *queue, with []*piece) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q.pieces = q.pieces[1:]
	f.slow.pieces = append(f.slow.pieces, with...)
}

// send writes all fresh pieces and then what is waiting, until the database is
// unreachable.
func (f *Flusher) send(ctx context.Context) error {
	for {
		if f.waitingIn(&f.fresh) == 0 && !f.cutPieces() {
			f.note(nil, 0)
			return nil
		}
		if err := f.sendFirst(ctx, &f.fresh); err != nil {
			f.note(err, 0)
			return err
		}
	}
}

// sendSlow tries each slow piece once. If a piece times out again, its halves are tried the next
// time.
func (f *Flusher) sendSlow(ctx context.Context) error {
	for range f.waitingIn(&f.slow) {
		if err := f.sendFirst(ctx, &f.slow); err != nil {
			return err
		}
	}
	return nil
}

// cutPieces cuts what is waiting into pieces. It reports false if there is nothing.
func (f *Flusher) cutPieces() bool {
	f.mu.Lock()
	g := f.waiting
	if g.rows() == 0 {
		f.mu.Unlock()
		return false
	}
	f.waiting = newPendingBatch(f.MaxRows)
	f.stats.Aggregated += g.aggregated
	f.stats.Lost += g.lost
	f.stats.Waiting += g.rows()
	f.mu.Unlock()
	var pieces []*piece
	all := []*piece{{Batch: g.freeze(newID(), f.Node, f.makers.Of(f.Secret(), offences.NewRefusalIDMaker))}}
	for len(all) > 0 {
		p := all[0]
		all = all[1:]
		if p.Rows() > pieceRows {
			all = append(p.halves(), all...)
			continue
		}
		pieces = append(pieces, p)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fresh.pieces = append(f.fresh.pieces, pieces...)
	return true
}

// sendFirst writes the first piece of q. If the database rejects its content, the piece is
// halved, again and again until the rejected row is alone, which is dropped. If the piece times
// out, it is halved too, and the halves are tried separately from all others. An error says that
// the database is unreachable.
func (f *Flusher) sendFirst(ctx context.Context, q *queue) error {
	p := f.first(q)
	timedOut, err := f.write(ctx, p.Batch, p.timeout())
	switch {
	case err == nil:
		f.replaceFirst(q)
		f.note(nil, p.Rows())
		return nil
	case ctx.Err() != nil:
		p.failures++
		return err
	case fault.Is(err, fault.Unavailable), fault.Is(err, fault.MaybeSaved):
		// Most failures are outages, in which nothing is wrong with the piece. If the piece was
		// written after all, the retry does not count it twice: the database knows its id.
		if p.failures++; !timedOut && p.failures < maxFailures {
			return err
		}
		return f.split(ctx, q, p, err)
	}
	return f.bisect(ctx, q, p, err)
}

// split finds out whether a piece was written after all, and moves its halves to the slow queue
// if not. It returns cause if the database does not even answer that: then the database is
// unreachable, and the piece is not to blame.
func (f *Flusher) split(ctx context.Context, q *queue, p *piece, cause error) error {
	limited, cancel := context.WithTimeout(ctx, pieceTimeout)
	defer cancel()
	written, err := f.Sink.Abandon(limited, p.ID)
	if err != nil {
		return cause
	}
	if written {
		f.replaceFirst(q)
		f.note(nil, p.Rows())
		return nil
	}
	p.timeouts++
	f.Log.Warn("a part of the counts could not be written in time; it is tried apart from the others", "rows", p.Rows(), "error", cause)
	f.postpone(q, p.halves())
	return nil
}

// bisect narrows down the row because of which a piece is rejected.
func (f *Flusher) bisect(ctx context.Context, q *queue, p *piece, cause error) error {
	// If not even an empty batch can be written, no row is to blame.
	if _, err := f.write(ctx, &offences.Batch{ID: newID(), Node: f.Node}, pieceTimeout); err != nil {
		return cause
	}
	if p.Rows() > 1 {
		f.replaceFirst(q, p.halves()...)
		return nil
	}
	f.Log.Error("a row of the offence counts cannot be stored and is dropped", "row", describeRow(p.Batch), "error", cause)
	f.replaceFirst(q)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats.Poison++
	f.stats.Waiting--
	return nil
}

// write writes a batch within timeout, and reports whether the timeout ended it.
func (f *Flusher) write(ctx context.Context, b *offences.Batch, timeout time.Duration) (timedOut bool, err error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	e := offences.Evaluation{SafetyLimit: f.SafetyLimit(), Exempt: f.Exempt, Now: f.Now()}
	if f.Escalations != nil {
		e.Escalations = f.Escalations()
	}
	var events []offences.EscalationEvent
	// A batch that makes the writer panic cannot be written: it is bisected like any other, so
	// that only the row to blame is dropped.
	err = supervise.Call("flusher", func() (err error) {
		events, err = f.Sink.Flush(limited, b, e)
		return err
	})
	if err != nil {
		return limited.Err() != nil, err
	}
	for _, event := range events {
		if event.Kind == offences.EscalationPaused {
			f.Log.Warn(event.Detail, "policy", event.Name)
		}
	}
	if f.OnEscalation != nil && len(events) > 0 {
		f.OnEscalation(events)
	}
	return false, nil
}
