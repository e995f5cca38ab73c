package offences

import (
	"context"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// NewOffenders implements reports.Counts.
func (s *Store) NewOffenders(ctx context.Context, since, from, to time.Time, limit int) (all []offences.Ranked, n int64, err error) {
	err = s.read(ctx, from, to, 0, func(t *db.Tx, span offences.Span, segments []segment) error {
		n = 0
		c := &conditions{}
		c.and("kind < ? AND key <> ?", int64(offences.Shadow), "")
		q := &db.Selection{}
		text := "WITH counted AS (SELECT key, CAST(sum(offences) AS BIGINT) AS n, min(first_at) AS f, max(last_at) AS l FROM (" +
			union(q, "key, offences, first_at, last_at", "offences", segments, c.text, c.args...) + ") AS rows_of_it GROUP BY key), " +
			"fresh AS (SELECT key, n, f, l FROM counted WHERE NOT EXISTS (SELECT 1 FROM offences AS earlier WHERE earlier.key = counted.key AND " +
			q.Fill("earlier.span IN (1, 2, 3) AND earlier.start >= ? AND earlier.start < ? AND earlier.kind < ?", db.ToMS(since), span.From.UnixMilli(), int64(offences.Shadow)) +
			")) SELECT key, n, f, l, (SELECT count(*) FROM fresh) FROM fresh ORDER BY n DESC, key LIMIT " + strconv.Itoa(max(1, limit))
		all, err = db.Each(t, func(r db.Row) (k offences.Ranked, err error) {
			var first, last int64
			err = r.Scan(&k.Key, &k.Offences, &first, &last, &n)
			k.First, k.Last = db.FromMS(first), db.FromMS(last)
			return k, err
		}, text, q.Args...)
		return err
	})
	return all, n, err
}
