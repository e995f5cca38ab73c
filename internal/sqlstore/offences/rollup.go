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
    UNION ALL SELECT min(start) FROM distinct_keys WHERE span = $1
    UNION ALL SELECT min(start) FROM breakdowns WHERE span = $1) AS oldest`
	moveRollup = `UPDATE rollups SET through = $2 WHERE span = $1 AND through <= $2`
	movePart   = `UPDATE rollups SET part_through = $1 WHERE span = 2`
	// findPart returns the minute of the first row that is left for a later part.
	findPart = `SELECT start FROM offences WHERE span = 1 AND start >= $1 AND start < $2 ORDER BY start LIMIT 1 OFFSET $3`

	// Longer spans keep only the sums and the first and last instant.
	rollUpOffences = addOffences + `
SELECT CAST($1 AS SMALLINT), CAST($2 AS BIGINT), policy_id, mac, kind, refused_by, source, key, place, sum(offences), sum(overcount),
    min(first_at), 0, 0, '', max(last_at), 0, 0, ''
FROM offences WHERE span = $3 AND start >= $4 AND start < $5
GROUP BY policy_id, mac, kind, refused_by, source, key, place` + mergeOffences
	rollUpTraffic = addTraffic + `
SELECT CAST($1 AS SMALLINT), CAST($2 AS BIGINT), policy_id, sum(allowed), sum(limited), sum(blocked), sum(challenged), sum(unavailable), sum(shadow_allowed), sum(shadow_limited),
    sum(cost_allowed), sum(untracked)
FROM traffic WHERE span = $3 AND start >= $4 AND start < $5 GROUP BY policy_id` + mergeTraffic
	rollUpKeyTraffic = addKeyTraffic + `
SELECT CAST($1 AS SMALLINT), CAST($2 AS BIGINT), policy_id, key, place, sum(allowed), sum(refused), sum(cost), sum(overcount)
FROM key_traffic WHERE span = $3 AND start >= $4 AND start < $5 GROUP BY policy_id, key, place` + mergeKeyTraffic
	distinctWithin = `SELECT policy_id, sketch FROM distinct_keys WHERE span = $1 AND start >= $2 AND start < $3 ORDER BY policy_id`
)

// maxAdded is about how many rows of offences one transaction adds up, but at least those of a
// minute. Other changes wait for it: on SQLite all of them, and for half a minute if it adds up
// a day of a million keys at once.
const maxAdded = 5_000

// RollUp adds up every hour, and adds it to its day, whose counts must have arrived at now. It does
// so in parts, one transaction each. It returns the number of hours and days that are complete. It
// may be interrupted and run again at any time.
func (s *Store) RollUp(ctx context.Context, now time.Time) (done int, err error) {
	for more := true; more; {
		var completed int
		err = s.db.Write(ctx, func(t *db.Tx) (err error) {
			more, completed, err = adder{in(t)}.next(now.Add(-rollUpGrace).UnixMilli())
			return err
		})
		if err != nil {
			return done, err
		}
		done += completed
	}
	return done, nil
}

// adder is a transaction that adds rows up to those of longer spans.
type adder struct{ tx }

// next adds up the next part of the hours that ended before ripe. It reports whether there was
// one, and the number of hours and days that are complete with it.
func (t adder) next(ripe int64) (more bool, completed int, err error) {
	if _, err := t.Exec(lockRollups); err != nil { // nobody else adds up
		return false, 0, err
	}
	all, err := t.rollups()
	if err != nil {
		return false, 0, err
	}
	if all[hourSpan].part < all[hourSpan].through {
		completed, err = t.nextHourOfEarlierRelease(all)
		return true, completed, err
	}
	from := all[hourSpan].part
	if from == 0 {
		if _, err := t.One(oldestRow, []any{minuteSpan}, &from); err != nil || from == 0 {
			return false, 0, err
		}
		from -= from % spanMS(hourSpan)
	}
	hour := from - from%spanMS(hourSpan)
	end := hour + spanMS(hourSpan)
	if end > ripe {
		return false, 0, nil
	}
	to := end
	if _, err := t.One(findPart, []any{from, end, maxAdded}, &to); err != nil {
		return false, 0, err
	}
	to = max(to, from+spanMS(minuteSpan))
	if err := t.add(minuteSpan, from, to, hourSpan); err != nil {
		return false, 0, err
	}
	if err := t.add(minuteSpan, from, to, daySpan); err != nil {
		return false, 0, err
	}
	if _, err := t.Exec(inHourColumn(rollUpDay, hour), hour-hour%spanMS(daySpan), from, to); err != nil {
		return false, 0, err
	}
	if to < end {
		_, err = t.Exec(movePart, to)
		return true, 0, err
	}
	if err := t.complete(hourSpan, hour); err != nil {
		return false, 0, err
	}
	days, err := t.addedHour(end)
	return true, 1 + days, err
}

// nextHourOfEarlierRelease adds the next hour that an earlier release has added up to its day,
// which that does when the day has ended.
func (t adder) nextHourOfEarlierRelease(all map[int64]rollup) (completed int, err error) {
	hour, through := added(all, daySpan), all[hourSpan].through
	if hour == 0 {
		if _, err := t.One(oldestRow, []any{hourSpan}, &hour); err != nil {
			return 0, err
		}
	}
	if hour == 0 || hour >= through {
		_, err = t.Exec(movePart, through)
		return 0, err
	}
	end := hour + spanMS(hourSpan)
	if err := t.add(hourSpan, hour, end, daySpan); err != nil {
		return 0, err
	}
	return t.addedHour(end)
}

// addedHour notes that the hour that ended at end is in the rows of its day. It returns the number
// of days that are complete with it.
func (t adder) addedHour(end int64) (completed int, err error) {
	if _, err := t.Exec(movePart, end); err != nil || end%spanMS(daySpan) != 0 {
		return 0, err
	}
	return 1, t.complete(daySpan, end-spanMS(daySpan))
}

// add adds the rows from <= start < to of a shorter span to those of a longer one, of which one
// contains them all.
func (t adder) add(shorter, from, to, longer int64) error {
	start := from - from%spanMS(longer)
	for _, statement := range []string{rollUpOffences, rollUpTraffic, rollUpKeyTraffic} {
		if _, err := t.Exec(statement, longer, start, shorter, from, to); err != nil {
			return err
		}
	}
	if err := t.addUpBreakdowns(shorter, from, to, longer, start); err != nil {
		return err
	}
	type part struct {
		policy int64
		sketch []byte
	}
	parts, err := db.Each(t.Tx, func(r db.Row) (p part, err error) { return p, r.Scan(&p.policy, &p.sketch) }, distinctWithin, shorter, from, to)
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
		if err := t.addDistinctTo(longer, start, policy, sum); err != nil {
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
