package offences

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	oldestRow = `
SELECT COALESCE(min(start), 0) FROM (
    SELECT min(start) AS start FROM offences WHERE span = $1
    UNION ALL SELECT min(start) FROM traffic WHERE span = $1
    UNION ALL SELECT min(start) FROM key_traffic WHERE span = $1
    UNION ALL SELECT min(start) FROM distinct_keys WHERE span = $1) AS oldest`
	moveRollup = `UPDATE rollups SET through = $2 WHERE span = $1 AND through <= $2`
	movePart   = `UPDATE rollups SET part_through = $2 WHERE span = $1`

	// Longer spans keep only the sums and the first and last instant.
	rollUpOffences = addOffences + `
SELECT CAST($1 AS SMALLINT), CAST($2 AS BIGINT), policy_id, mac, kind, refused_by, source, key, place, sum(offences), sum(overcount),
    min(first_at), 0, 0, '', max(last_at), 0, 0, ''
FROM offences WHERE span = $3 AND start >= $4 AND start < $5
GROUP BY policy_id, mac, kind, refused_by, source, key, place` + mergeOffences
	rollUpTraffic = addTraffic + `
SELECT CAST($1 AS SMALLINT), CAST($2 AS BIGINT), policy_id, sum(allowed), sum(limited), sum(blocked), sum(unavailable), sum(shadow_allowed), sum(shadow_limited),
    sum(cost_allowed), sum(untracked)
FROM traffic WHERE span = $3 AND start >= $4 AND start < $5 GROUP BY policy_id` + mergeTraffic
	rollUpKeyTraffic = addKeyTraffic + `
SELECT CAST($1 AS SMALLINT), CAST($2 AS BIGINT), policy_id, key, place, sum(allowed), sum(refused), sum(cost), sum(overcount)
FROM key_traffic WHERE span = $3 AND start >= $4 AND start < $5 GROUP BY policy_id, key, place` + mergeKeyTraffic
	distinctWithin = `SELECT policy_id, sketch FROM distinct_keys WHERE span = $1 AND start >= $2 AND start < $3 ORDER BY policy_id`
)

// RollUp adds up every hour whose counts must have arrived at now, and adds every such hour to
// its day, one transaction each. It returns the number of hours and days that are complete. It
// may be interrupted and run again at any time.
func (s *Store) RollUp(ctx context.Context, now time.Time) (done int, err error) {
	for more := true; more; {
		if more, err = rollUpHour(ctx, s.db, now.Add(-rollUpGrace).UnixMilli()); err != nil {
			return done, err
		}
		if more {
			done++
		}
	}
	for more := true; more; {
		var isComplete bool
		if more, isComplete, err = rollUpPartOfDay(ctx, s.db); err != nil {
			return done, err
		}
		if isComplete {
			done++
		}
	}
	return done, nil
}

// rollUpHour adds up the next hour that ended before ripe and reports whether there was one.
func rollUpHour(ctx context.Context, d *db.DB, ripe int64) (more bool, err error) {
	err = d.Write(ctx, func(t *db.Tx) error {
		more = false
		start, _, err := adder{in(t)}.next(hourSpan)
		if err != nil || start == 0 || start+spanMS(hourSpan) > ripe {
			return err
		}
		more = true
		end := start + spanMS(hourSpan)
		if err := (adder{in(t)}).add(hourSpan, start, start, end); err != nil {
			return err
		}
		if _, err := t.Exec(inHourColumn(rollUpDay, start), start-start%spanMS(daySpan), start); err != nil {
			return err
		}
		return adder{in(t)}.complete(hourSpan, start)
	})
	return more, err
}

// rollUpPartOfDay adds the next hour that is added up to its day. It reports whether there was
// one, and whether the day is complete. A day is not added up at once, because other changes
// wait for the transaction: on SQLite all of them, for half a minute with a million keys.
func rollUpPartOfDay(ctx context.Context, d *db.DB) (more, isComplete bool, err error) {
	err = d.Write(ctx, func(t *db.Tx) error {
		more, isComplete = false, false
		hour, all, err := adder{in(t)}.next(daySpan)
		end := hour + spanMS(hourSpan)
		if err != nil || hour == 0 || end > all[hourSpan].through {
			return err
		}
		more, isComplete = true, end%spanMS(daySpan) == 0
		day := hour - hour%spanMS(daySpan)
		if err := (adder{in(t)}).add(daySpan, day, hour, end); err != nil {
			return err
		}
		if _, err := t.Exec(movePart, daySpan, end); err != nil || !isComplete {
			return err
		}
		return adder{in(t)}.complete(daySpan, day)
	})
	return more, isComplete, err
}

// adder is a transaction that adds rows up to those of a longer span.
type adder struct{ tx }

// next returns the start of the next rows of the span below span that are to be added to
// it, 0 if there are none, and the progress of all spans. It excludes everybody else who adds up.
func (t adder) next(span int64) (start int64, all map[int64]rollup, err error) {
	if _, err := t.Exec(lockRollups); err != nil {
		return 0, nil, err
	}
	if all, err = t.rollups(); err != nil {
		return 0, nil, err
	}
	if start = all[span].added(); start == 0 {
		_, err = t.One(oldestRow, []any{span - 1}, &start)
		start -= start % spanMS(span)
	}
	return start, all, err
}

// add adds the rows from <= start < to of the span below span to those of a span that start at
// start.
func (t adder) add(span, start, from, to int64) error {
	for _, statement := range []string{rollUpOffences, rollUpTraffic, rollUpKeyTraffic} {
		if _, err := t.Exec(statement, span, start, span-1, from, to); err != nil {
			return err
		}
	}
	type part struct {
		policy int64
		sketch []byte
	}
	parts, err := db.Each(t.Tx, func(r db.Row) (p part, err error) { return p, r.Scan(&p.policy, &p.sketch) }, distinctWithin, span-1, from, to)
	if err != nil {
		return err
	}
	sums := map[int64][]byte{}
	for _, p := range parts {
		if sums[p.policy], err = offences.MergeDistinct(sums[p.policy], p.sketch); err != nil {
			return err
		}
	}
	for policy, sum := range sums {
		if err := t.addDistinctTo(span, start, policy, sum); err != nil {
			return err
		}
	}
	return nil
}

// complete marks the rows of a span that start at start as complete.
func (t adder) complete(span, start int64) error {
	if err := t.markRollUp(span, start); err != nil {
		return err
	}
	_, err := t.Exec(moveRollup, span, start+spanMS(span))
	return err
}
