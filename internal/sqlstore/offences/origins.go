package offences

import (
	"context"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/sqlstore/offences/memory"
)

// The database does not know the origin of addresses. For a pattern of an origin, the code here
// filters all addresses.

// selects reports whether a pattern of an origin selects a key. It returns true for other
// patterns, which the database has applied.
func selects(p keys.Pattern, key string) bool {
	if _, is := p.Origin(); !is {
		return true
	}
	k, err := offences.ParseKey(key)
	return err == nil && p.Matches(k)
}

// rankOrigin is Rank for a pattern of an origin.
func (t tx) rankOrigin(ranking *offences.Ranking, r *ranker) error {
	var last int64 // the value of the last row of the page
	err := t.eachRanked(r, func(row offences.Ranked, value int64) error {
		ranking.Keys++
		ranking.Offences += row.Offences
		switch {
		case !r.isBehind(value, row.Key):
		case len(ranking.Rows) < r.limit:
			ranking.Rows = append(ranking.Rows, row)
			last = value
		default:
			ranking.Next = rankCursor{r.query.Sort, ranking.From.UnixMilli(), ranking.To.UnixMilli(), last, ranking.Rows[r.limit-1].Key}.String()
		}
		return nil
	})
	return err
}

// eachRanked calls do with every key that a ranking selects, in order, and the value that ranks
// it.
func (t tx) eachRanked(r *ranker, do func(row offences.Ranked, value int64) error) error {
	if r.sums != nil {
		for i := range r.sums {
			if s := &r.sums[i]; r.keeps(s.Key) {
				if err := do(offences.Ranked{Key: s.Key, Offences: s.Offences}, r.valueOf(s)); err != nil {
					return err
				}
			}
		}
		return nil
	}
	whole := *r
	whole.query.Cursor, whole.limit = "", unlimited
	text, args := whole.statement()
	type ranked struct {
		offences.Ranked
		value int64
	}
	return db.Stream(t.Tx, func(row db.Row) (k ranked, err error) {
		return k, row.Scan(&k.Key, &k.Offences, &k.value)
	}, text, args, func(k ranked) error {
		if !r.keeps(k.Key) {
			return nil
		}
		return do(k.Ranked, k.value)
	})
}

// keeps reports whether the filters that the database cannot apply select a key.
func (r *ranker) keeps(key string) bool {
	return selects(r.query.Pattern, key) && (r.query.Keep == nil || r.query.Keep(key))
}

// EachRanked implements admin.DetectionStore.
func (s *Store) EachRanked(ctx context.Context, query offences.Query, do func(offences.Ranked) error) (span offences.Span, err error) {
	if query.Sort == "" {
		query.Sort = offences.ByOffences
	}
	more, err := rankConditions(query)
	if err != nil {
		return span, err
	}
	err = s.db.View(ctx, func(t *db.Tx) error {
		span, err = rankAll(t, s.cache, query, more, do)
		return err
	})
	return span, err
}

// rankAll is EachRanked in a transaction.
func rankAll(t *db.Tx, cache *rowCache[memory.Row], query offences.Query, more *conditions, do func(offences.Ranked) error) (span offences.Span, err error) {
	rollups, err := in(t).rollups()
	if err != nil {
		return span, err
	}
	r := &ranker{query: query, rollups: rollups, more: more}
	r.span, r.segments = cover(query.From, query.To, 0, rollups)
	parts, isCached, err := cache.load(t, r.segments)
	if err != nil {
		return span, err
	}
	if isCached {
		r.rank(parts)
	}
	return r.span, in(t).eachRanked(r, func(row offences.Ranked, _ int64) error { return do(row) })
}

// seenOrigin is Seen for a pattern of an origin: it filters the keys by their traffic.
func (t tx) seenOrigin(seen *offences.Seen, p keys.Pattern, segments []segment, limit int) error {
	c := &conditions{}
	c.selects(p)
	q := &db.Selection{}
	text := "SELECT key, a, r FROM (SELECT key, CAST(sum(allowed) AS BIGINT) AS a, CAST(sum(refused) AS BIGINT) AS r FROM (" +
		union(q, "key, allowed, refused", "key_traffic", segments, c.text, c.args...) + ") AS counted GROUP BY key) AS seen ORDER BY a + r DESC, key"
	return db.Stream(t.Tx, func(r db.Row) (k offences.SeenKey, err error) {
		return k, r.Scan(&k.Key, &k.Allowed, &k.Refused)
	}, text, q.Args, func(k offences.SeenKey) error {
		if !selects(p, k.Key) {
			return nil
		}
		seen.Keys++
		if k.Refused > 0 {
			seen.Offenders++
		}
		seen.Allowed += k.Allowed
		seen.Refused += k.Refused
		if len(seen.Samples) < limit {
			seen.Samples = append(seen.Samples, k)
		}
		return nil
	})
}
