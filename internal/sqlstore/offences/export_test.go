package offences

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/sqlstore/offences/memory"
)

// RankStatement returns the query that Rank sends, for tests of its plan.
func RankStatement(s *Store, ctx context.Context, query offences.Query) (text string, args []any, err error) {
	query.Sort = offences.ByOffences
	more, err := rankConditions(query)
	if err != nil {
		return "", nil, err
	}
	err = s.db.View(ctx, func(t *db.Tx) error {
		rollups, err := in(t).rollups()
		if err != nil {
			return err
		}
		span, segments := cover(query.From, query.To, 0, rollups)
		text, args = (&ranker{query: query, limit: 100, span: span, segments: segments, rollups: rollups, more: more}).statement()
		return nil
	})
	return text, args, err
}

// PlanOfBlockEnds returns how SQLite finds the ends of blocks of others.
func PlanOfBlockEnds(s *Store, ctx context.Context) (plan []string, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		plan, err = db.Each(t, func(r db.Row) (step string, err error) { return step, r.Scan(new(int), new(int), new(int), &step) },
			"EXPLAIN QUERY PLAN "+newestEnds, `[["ip:203.0.113.7", ""]]`, db.ToMS(t.Now), 0)
		return err
	})
	return plan, err
}

// PlanOfDeletion returns how SQLite finds a part of the old rows of keys in a day.
func PlanOfDeletion(s *Store, ctx context.Context) (plan []string, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		plan, err = db.Each(t, func(r db.Row) (step string, err error) { return step, r.Scan(new(int), new(int), new(int), &step) },
			"EXPLAIN QUERY PLAN "+deletePart("offences", "span = 3 AND ", countTables[0].after), 1, 7, []byte{0}, 0, "1/1s", "")
		return err
	})
	return plan, err
}

// Memory counts the parts of a span that a store would read from memory, and those that it
// would not.
func Memory(s *Store, ctx context.Context, from, to time.Time) (cached, missing int, err error) {
	err = viewSpan(ctx, s.db, from, to, 0, func(t *db.Tx, _ offences.Span, segments []segment) error {
		found, lacking, _, err := s.cache.lookup(t, slotsOf(segments), segments, map[memory.Slot]string{})
		cached, missing = len(found), len(lacking)
		return err
	})
	return cached, missing, err
}

// ForgetMemory has a store keep at most so many rows in memory, and none yet.
func ForgetMemory(s *Store, maxRows int) {
	s.cache, s.traffic = newOffenceCache(maxRows), newTrafficCache(maxRows)
}
