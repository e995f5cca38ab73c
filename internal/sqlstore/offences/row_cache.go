package offences

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
	"unique"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/sqlstore/offences/memory"
)

// Fast path. Plain version: the queries of ranking.go, report.go and traffic.go, which are used if
// the rows cannot be cached. Benchmarks: BenchmarkWatch, BenchmarkMillion; with a million offences in
// SQLite the overview of a day takes 0.08 s of processor time with it and 0.8 s without.
//
// Rows that pages read repeatedly are kept in memory, by slot: a minute, an hour or a day. Each
// slot has a mark in the database. A transaction that changes rows of a slot also writes a new
// mark. Rows in memory are valid for a transaction that reads the same mark as when they were
// loaded. A restore, and the erasure of a key, writes a mark that is read together with all others.

const (
	// maxCachedRows of offences take about 50 MB, and as many of the traffic of keys 32 MB, each with 80
	// bytes a key: a day of a million offences has 200,000 rows.
	maxCachedRows = 1_000_000
	// maxCachedSlots exceeds the number of minutes in 30 days.
	maxCachedSlots = 50_000

	// findUnmarked finds a batch of a node that writes no marks.
	findUnmarked = `SELECT 1 FROM flushed_batches WHERE marked = 0 LIMIT 1`
	// findForgotten finds the mark that db.Tx.ForgetCounts wrote last.
	findForgotten = `SELECT mark FROM count_marks WHERE span = -1 AND start = 0`
	ofSlots       = ` WHERE span = $1 AND start >= $2 AND start < $3 ORDER BY start`
	selectCached  = `SELECT start, policy_id, kind, refused_by, source, key, offences, overcount, first_at, last_at FROM offences` + ofSlots
	selectTraffic = `SELECT start, policy_id, key, allowed, refused FROM key_traffic` + ofSlots
)

// mark writes a new mark for each slot of a span to which a batch adds.
func (t tx) mark(span int64, b *offences.Batch, wanted func(int64) bool, start func(int64) int64) error {
	var rows [][]any
	seen := map[int64]bool{}
	add := func(minute int64) {
		if at := start(minute); wanted(minute) && !seen[at] {
			seen[at] = true
			rows = append(rows, []any{span, at, b.ID})
		}
	}
	for i := range b.Offences {
		add(b.Offences[i].Minute)
	}
	for i := range b.Keys {
		add(b.Keys[i].Minute)
	}
	// All batches write the marks in the same order, to avoid deadlocks.
	slices.SortFunc(rows, func(a, b []any) int { return cmp.Compare(a[1].(int64), b[1].(int64)) })
	return t.Upsert(addMark, mergeMark, markColumns, rows)
}

// markRollUp writes a new mark for a slot that was added up.
func (t tx) markRollUp(span, start int64) error {
	id, err := db.NewID()
	if err != nil {
		return err
	}
	return t.Upsert(addMark, mergeMark, markColumns, [][]any{{span, start, id}})
}

// rowCache keeps rows of a table in memory. It is safe for concurrent use.
type rowCache[R any] struct {
	rows    *memory.Cache[R]
	loading chan struct{} // contains a value while a caller loads rows
	query   string        // selects the rows of slots, of which the first column is their start
	// scanner returns a function that reads a row, for one query.
	scanner func() func(r db.Row) (start int64, row R, err error)
}

func newOffenceCache(maxRows int) *rowCache[memory.Row] {
	return &rowCache[memory.Row]{memory.NewCache[memory.Row](maxRows), make(chan struct{}, 1), selectCached, func() func(db.Row) (int64, memory.Row, error) {
		groups := map[memory.Group]unique.Handle[memory.Group]{}
		return func(r db.Row) (start int64, row memory.Row, err error) {
			var g memory.Group
			var key string
			err = r.Scan(&start, &g.Policy, &g.Kind, &g.RefusedBy, &g.Source, &key, &row.Offences, &row.Overcount, &row.First, &row.Last)
			row.Key = unique.Make(key)
			handle, known := groups[g]
			if !known {
				handle = unique.Make(g)
				groups[g] = handle
			}
			row.Group = handle
			return start, row, err
		}
	}}
}

func newTrafficCache(maxRows int) *rowCache[memory.KeyTraffic] {
	return &rowCache[memory.KeyTraffic]{memory.NewCache[memory.KeyTraffic](maxRows), make(chan struct{}, 1), selectTraffic, func() func(db.Row) (int64, memory.KeyTraffic, error) {
		return func(r db.Row) (start int64, row memory.KeyTraffic, err error) {
			var key string
			err = r.Scan(&start, &row.Policy, &key, &row.Allowed, &row.Refused)
			row.Key = unique.Make(key)
			return start, row, err
		}
	}}
}

// find returns the rows of segments from memory. ok is false if some are not there.
func (c *rowCache[R]) find(t *db.Tx, segments []segment) (parts []memory.Part[R], ok bool, err error) {
	parts, missing, fits, err := c.lookup(t, slotsOf(segments), segments, map[memory.Slot]string{})
	return parts, fits && len(missing) == 0, err
}

// lookup returns the parts of slots that are in memory and valid for a transaction, and the
// slots that are not. It sets their marks. fits is false if the rows do not fit into memory,
// or if a node leaves no marks.
func (c *rowCache[R]) lookup(t *db.Tx, slots []memory.Slot, segments []segment, marks map[memory.Slot]string) (parts []memory.Part[R], missing []memory.Slot, fits bool, err error) {
	if slots == nil {
		return nil, nil, false, nil
	}
	if unmarked, err := t.One(findUnmarked, nil, new(int64)); err != nil || unmarked {
		return nil, nil, false, err
	}
	if err := in(t).marks(segments, marks); err != nil {
		return nil, nil, false, err
	}
	var forgotten string
	if is, err := t.One(findForgotten, nil, &forgotten); err != nil {
		return nil, nil, false, err
	} else if is {
		for _, slot := range slots {
			marks[slot] = forgotten + marks[slot]
		}
	}
	parts, missing, fits = c.rows.Find(slots, marks)
	return parts, missing, fits, nil
}

// load returns the rows of segments from memory, and reads those from the database that are
// not there yet. ok is false if they do not fit: the caller then queries the database.
func (c *rowCache[R]) load(t *db.Tx, segments []segment) (parts []memory.Part[R], ok bool, err error) {
	slots, marks := slotsOf(segments), map[memory.Slot]string{}
	parts, missing, fits, err := c.lookup(t, slots, segments, marks)
	if err != nil || !fits || len(missing) == 0 {
		return parts, fits, err
	}
	// A page requests the same rows several times at once: one caller loads them for all.
	select {
	case c.loading <- struct{}{}:
		defer func() { <-c.loading }()
	case <-t.Context().Done():
		return nil, false, t.Context().Err()
	}
	if parts, missing, fits = c.rows.Find(slots, marks); !fits {
		return nil, false, nil
	}
	room := c.rows.MaxRows() - len(slots)
	for _, p := range parts {
		room -= len(p.Rows)
	}
	loaded, fits, err := c.selectSlots(t, missing, room)
	if err != nil {
		return nil, false, err
	}
	for _, p := range loaded {
		if fits {
			c.rows.Put(p, marks[p.Slot])
		} else {
			c.rows.PutCount(p.Slot, marks[p.Slot], len(p.Rows))
		}
	}
	return append(parts, loaded...), fits, nil
}

// slotsOf returns the slots of segments, nil if there are too many.
func slotsOf(segments []segment) []memory.Slot {
	slots := make([]memory.Slot, 0, len(segments))
	for _, s := range segments {
		length := spanMS(s.span)
		if (s.to-s.from)/length > maxCachedSlots-int64(len(slots)) {
			return nil
		}
		for start := s.from; start < s.to; start += length {
			slots = append(slots, memory.Slot{Span: s.span, Start: start})
		}
	}
	return slots
}

// marks reads the marks of segments.
func (t tx) marks(segments []segment, all map[memory.Slot]string) error {
	q := &db.Selection{}
	text := union(q, "span, start, mark", "count_marks", segments, "")
	return db.Stream(t.Tx, func(r db.Row) (slot memory.Slot, err error) {
		var mark string
		err = r.Scan(&slot.Span, &slot.Start, &mark)
		all[slot] = mark
		return slot, err
	}, text, q.Args, func(memory.Slot) error { return nil })
}

var errTooMany = errors.New("more rows than fit")

// selectSlots reads the rows of slots. If there are more than maxRows it stops, and returns
// what it has read and fits as false.
func (c *rowCache[R]) selectSlots(t *db.Tx, slots []memory.Slot, maxRows int) (parts []memory.Part[R], fits bool, err error) {
	slices.SortFunc(slots, func(a, b memory.Slot) int { return cmp.Or(cmp.Compare(a.Span, b.Span), cmp.Compare(a.Start, b.Start)) })
	scan := c.scanner()
	for len(slots) > 0 {
		n := 1 // consecutive slots are read together
		for n < len(slots) && slots[n] == (memory.Slot{Span: slots[0].Span, Start: slots[n-1].Start + spanMS(slots[0].Span)}) {
			n++
		}
		first := len(parts)
		for _, slot := range slots[:n] {
			parts = append(parts, memory.Part[R]{Slot: slot})
		}
		length := spanMS(slots[0].Span)
		read, at := 0, first
		err := db.Stream(t, func(r db.Row) (row R, err error) {
			start, row, err := scan(r)
			at = first + int((start-slots[0].Start)/length)
			return row, err
		}, c.query, []any{slots[0].Span, slots[0].Start, slots[n-1].Start + length}, func(row R) error {
			parts[at].Rows = append(parts[at].Rows, row)
			if read++; read > maxRows {
				return errTooMany
			}
			return nil
		})
		if errors.Is(err, errTooMany) {
			return parts[:at+1], false, nil
		}
		if err != nil {
			return nil, false, err
		}
		maxRows -= read
		slots = slots[n:]
	}
	return parts, true, nil
}

// warmSpan is the span that WarmCache loads: the default span of the pages, and the present
// day.
const warmSpan = 24 * time.Hour

// WarmCache loads the offences and the traffic of keys of the last day into memory, so that the first
// page that shows them is as fast as later ones.
func (s *Store) WarmCache(ctx context.Context, now time.Time) error {
	return viewSpan(ctx, s.db, now.Add(-warmSpan), now, 0, func(t *db.Tx, _ offences.Span, segments []segment) error {
		if _, _, err := s.cache.load(t, segments); err != nil {
			return err
		}
		_, _, err := s.traffic.load(t, segments)
		return err
	})
}
