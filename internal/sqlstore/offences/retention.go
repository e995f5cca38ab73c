package offences

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	moveGone     = `UPDATE rollups SET gone = $2 WHERE span = $1 AND gone < $2`
	deleteCount  = `DELETE FROM escalation_counts WHERE start < $1`
	deleteUnits  = `DELETE FROM safety_units WHERE start < $1`
	deleteEvents = `DELETE FROM escalation_events WHERE at < $1`
)

// maxDeleted is how many rows one transaction deletes: SQLite has one writer, and a million rows
// at once would keep every other change waiting for half a minute.
const maxDeleted = 5_000

// The tables with a row for each key, or for each part of the time, and their primary keys, of
// which those of counts begin with the span.
var (
	countTables = []struct{ name, after string }{
		{"offences", "start, policy_id, mac, kind, refused_by, source"},
		{"traffic", "start, policy_id"},
		{"key_traffic", "start, policy_id, key"},
		{"distinct_keys", "start, policy_id, node"},
		{"count_marks", "start"},
		{"breakdowns", "start, node"},
	}
	dayKey, sampleKey = "start, key, policy_id, kind", "start, node, id"
)

// DeleteOlder deletes rows after their retention and returns the number of deleted rows of
// offences. It keeps minutes and hours that are not added up yet. It deletes the states of keys
// whose levels have decayed if decays contains their policy, and otherwise after a year.
func (s *Store) DeleteOlder(ctx context.Context, now time.Time, keep offences.Retention, decays map[int64]time.Duration) (deleted int64, err error) {
	keep = keep.WithDefaults()
	for span, age := range map[int64]time.Duration{minuteSpan: keep.Minutes, hourSpan: keep.Hours, daySpan: keep.Days} {
		n, err := deleteSpanBefore(ctx, s.db, span, now.Add(-age).UnixMilli())
		deleted += n
		if err != nil {
			return deleted, err
		}
	}
	for span, age := range map[int64]time.Duration{minuteSpan: breakdownMinutes, hourSpan: breakdownHours} {
		if err := deleteBreakdowns(ctx, s.db, span, now.Add(-age).UnixMilli()); err != nil {
			return deleted, err
		}
	}
	if _, err := deleteRows(ctx, s.db, "offence_days", "", dayKey, now.Add(-keep.Days).UnixMilli()); err != nil {
		return deleted, err
	}
	if _, err := deleteRows(ctx, s.db, "trace", "", sampleKey, now.Add(-offences.SampleRetention).UnixMilli()); err != nil {
		return deleted, err
	}
	err = s.db.Write(ctx, func(t *db.Tx) error {
		for statement, age := range map[string]time.Duration{
			deleteCount: 25 * time.Hour, deleteUnits: 2 * offences.SafetyLimitWindow, deleteBatchesOld: 24 * time.Hour, deleteEvents: keep.Days,
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

// deleteSpanBefore deletes the counts of a span before an instant.
func deleteSpanBefore(ctx context.Context, d *db.DB, span, before int64) (deleted int64, err error) {
	err = d.Write(ctx, func(t *db.Tx) error {
		all, err := in(t).rollups()
		if err != nil {
			return err
		}
		if span < daySpan {
			before = min(before, all[span+1].through)
		}
		before -= before % spanMS(min(span+1, daySpan))
		if before <= 0 {
			return nil
		}
		// Before the first rows are deleted: nobody may read a part of them.
		_, err = t.Exec(moveGone, span, before)
		return err
	})
	if err != nil || before <= 0 {
		return 0, err
	}
	ofSpan := "span = " + strconv.FormatInt(span, 10) + " AND "
	for _, table := range countTables {
		n, err := deleteRows(ctx, d, table.name, ofSpan, table.after, before)
		if table.name == "offences" {
			deleted = n
		}
		if err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

// deleteBreakdowns deletes what was requested in the minutes or hours before an instant, as far as
// it is added up.
func deleteBreakdowns(ctx context.Context, d *db.DB, span, before int64) error {
	err := d.View(ctx, func(t *db.Tx) error {
		all, err := in(t).rollups()
		before = min(before, all[span+1].through)
		before -= before % spanMS(span+1)
		return err
	})
	if err != nil || before <= 0 {
		return err
	}
	_, err = deleteRows(ctx, d, "breakdowns", "span = "+strconv.FormatInt(span, 10)+" AND ", "start, node", before)
	return err
}

// deleteRows deletes the rows of a table from before an instant, maxDeleted at a time, each time in
// a transaction of its own. which is empty or a condition that ends with AND, and order the columns
// of the primary key after those of which. It returns the number of deleted rows, also after an
// error.
func deleteRows(ctx context.Context, d *db.DB, table, which, order string, before int64) (deleted int64, err error) {
	columns := strings.Count(order, ",") + 1
	find := "SELECT " + order + " FROM " + table + " WHERE " + which + "start < $1 ORDER BY " + order + " LIMIT 1 OFFSET " + strconv.Itoa(maxDeleted)
	all, part := "DELETE FROM "+table+" WHERE "+which+"start < $1", deletePart(table, which, order)
	for more := true; more; {
		var n int64
		err := d.Write(ctx, func(t *db.Tx) (err error) {
			bound := make([]any, columns) // the first row that stays
			places := make([]any, columns)
			for i := range bound {
				places[i] = &bound[i]
			}
			if more, err = t.One(find, []any{before}, places...); err != nil {
				return err
			}
			if more {
				n, err = t.Exec(part, bound...)
			} else {
				n, err = t.Exec(all, before)
			}
			return err
		})
		if err != nil {
			return deleted, err
		}
		deleted += n
	}
	return deleted, nil
}

// deletePart returns the statement that deletes the rows below a bound, of which the columns of
// order are the arguments. It names the bound alone: beside the instant, SQLite would read all old
// rows each time.
func deletePart(table, which, order string) string {
	marks := make([]string, strings.Count(order, ",")+1)
	for i := range marks {
		marks[i] = "$" + strconv.Itoa(i+1)
	}
	return "DELETE FROM " + table + " WHERE " + which + "(" + order + ") < (" + strings.Join(marks, ", ") + ")"
}
