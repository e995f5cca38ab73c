package offences

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	oldestMinute = `
SELECT COALESCE(min(start), 0) FROM (
    SELECT min(start) AS start FROM offences WHERE span = 1
    UNION ALL SELECT min(start) FROM traffic WHERE span = 1
    UNION ALL SELECT min(start) FROM key_traffic WHERE span = 1
    UNION ALL SELECT min(start) FROM distinct_keys WHERE span = 1) AS oldest`
	moveRollup = `UPDATE rollups SET through = $2 WHERE span = $1 AND through <= $2`

	// Longer spans keep only the sums and the first and last instant.
	rollUpOffences = `
INSERT INTO offences (span, start, policy_id, mac, kind, refused_by, source, key, place, offences, overcount,
    first_at, first_boundary, first_retry_at, first_meta,
    last_at, last_boundary, last_retry_at, last_meta)
SELECT CAST($1 AS SMALLINT), CAST($2 AS BIGINT), policy_id, mac, kind, refused_by, source, key, place, sum(offences), sum(overcount),
    min(first_at), 0, 0, '', max(last_at), 0, 0, ''
FROM offences WHERE span = $3 AND start >= CAST($2 AS BIGINT) AND start < $4
GROUP BY policy_id, mac, kind, refused_by, source, key, place`
	rollUpTraffic = `
INSERT INTO traffic (span, start, policy_id, allowed, limited, blocked, unavailable, shadow_allowed, shadow_limited, cost_allowed, untracked)
SELECT CAST($1 AS SMALLINT), CAST($2 AS BIGINT), policy_id, sum(allowed), sum(limited), sum(blocked), sum(unavailable), sum(shadow_allowed), sum(shadow_limited),
    sum(cost_allowed), sum(untracked)
FROM traffic WHERE span = $3 AND start >= CAST($2 AS BIGINT) AND start < $4 GROUP BY policy_id`
	rollUpKeyTraffic = `
INSERT INTO key_traffic (span, start, policy_id, key, place, allowed, refused, cost, overcount)
SELECT CAST($1 AS SMALLINT), CAST($2 AS BIGINT), policy_id, key, place, sum(allowed), sum(refused), sum(cost), sum(overcount)
FROM key_traffic WHERE span = $3 AND start >= CAST($2 AS BIGINT) AND start < $4 GROUP BY policy_id, key, place`
	distinctWithin = `SELECT policy_id, sketch FROM distinct_keys WHERE span = $1 AND start >= $2 AND start < $3 ORDER BY policy_id`
)

// RollUp adds up every hour whose counts must have arrived at now, and every day whose hours
// are added up, one transaction each. It returns how many it added up. It may be interrupted
// and run again at any time.
func (s *Store) RollUp(ctx context.Context, now time.Time) (done int, err error) {
	ripe := now.Add(-rollUpGrace).UnixMilli()
	for _, span := range []int64{hourSpan, daySpan} {
		for {
			more, err := rollUpNext(ctx, s.db, span, ripe)
			if err != nil {
				return done, err
			}
			if !more {
				break
			}
			done++
		}
	}
	return done, nil
}

// rollUpNext adds up the next hour or day that ended before ripe and reports whether there was
// one.
func rollUpNext(ctx context.Context, d *db.DB, span, ripe int64) (more bool, err error) {
	length := spanMS(span)
	err = d.Write(ctx, func(t *db.Tx) error {
		more = false
		if _, err := t.Exec(lockRollups); err != nil {
			return err
		}
		all, err := in(t).rollups()
		if err != nil {
			return err
		}
		if span == daySpan {
			ripe = min(ripe, all[hourSpan].through)
		}
		start := all[span].through
		if start == 0 {
			if _, err := t.One(oldestMinute, nil, &start); err != nil || start == 0 {
				return err
			}
			start -= start % length
		}
		if start+length > ripe {
			return nil
		}
		more = true
		return in(t).rollUp(span, start, start+length)
	})
	return more, err
}

func (t tx) rollUp(span, start, end int64) error {
	for _, statement := range []string{rollUpOffences, rollUpTraffic, rollUpKeyTraffic} {
		if _, err := t.Exec(statement, span, start, span-1, end); err != nil {
			return err
		}
	}
	if err := t.markRollUp(span, start); err != nil {
		return err
	}
	type part struct {
		policy int64
		sketch []byte
	}
	if span == hourSpan {
		if _, err := t.Exec(inHourColumn(rollUpDay, start), start-start%spanMS(daySpan), start); err != nil {
			return err
		}
	}
	parts, err := db.Each(t.Tx, func(r db.Row) (p part, err error) { return p, r.Scan(&p.policy, &p.sketch) }, distinctWithin, span-1, start, end)
	if err != nil {
		return err
	}
	sums := map[int64][]byte{}
	for _, p := range parts {
		if sums[p.policy], err = offences.MergeDistinct(sums[p.policy], p.sketch); err != nil {
			return err
		}
	}
	var rows [][]any
	for policy, sum := range sums {
		rows = append(rows, []any{span, start, policy, "", sum})
	}
	if err := t.Upsert(addDistinct, mergeDistinct, distinctColumns, rows); err != nil {
		return err
	}
	_, err = t.Exec(moveRollup, span, end)
	return err
}

// deleteSlice is the time range that one transaction of a deletion clears.
const deleteSlice = time.Hour

const (
	oldestOf     = `SELECT COALESCE(min(start), 0) FROM offences WHERE span = $1`
	moveGone     = `UPDATE rollups SET gone = $2 WHERE span = $1 AND gone < $2`
	deleteDays   = `DELETE FROM offence_days WHERE start < $1`
	deleteTrace  = `DELETE FROM trace WHERE start < $1`
	deleteCount  = `DELETE FROM escalation_counts WHERE start < $1`
	deleteUnits  = `DELETE FROM safety_units WHERE start < $1`
	deleteEvents = `DELETE FROM escalation_events WHERE at < $1`
)

// DeleteOlder deletes rows after their retention, hour by hour, and returns the number of
// deleted rows of offences. It keeps minutes that are not added up yet. It deletes the states
// of keys whose levels have decayed if decays contains their policy, and otherwise after a
// year.
func (s *Store) DeleteOlder(ctx context.Context, now time.Time, keep offences.Retention, decays map[int64]time.Duration) (deleted int64, err error) {
	keep = keep.WithDefaults()
	for span, age := range map[int64]time.Duration{minuteSpan: keep.Minutes, hourSpan: keep.Hours, daySpan: keep.Days} {
		n, err := deleteSpanBefore(ctx, s.db, span, now.Add(-age).UnixMilli())
		deleted += n
		if err != nil {
			return deleted, err
		}
	}
	err = s.db.Write(ctx, func(t *db.Tx) error {
		for statement, age := range map[string]time.Duration{
			deleteTrace: offences.SampleRetention, deleteCount: 25 * time.Hour, deleteUnits: 2 * offences.SafetyLimitWindow, deleteBatchesOld: 24 * time.Hour,
			deleteDays: keep.Days, deleteEvents: keep.Days,
		} {
			if _, err := t.Exec(statement, now.Add(-age).UnixMilli()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return deleted, err
	}
	return deleted, deleteStates(ctx, s.db, now, decays)
}

func deleteSpanBefore(ctx context.Context, d *db.DB, span, before int64) (deleted int64, err error) {
	for more := true; more; {
		err := d.Write(ctx, func(t *db.Tx) error {
			more = false
			all, err := in(t).rollups()
			if err != nil {
				return err
			}
			if span < daySpan {
				before = min(before, all[span+1].through)
			}
			before -= before % spanMS(min(span+1, daySpan))
			var oldest int64
			if _, err := t.One(oldestOf, []any{span}, &oldest); err != nil || before <= 0 {
				return err
			}
			until := before
			if oldest > 0 {
				until = min(before, oldest+max(deleteSlice.Milliseconds(), spanMS(span)))
			}
			more = until < before
			// Before the first rows are deleted: nobody may read a part of them.
			if _, err := t.Exec(moveGone, span, before); err != nil {
				return err
			}
			n, err := in(t).deleteSpan(span, until)
			deleted += n
			return err
		})
		if err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

func (t tx) deleteSpan(span, until int64) (deleted int64, err error) {
	for _, table := range []string{"offences", "traffic", "key_traffic", "distinct_keys", "count_marks"} {
		n, err := t.Exec("DELETE FROM "+table+" WHERE span = $1 AND start < $2", span, until)
		if err != nil {
			return deleted, err
		}
		if table == "offences" {
			deleted = n
		}
	}
	return deleted, nil
}
