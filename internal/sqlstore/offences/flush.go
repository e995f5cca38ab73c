// Package offences stores the counted decisions, ranks them, adds them up by hour and day, and runs
// the escalations that they trigger.
package offences

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/recorder"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/sqlstore/offences/memory"
)

var _ recorder.Sink = (*Store)(nil)

// Store stores offences, traffic and escalations.
type Store struct {
	db      *db.DB
	cache   *rowCache[memory.Row]
	traffic *rowCache[memory.KeyTraffic]
}

// New returns the store of the counts in a database.
func New(d *db.DB) *Store {
	return &Store{d, newOffenceCache(maxCachedRows), newTrafficCache(maxCachedRows)}
}

// tx is a transaction on offences, traffic and escalations.
type tx struct{ *db.Tx }

func in(t *db.Tx) tx { return tx{t} }

// Counts older than lateAfter are late: they may belong to an hour that is being added up, so
// they are written with the lock of that. rollUpGrace is the time between the end of an hour
// and its adding up. The difference between both exceeds the duration of a transaction plus the
// difference of two nodes' clocks. Counts of an hour that is already added up are late at any
// age: a node whose clock was ahead did that.
const (
	lateAfter   = 10 * time.Minute
	rollUpGrace = 20 * time.Minute
)

// Flush implements recorder.Sink.
func (s *Store) Flush(ctx context.Context, b *offences.Batch, e offences.Evaluation) ([]offences.EscalationEvent, error) {
	var events []offences.EscalationEvent
	changed := false
	err := s.db.Write(ctx, func(t *db.Tx) error {
		events, changed = nil, false
		t.SetNow(e.Now)
		added, err := t.Exec(addFlushedBatch, b.ID, db.ToMS(t.Now))
		if err != nil || added == 0 {
			return err
		}
		if err := in(t).addCounts(b); err != nil {
			return err
		}
		escalations := escalationRun{Tx: t, evaluation: e}
		if err := escalations.evaluate(b.Offences); err != nil {
			return err
		}
		events, changed = escalations.events, t.Revision != 0
		return nil
	})
	if err != nil {
		return nil, err
	}
	if changed {
		// If this fails, the next poll loads the block. Nobody has been notified of it yet.
		_ = s.db.Refresh(ctx)
	}
	return events, nil
}

// abandoned marks the id of a batch that was abandoned before it was written.
const abandoned = ":abandoned"

// Abandon implements recorder.Sink. It stores the id of the batch, so that a transaction that
// is still in progress cannot write the batch later.
func (s *Store) Abandon(ctx context.Context, id string) (written bool, err error) {
	err = s.db.Write(ctx, func(t *db.Tx) error {
		taken, err := t.Exec(addFlushedBatch, id, db.ToMS(t.Now))
		if err != nil {
			return err
		}
		if taken == 0 {
			// Taken by the batch itself, or by an Abandon whose response was lost.
			before, err := t.One(findFlushedBatch, []any{id + abandoned}, new(int64))
			written = !before
			return err
		}
		written = false
		_, err = t.Exec(addFlushedBatch, id+abandoned, db.ToMS(t.Now))
		return err
	})
	return written, err
}

// addCounts adds the rows of a batch to their minutes and, if those have already been added up,
// to their hours and days too.
func (t tx) addCounts(b *offences.Batch) error {
	if err := t.addCountsTo(b, minuteSpan, 1, -1); err != nil {
		return err
	}
	traces := make([][]any, len(b.Samples))
	for i, c := range b.Samples {
		traces[i] = []any{c.Minute, c.Node, b.ID + ":" + strconv.Itoa(i), c.Level, append([]byte{}, c.Points...), append([]byte{}, c.Paths...), append([]byte{}, c.Refused...)} // nil is NULL
	}
	if err := t.Upsert(addTraceChunk, "", traceColumns, traces); err != nil {
		return err
	}
	through, err := t.rollups()
	if err != nil || !late(b, max(db.ToMS(t.Now.Add(-lateAfter)), added(through, hourSpan))) {
		return err
	}
	if _, err := t.Exec(lockRollups); err != nil {
		return err
	}
	if through, err = t.rollups(); err != nil {
		return err
	}
	for _, span := range []int64{hourSpan, daySpan} {
		if err := t.addCountsTo(b, span, spanMS(span), added(through, span)); err != nil {
			return err
		}
	}
	return nil
}

// late reports whether b contains counts from before an instant.
func late(b *offences.Batch, before int64) bool {
	return slices.ContainsFunc(b.Totals, func(t offences.Totals) bool { return t.Minute < before }) ||
		slices.ContainsFunc(b.Offences, func(o offences.Offence) bool { return o.Minute < before }) ||
		slices.ContainsFunc(b.Keys, func(k offences.KeyTraffic) bool { return k.Minute < before }) ||
		slices.ContainsFunc(b.Distinct, func(d offences.DistinctKeys) bool { return d.Minute < before }) ||
		slices.ContainsFunc(b.Breakdowns, func(c breakdown.Chunk) bool { return c.Minute < before })
}

func spanMS(span int64) int64 {
	switch span {
	case hourSpan:
		return time.Hour.Milliseconds()
	case daySpan:
		return 24 * time.Hour.Milliseconds()
	}
	return time.Minute.Milliseconds()
}

// addCountsTo adds the counts from before an instant, or all for -1, to the rows of a span;
// length is the span in milliseconds.
func (t tx) addCountsTo(b *offences.Batch, span, length, before int64) error {
	wanted := func(minute int64) bool { return before < 0 || minute < before }
	start := func(minute int64) int64 { return minute - minute%length }
	var counted, traffic, keyTraffic, distinct, units [][]any
	for _, o := range mergedOffences(b.Offences, wanted, start) {
		row, err := offenceRow(span, o.Minute, &o)
		if err != nil {
			return err
		}
		counted = append(counted, row)
	}
	for _, c := range mergedTotals(b.Totals, wanted, start) {
		traffic = append(traffic, trafficRow(span, c.Minute, &c))
	}
	for _, k := range mergedKeys(b.Keys, wanted, start) {
		keyTraffic = append(keyTraffic, keyTrafficRow(span, k.Minute, &k))
	}
	if err := t.Upsert(addOffences, mergeOffences, offenceColumns, counted); err != nil {
		return err
	}
	if err := t.Upsert(addTraffic, mergeTraffic, trafficColumns, traffic); err != nil {
		return err
	}
	if err := t.Upsert(addKeyTraffic, mergeKeyTraffic, keyTrafficColumns, keyTraffic); err != nil {
		return err
	}
	if err := t.addBreakdowns(b, span, wanted, start); err != nil {
		return err
	}
	if span == hourSpan {
		if err := t.addLateToDays(mergedOffences(b.Offences, wanted, start)); err != nil {
			return err
		}
	}
	if span != minuteSpan {
		if err := t.mergeDistinctInto(b.Distinct, span, wanted, start); err != nil {
			return err
		}
		return t.mark(span, b, wanted, start)
	}
	for _, d := range b.Distinct {
		distinct = append(distinct, []any{span, d.Minute, d.Policy, d.Node, d.Sketch})
		if len(d.Units) > 0 {
			units = append(units, []any{d.Minute, d.Policy, d.Node, d.Units})
		}
	}
	if err := t.Upsert(addUnits, mergeUnits, unitColumns, units); err != nil {
		return err
	}
	if err := t.Upsert(addDistinct, mergeDistinct, distinctColumns, distinct); err != nil {
		return err
	}
	return t.mark(span, b, wanted, start)
}

// merged adds up the values that belong to the same row of a longer span, since one statement
// cannot change a row twice. It keeps the order of their first occurrences.
func merged[T any, K comparable](all []T, wanted func(*T) bool, id func(*T) K, add func(to, more *T)) []T {
	var sums []T
	at := map[K]int{}
	for _, item := range all {
		if !wanted(&item) {
			continue
		}
		k := id(&item)
		if i, known := at[k]; known {
			add(&sums[i], &item)
			continue
		}
		at[k] = len(sums)
		sums = append(sums, item)
	}
	return sums
}

type countID struct {
	start, policy int64
	key           string
	kind          offences.Kind
	refusedBy     string
	source        string
}

func mergedOffences(all []offences.Offence, wanted func(int64) bool, start func(int64) int64) []offences.Offence {
	return merged(all, func(o *offences.Offence) bool { return wanted(o.Minute) }, func(o *offences.Offence) countID {
		o.Minute = start(o.Minute)
		return countID{o.Minute, o.Policy, o.Key, o.Kind, o.RefusedBy, o.Source}
	}, (*offences.Offence).Merge)
}

func mergedTotals(all []offences.Totals, wanted func(int64) bool, start func(int64) int64) []offences.Totals {
	return merged(all, func(c *offences.Totals) bool { return wanted(c.Minute) }, func(c *offences.Totals) countID {
		c.Minute = start(c.Minute)
		return countID{start: c.Minute, policy: c.Policy}
	}, func(to, more *offences.Totals) { to.Add(more.Counts) })
}

func mergedKeys(all []offences.KeyTraffic, wanted func(int64) bool, start func(int64) int64) []offences.KeyTraffic {
	return merged(all, func(k *offences.KeyTraffic) bool { return wanted(k.Minute) }, func(k *offences.KeyTraffic) countID {
		k.Minute = start(k.Minute)
		return countID{start: k.Minute, policy: k.Policy, key: k.Key}
	}, (*offences.KeyTraffic).Merge)
}

const findDistinct = `SELECT sketch FROM distinct_keys WHERE span = $1 AND start = $2 AND policy_id = $3 AND node = ''`

// mergeDistinctInto merges late sketches into those of a longer span.
func (t tx) mergeDistinctInto(all []offences.DistinctKeys, span int64, wanted func(int64) bool, start func(int64) int64) error {
	for _, d := range all {
		if !wanted(d.Minute) {
			continue
		}
		if err := t.addDistinctTo(span, start(d.Minute), d.Policy, d.Sketch); err != nil {
			return err
		}
	}
	return nil
}

// addDistinctTo merges a sketch into that of a longer span.
func (t tx) addDistinctTo(span, start, policy int64, sketch []byte) error {
	var known []byte
	if _, err := t.One(findDistinct, []any{span, start, policy}, &known); err != nil {
		return err
	}
	sum, err := offences.MergeDistinct(known, sketch)
	if err != nil {
		return err
	}
	return t.Upsert(addDistinct, mergeDistinct, distinctColumns, [][]any{{span, start, policy, "", sum}})
}

// rollup is the progress of adding up one span. Rows before through are complete, those before
// gone may be deleted. part is that of hours and of days that are not complete: the counts before
// it are in the rows of both. An earlier release does not move it; it adds up days at once.
type rollup struct{ span, through, gone, part int64 }

// added returns the instant before which the counts are in the rows of a span.
func added(all map[int64]rollup, span int64) int64 { return max(all[span].through, all[hourSpan].part) }

func (t tx) rollups() (map[int64]rollup, error) {
	all, err := db.Each(t.Tx, func(r db.Row) (rollup, error) {
		var u rollup
		return u, r.Scan(&u.span, &u.through, &u.gone, &u.part)
	}, readRollups)
	bySpan := map[int64]rollup{}
	for _, u := range all {
		bySpan[u.span] = u
	}
	return bySpan, err
}
