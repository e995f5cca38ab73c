package offences

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	// holdBreakdown creates the row of a table, or locks it.
	holdBreakdown    = `INSERT INTO breakdowns (span, start, node, data) VALUES ($1, $2, $3, $4) ON CONFLICT (span, start, node) DO UPDATE SET data = breakdowns.data`
	findBreakdown    = `SELECT data FROM breakdowns WHERE span = $1 AND start = $2 AND node = $3`
	setBreakdown     = `UPDATE breakdowns SET data = $4 WHERE span = $1 AND start = $2 AND node = $3`
	breakdownsWithin = `SELECT data FROM breakdowns WHERE span = $1 AND start >= $2 AND start < $3`
)

// What was requested in minutes and hours takes much room, and is kept for less time than other
// counts.
const (
	breakdownMinutes = 8 * 24 * time.Hour
	breakdownHours   = 35 * 24 * time.Hour
)

func breakdownLimits(span int64) breakdown.Limits {
	if span == minuteSpan {
		return breakdown.MinuteLimits
	}
	return breakdown.LongLimits
}

// addBreakdownTo adds what was requested to the row of a node, "" for all nodes. It replaces a row that
// nobody can read, but leaves one of another version, and then adds nothing.
func (t tx) addBreakdownTo(span, start int64, node string, more *breakdown.Table) error {
	if _, err := t.Exec(holdBreakdown, span, start, node, []byte{}); err != nil {
		return err
	}
	var known []byte
	if _, err := t.One(findBreakdown, []any{span, start, node}, &known); err != nil {
		return err
	}
	sum, err := t.readable(known)
	if errors.Is(err, breakdown.ErrFormat) {
		return nil
	}
	sum = cmp.Or(sum, &breakdown.Table{})
	sum.Merge(more)
	sum.Trim(breakdownLimits(span))
	_, err = t.Exec(setBreakdown, span, start, node, sum.Encode())
	return err
}

// readable returns the table of a row, nil with an error, which is logged, if it cannot be read: one bad
// row must not stop the adding up and the reading of all others.
func (t tx) readable(data []byte) (*breakdown.Table, error) {
	table, err := breakdown.Decode(data)
	if err != nil {
		db.WarnOnce(t.Tx, "a part of what was requested is missing on the page Traffic", "error", err)
	}
	return table, err
}

// addBreakdowns adds those of a batch to the rows of a span.
func (t tx) addBreakdowns(b *offences.Batch, span int64, wanted func(int64) bool, start func(int64) int64) error {
	node := b.Node
	if span != minuteSpan {
		node = ""
	}
	for _, c := range b.Breakdowns {
		if !wanted(c.Minute) {
			continue
		}
		more, err := breakdown.Decode(c.Data)
		if err != nil {
			return err
		}
		if err := t.addBreakdownTo(span, start(c.Minute), node, more); err != nil {
			return err
		}
	}
	return nil
}

// addUpBreakdowns adds the tables of a part of a shorter span to that of a longer one.
func (t adder) addUpBreakdowns(shorter, from, to, longer, start int64) error {
	sum := &breakdown.Table{}
	read := func(r db.Row) (data []byte, err error) { return data, r.Scan(&data) }
	err := db.Stream(t.Tx, read, breakdownsWithin, []any{shorter, from, to}, func(data []byte) error {
		if more, err := t.readable(data); err == nil {
			sum.Merge(more)
			sum.Trim(breakdown.Limits{Rows: 4 * breakdown.LongLimits.Rows, Rest: 4 * breakdown.LongLimits.Rest})
		}
		return nil
	})
	if err != nil || sum.IsEmpty() {
		return err
	}
	return t.addBreakdownTo(longer, start, "", sum)
}

// Breakdowns implements admin.DetectionStore.
func (s *Store) Breakdowns(ctx context.Context, now, from, to time.Time, step time.Duration, begin func(offences.TrafficSeries), do func(start time.Time, t *breakdown.Table) error) error {
	return s.db.View(ctx, func(t *db.Tx) error {
		rollups, err := in(t).rollups()
		if err != nil {
			return err
		}
		for span, kept := range map[int64]time.Duration{minuteSpan: breakdownMinutes, hourSpan: breakdownHours} {
			// Not those that are about to be deleted.
			r := rollups[span]
			gone := min(now.Add(2*time.Hour-kept).UnixMilli(), rollups[span+1].through)
			r.gone = max(r.gone, gone-gone%spanMS(span+1))
			rollups[span] = r
		}
		longest := dividing(step)
		if step <= 0 {
			longest, step = 0, wholeSpan
		}
		span, segments := cover(from, to, longest, rollups)
		series := offences.TrafficSeries{Span: span, Step: step}
		if row := longestRow(segments); row > 0 && step%row != 0 {
			series.Step += row - step%row
		}
		begin(series)
		type part struct {
			start int64
			data  []byte
		}
		q := &db.Selection{}
		return db.Stream(t, func(r db.Row) (p part, err error) { return p, r.Scan(&p.start, &p.data) },
			union(q, "start, data", "breakdowns", segments, ""), q.Args, func(p part) error {
				table, _ := in(t).readable(p.data) // do counts those that cannot be read
				return do(time.UnixMilli(p.start).UTC(), table)
			})
	})
}
