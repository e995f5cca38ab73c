package sqlstore

import (
	"context"
	"database/sql"
	"sync"

	"github.com/stint-dev/stint/internal/supervise"
)

// splitFrom is from how many rows on a table is loaded in two halves at once: a
// node that starts is not ready before it has read them all, and most of the
// time goes into making Go's values of the database's.
const splitFrom = 1000

// load yields every row of a shelf that is active.
func (t *tx) load(s *shelf, yield func(*item, error) bool) {
	whole := part{t, s.load, []any{toMS(t.now)}, true}
	beside, middle, err := t.halves(s)
	if err != nil {
		yield(nil, err)
		return
	}
	if beside == nil {
		gather(t.ctx, []part{whole}, yield)
		return
	}
	defer func() { _ = beside.sql.Rollback() }() // it has only read
	gather(t.ctx, []part{
		{t, s.load + ` AND id < $2`, []any{toMS(t.now), middle}, true},
		{beside, s.load + ` AND id >= $2`, []any{toMS(t.now), middle}, true},
	}, yield)
}

// halves returns a second transaction that sees the database as t does, and the
// id in the middle of a shelf; nil where it is not worth it, or where a change
// came in between.
func (t *tx) halves(s *shelf) (beside *tx, middle string, err error) {
	var rows int64
	if _, err := t.one(s.size, nil, &rows); err != nil || rows < splitFrom {
		return nil, "", err
	}
	if _, err := t.one(s.middle, []any{rows / 2}, &middle); err != nil {
		return nil, "", err
	}
	begun, err := t.store.reader.BeginTx(t.ctx, readOnly)
	if err != nil {
		return nil, "", err
	}
	beside = &tx{ctx: t.ctx, sql: begun, store: t.store, now: t.now}
	var here, there int64
	if err = beside.allowLong(); err == nil {
		_, err = t.one(readRevision, nil, &here)
	}
	if err == nil {
		_, err = beside.one(readRevision, nil, &there)
	}
	if err != nil || here != there {
		_ = begun.Rollback() // it has only read
		return nil, "", err
	}
	return beside, middle, nil
}

// readOnly are the options of a transaction that sees one state of the database
// throughout.
var readOnly = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}

// part is a query for rows of a shelf, standing where it selects only columns
// of what has not ended.
type part struct {
	*tx
	query    string
	args     []any
	standing bool
}

// gather reads all parts at once and yields their rows, each for the time of
// its yield.
func gather(ctx context.Context, parts []part, yield func(*item, error) bool) {
	ctx, stop := context.WithCancel(ctx)
	var (
		batches = make(chan []item, 4)
		used    = make(chan []item, 4) // to be filled again
		readers sync.WaitGroup
		once    sync.Once
		failed  error
	)
	for _, p := range parts {
		readers.Go(func() {
			if err := supervise.Call("catalog reader", func() error { return p.read(ctx, batches, used) }); err != nil {
				once.Do(func() { failed = err })
				stop() // the others' rows are of no use then
			}
		})
	}
	go func() {
		defer close(batches)
		supervise.Do("catalog reader", readers.Wait)
	}()
	// The readers have left their connections when the channel is closed.
	defer func() {
		stop()
		for range batches {
		}
	}()
	for batch := range batches {
		for n := range batch {
			if !yield(&batch[n], nil) {
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

// loadBatch is how many rows are handed over at once.
const loadBatch = 256

// read reads rows while those before are taken over elsewhere.
func (p part) read(ctx context.Context, into chan<- []item, used <-chan []item) error {
	rows, err := p.sql.QueryContext(ctx, p.query, p.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	scanner := itemScanner{standing: p.standing}
	batch := make([]item, 0, loadBatch)
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
			batch = make([]item, 0, loadBatch)
		}
		return nil
	}
	for rows.Next() {
		batch = append(batch, item{})
		if err := scanner.into(&batch[len(batch)-1], rows); err != nil {
			return err
		}
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
