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
	// pieceRows keeps a transaction short, also after a long outage.
	pieceRows = 8_000
	// pieceTimeout bounds the writing of a piece of that many rows, and
	// minTimeout that of a smaller one that timed out as part of a larger. A
	// single row gets longer each time, up to maxTimeout.
	pieceTimeout = 10 * time.Second
	minTimeout   = 5 * time.Second
	maxTimeout   = 2 * time.Minute
	// maxFailures is how often the database may fail at a piece in another way
	// before the piece is treated as one that timed out.
	maxFailures = 5
)

// piece is a batch on its way.
type piece struct {
	*offences.Batch
	failures int // of the database while it was written, so that it may have been
	timeouts int // of this piece and those that it was a part of
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

// halves splits a piece that is known not to have been written.
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

// queue is pieces in the order in which they are written.
type queue struct {
	sending sync.Mutex // held by who takes from it
	pieces  []*piece   // under the flusher's mu
}

func (f *Flusher) waitingIn(q *queue) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(q.pieces)
}

// first returns the piece that is to be written next, nil where none is.
func (f *Flusher) first(q *queue) *piece {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(q.pieces) == 0 {
		return nil
	}
	return q.pieces[0]
}

// replaceFirst puts pieces in the place of the first.
func (f *Flusher) replaceFirst(q *queue, with ...*piece) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q.pieces = append(with, q.pieces[1:]...)
}

// postpone takes the first piece away and adds pieces to those that are slow.
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

// sendSlow tries each slow piece once, and the halves of those that time out
// again the next time.
func (f *Flusher) sendSlow(ctx context.Context) error {
	for range f.waitingIn(&f.slow) {
		if err := f.sendFirst(ctx, &f.slow); err != nil {
			return err
		}
	}
	return nil
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
	f.waiting = newPendingBatch(f.MaxRows)
	f.stats.Aggregated += g.aggregated
	f.stats.Lost += g.lost
	f.stats.Waiting += g.rows()
	f.mu.Unlock()
	var pieces []*piece
	all := []*piece{{Batch: g.freeze(newID(), f.Node, f.maker())}}
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

// sendFirst writes the first piece of q. Where the database refuses it for what
// it holds, it becomes two, down to the one row that is dropped. Where it times
// out, it becomes two as well, which are tried apart from all others. An error
// says that the database is unreachable.
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
		// Most failures are outages, in which nothing is wrong with the piece. One that was
		// written after all is not counted twice: the database knows it by its id.
		if p.failures++; !timedOut && p.failures < maxFailures {
			return err
		}
		return f.split(ctx, q, p, err)
	}
	return f.bisect(ctx, q, p, err)
}

// split settles whether a piece was written after all, and makes a slow one of
// it where it was not. It returns the piece's own error where the database does
// not even do that: then it is unreachable, and no piece is to blame.
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

// bisect finds the row for which a piece is refused.
func (f *Flusher) bisect(ctx context.Context, q *queue, p *piece, cause error) error {
	// If nothing at all can be written, no row is to blame.
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

// write writes a batch within a time, and reports whether that ended it.
func (f *Flusher) write(ctx context.Context, b *offences.Batch, timeout time.Duration) (timedOut bool, err error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	e := offences.Evaluation{SafetyLimit: f.SafetyLimit(), Exempt: f.Exempt, Now: f.Now()}
	if f.Escalations != nil {
		e.Escalations = f.Escalations()
	}
	var events []offences.EscalationEvent
	// A batch that makes the writer panic is one that it cannot write: it is
	// bisected like any other, so that only the row to blame is dropped.
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
