package entries

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/supervise"
)

const (
	// The plus and the appended text keep the planner from using indexes: nearly every row is
	// needed.
	loadActive = `SELECT %s FROM entries WHERE place || '' = scope AND +expires_at > $1`
	loadSince  = `SELECT ` + EntryFields + ` FROM entries WHERE revision > $1`
)

// Changes iterates over the entries that changed since a revision, ended ones included. For 0
// it iterates over all active entries. It runs no query if count is 0.
func (t Tx) Changes(since, count int64) iter.Seq2[*blocks.Entry, error] {
	return func(yield func(*blocks.Entry, error) bool) {
		switch {
		case count == 0:
		case since > 0:
			gather(t.Context(), []part{{t.Tx, loadSince, []any{since}, new(EntryScanner)}}, yield)
		default:
			t.loadActive(yield)
		}
	}
}

// loadActive yields every active entry. It reads two halves concurrently: a starting node is
// not ready before it has read all entries, and most of the time is spent on converting the
// database's values to Go's.
func (t Tx) loadActive(yield func(*blocks.Entry, error) bool) {
	arePacked, err := db.LengthsHold(t.Tx)
	if err != nil {
		yield(nil, err)
		return
	}
	fields, newScanner := EntryFields, func() scanner { return new(EntryScanner) }
	if arePacked {
		fields, newScanner = packedFields, func() scanner { return new(packedScanner) }
	}
	query := fmt.Sprintf(loadActive, fields)
	second, column, middle, err := t.halves()
	if err != nil {
		yield(nil, err)
		return
	}
	if second == nil {
		gather(t.Context(), []part{{t.Tx, query, []any{db.ToMS(t.Now)}, newScanner()}}, yield)
		return
	}
	defer second.Rollback()
	gather(t.Context(), []part{
		{t.Tx, query + ` AND ` + column + ` < $2`, []any{db.ToMS(t.Now), middle}, newScanner()},
		{second, query + ` AND ` + column + ` >= $2`, []any{db.ToMS(t.Now), middle}, newScanner()},
	}, yield)
}

// halves returns a second transaction that sees the same state as t, and the value of a column
// that divides the rows. The transaction is nil if the table is small, or if a change was
// committed in between.
func (t Tx) halves() (second *db.Tx, column string, middle any, err error) {
	if column, middle, err = db.Middle(t.Tx, "entries"); err != nil || middle == nil {
		return nil, "", nil, err
	}
	second, err = t.Twin()
	return second, column, middle, err
}

// part is a query for entries, and the scanner of its rows.
type part struct {
	*db.Tx
	text    string
	args    []any
	scanner scanner
}

// scanner converts rows to entries.
type scanner interface {
	Scan(r db.Row) (*blocks.Entry, error)
}

// gather reads all parts concurrently and yields their entries.
func gather(ctx context.Context, parts []part, yield func(*blocks.Entry, error) bool) {
	ctx, stop := context.WithCancel(ctx)
	var (
		batches = make(chan []*blocks.Entry, 4)
		used    = make(chan []*blocks.Entry, 4) // batches to be filled again
		readers sync.WaitGroup
		once    sync.Once
		failed  error
	)
	for _, p := range parts {
		readers.Go(func() {
			if err := supervise.Call("catalog reader", func() error { return p.read(ctx, batches, used) }); err != nil {
				once.Do(func() { failed = err })
				stop() // the rows of the other parts are no longer needed
			}
		})
	}
	go func() {
		defer close(batches)
		supervise.Do("catalog reader", readers.Wait)
	}()
	// When the channel is closed, the readers have released their connections.
	defer func() {
		stop()
		for range batches {
		}
	}()
	for batch := range batches {
		for _, e := range batch {
			if !yield(e, nil) {
				return
			}
		}
		select {
		case used <- batch:
		default:
		}
	}
	if failed != nil {
		yield(nil, failed)
	}
}

// reported contains the ids of the unreadable entries that were logged.
var reported sync.Map

// reportUnreadable logs, once per process, that an active entry has no effect because this
// version refuses its pattern. The other entries are still loaded.
func (p part) reportUnreadable(e *blocks.Entry) {
	if _, before := reported.LoadOrStore(e.ID, true); !before && e.Ended.IsZero() {
		db.LogOf(p.Tx).Error("an entry has no effect, since its pattern cannot be read; end it and add another", "kind", e.Kind, "id", e.ID, "pattern", e.Pattern.String())
	}
}

// loadBatch is how many entries are passed on at once.
const loadBatch = 256

// read reads rows while earlier ones are processed in another goroutine.
func (p part) read(ctx context.Context, into chan<- []*blocks.Entry, used <-chan []*blocks.Entry) error {
	rows, err := p.Tx.Query(ctx, p.text, p.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	batch := make([]*blocks.Entry, 0, loadBatch)
	hand := func() error {
		select {
		case into <- batch:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case batch = <-used:
			batch = batch[:0]
		default:
			batch = make([]*blocks.Entry, 0, loadBatch)
		}
		return nil
	}
	for rows.Next() {
		e, err := p.scanner.Scan(rows)
		if err != nil {
			return err
		}
		if e.Pattern.IsZero() {
			p.reportUnreadable(e)
			continue
		}
		batch = append(batch, e)
		if len(batch) == loadBatch {
			if err := hand(); err != nil {
				return err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return hand()
}
