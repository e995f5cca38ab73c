package offences

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/sqlstore/offences/memory"
)

const trafficSums = `CAST(sum(allowed) AS BIGINT), CAST(sum(limited) AS BIGINT), CAST(sum(blocked) AS BIGINT), CAST(sum(challenged) AS BIGINT), CAST(sum(unavailable) AS BIGINT),
    CAST(sum(shadow_allowed) AS BIGINT), CAST(sum(shadow_limited) AS BIGINT), CAST(sum(cost_allowed) AS BIGINT), CAST(sum(untracked) AS BIGINT)`

const trafficAmounts = `start, allowed, limited, blocked, challenged, unavailable, shadow_allowed, shadow_limited, cost_allowed, untracked`

// Traffic implements admin.DetectionStore.
func (s *Store) Traffic(ctx context.Context, policy int64, from, to time.Time, step time.Duration) (offences.TrafficSeries, error) {
	return readTraffic(ctx, s, policy, from, to, step, true)
}

// TrafficCounts implements admin.DetectionStore.
func (s *Store) TrafficCounts(ctx context.Context, policy int64, from, to time.Time, step time.Duration) (offences.TrafficSeries, error) {
	return readTraffic(ctx, s, policy, from, to, step, false)
}

func readTraffic(ctx context.Context, s *Store, policy int64, from, to time.Time, step time.Duration, withKeys bool) (series offences.TrafficSeries, err error) {
	longest := dividing(step)
	if step <= 0 {
		longest, step = 0, wholeSpan
	}
	err = viewSpan(ctx, s.db, from, to, longest, func(t *db.Tx, span offences.Span, segments []segment) error {
		c := &conditions{}
		if policy != 0 {
			c.and("policy_id = ?", policy)
		}
		series = offences.TrafficSeries{Span: span, Step: step}
		if row := longestRow(segments); row > 0 && step%row != 0 {
			series.Step += row - step%row
		}
		low, width := series.First().UnixMilli(), max(1, series.Step.Milliseconds())
		q := &db.Selection{}
		point := q.Fill("(start - ?) / ?", low, width)
		text := "SELECT point, " + trafficSums + " FROM (SELECT " + point + " AS point, counted.* FROM (" +
			union(q, trafficAmounts, "traffic", segments, c.text, c.args...) + ") AS counted) AS placed GROUP BY point ORDER BY point"
		series.Points, err = db.Each(t, func(r db.Row) (p offences.TrafficPoint, err error) {
			var n int64
			err = r.Scan(&n, &p.Allowed, &p.Limited, &p.Blocked, &p.Challenged, &p.Unavailable, &p.ShadowAllowed, &p.ShadowLimited, &p.CostAllowed, &p.Untracked)
			p.At = time.UnixMilli(low + n*width).UTC()
			return p, err
		}, text, q.Args...)
		if err != nil || !withKeys {
			return err
		}
		return in(t).distinctOfPoints(series.Points, policy, low, width, segments)
	})
	return series, err
}

// wholeSpan is longer than any span.
const wholeSpan = 100 * 365 * 24 * time.Hour

// dividing returns the length of the longest rows that divide a step evenly.
func dividing(step time.Duration) time.Duration {
	for _, length := range []time.Duration{24 * time.Hour, time.Hour} {
		if step%length == 0 {
			return length
		}
	}
	return time.Minute
}

// distinctOfPoints fills in the estimated number of keys of each point.
func (t tx) distinctOfPoints(points []offences.TrafficPoint, policy, low, width int64, segments []segment) error {
	sketches := map[int64][][]byte{}
	err := t.sketches(policy, segments, func(start int64, sketch []byte) {
		n := (start - low) / width
		sketches[n] = append(sketches[n], sketch)
	})
	if err != nil {
		return err
	}
	for i := range points {
		n := (points[i].At.UnixMilli() - low) / width
		if points[i].Keys, err = offences.CountDistinct(sketches[n]); err != nil {
			return err
		}
	}
	return nil
}

func (t tx) sketches(policy int64, segments []segment, do func(start int64, sketch []byte)) error {
	c := &conditions{}
	if policy != 0 {
		c.and("policy_id = ?", policy)
	}
	q := &db.Selection{}
	return db.Stream(t.Tx, func(r db.Row) (start int64, err error) {
		var sketch []byte
		err = r.Scan(&start, &sketch)
		do(start, sketch)
		return start, err
	}, union(q, "start, sketch", "distinct_keys", segments, c.text, c.args...), q.Args, func(int64) error { return nil })
}

// DistinctKeys implements admin.DetectionStore.
func (s *Store) DistinctKeys(ctx context.Context, policy int64, from, to time.Time) (n int64, err error) {
	err = viewSpan(ctx, s.db, from, to, 0, func(t *db.Tx, _ offences.Span, segments []segment) error {
		var all [][]byte
		err := in(t).sketches(policy, segments, func(_ int64, sketch []byte) { all = append(all, sketch) })
		if err == nil {
			n, err = offences.CountDistinct(all)
		}
		return err
	})
	return n, err
}

// Seen implements admin.DetectionStore.
func (s *Store) Seen(ctx context.Context, p keys.Pattern, from, to time.Time, limit int) (seen offences.Seen, err error) {
	err = viewSpan(ctx, s.db, from, to, 0, func(t *db.Tx, span offences.Span, segments []segment) error {
		seen = offences.Seen{SpanFrom: span.From, SpanTill: span.To}
		if _, is := p.Origin(); is {
			if err := in(t).seenOrigin(&seen, p, segments, max(1, limit)); err != nil {
				return err
			}
			return in(t).seenByAll(&seen, segments)
		}
		c := &conditions{}
		c.selects(p)
		table := "key_traffic"
		if p.Kind() == keys.Exact {
			table += db.Using(t, "key_traffic_key")
		}
		q := &db.Selection{}
		text := "WITH seen AS (SELECT key, CAST(sum(allowed) AS BIGINT) AS a, CAST(sum(refused) AS BIGINT) AS r FROM (" +
			union(q, "key, allowed, refused", table, segments, c.text, c.args...) + ") AS counted GROUP BY key) " +
			"SELECT key, a, r, (SELECT count(*) FROM seen), (SELECT count(*) FROM seen WHERE r > 0), " +
			"(SELECT CAST(sum(a) AS BIGINT) FROM seen), (SELECT CAST(sum(r) AS BIGINT) FROM seen) FROM seen " +
			"ORDER BY a + r DESC, key LIMIT " + strconv.Itoa(max(1, limit))
		seen.Samples, err = db.Each(t, func(r db.Row) (k offences.SeenKey, err error) {
			return k, r.Scan(&k.Key, &k.Allowed, &k.Refused, &seen.Keys, &seen.Offenders, &seen.Allowed, &seen.Refused)
		}, text, q.Args...)
		if err != nil {
			return err
		}
		return in(t).seenByAll(&seen, segments)
	})
	return seen, err
}

// byRequests is the order of ActiveKeys in its cursors.
const byRequests offences.Sort = "requests"

// ActiveKeys implements admin.DetectionStore.
func (s *Store) ActiveKeys(ctx context.Context, query offences.ActiveQuery) (active offences.ActiveKeys, err error) {
	limit, err := paging.Limit(query.Limit)
	if err != nil {
		return active, err
	}
	var at rankCursor
	if query.Cursor != "" {
		if at, err = parseRankCursor(query.Cursor, byRequests); err != nil {
			return active, err
		}
		query.From, query.To = time.UnixMilli(at.from), time.UnixMilli(at.to)
	}
	err = viewSpan(ctx, s.db, query.From, query.To, 0, func(t *db.Tx, span offences.Span, segments []segment) error {
		active = offences.ActiveKeys{Span: span}
		var seen offences.Seen
		if err := in(t).seenByAll(&seen, segments); err != nil {
			return err
		}
		active.Untracked = seen.Untracked
		parts, isCached, err := s.traffic.load(t, segments)
		if err != nil {
			return err
		}
		if isCached {
			sums := memory.Active(parts, memory.ActiveFilter{Policy: query.Policy, NeverRefused: query.NeverRefused, Key: keyFilter(query.Search, query.Pattern)})
			active.Keys = int64(len(sums))
			active.Rows = firstActive(sums, query.Cursor != "", at, limit+1)
		} else if err := in(t).selectActive(&active, query, at, limit+1, segments); err != nil {
			return err
		}
		active.Rows, active.Next = db.CutPage(active.Rows, limit, func(last offences.ActiveKey) string {
			return rankCursor{byRequests, span.From.UnixMilli(), span.To.UnixMilli(), last.Checks(), last.Key}.String()
		})
		return nil
	})
	return active, err
}

// firstActive returns the first n keys in order, after those of a cursor if there is one.
func firstActive(sums []offences.ActiveKey, isAfter bool, at rankCursor, n int) []offences.ActiveKey {
	if isAfter {
		sums = slices.DeleteFunc(sums, func(k offences.ActiveKey) bool {
			return k.Checks() > at.value || k.Checks() == at.value && k.Key <= at.key
		})
	}
	sortFirst(sums, n, func(a, b offences.ActiveKey) int {
		return cmp.Or(cmp.Compare(b.Checks(), a.Checks()), cmp.Compare(a.Key, b.Key))
	})
	return slices.Clone(sums[:min(len(sums), n)])
}

// selectActive is firstActive of what the database adds up, with the number of all keys. The refused
// checks are all in Limited until the use case knows which were blocked.
func (t tx) selectActive(active *offences.ActiveKeys, query offences.ActiveQuery, at rankCursor, n int, segments []segment) (err error) {
	c := &conditions{}
	c.selects(query.Pattern)
	if query.Policy != 0 {
		c.and("policy_id = ?", query.Policy)
	}
	if query.Search != "" {
		c.and(`lower(key) LIKE ? ESCAPE '\'`, db.LikeContaining(query.Search))
	}
	having := ""
	if query.NeverRefused {
		having = " HAVING sum(refused) = 0"
	}
	q := &db.Selection{}
	text := "WITH checked AS (SELECT key, CAST(sum(allowed) AS BIGINT) AS a, CAST(sum(refused) AS BIGINT) AS r FROM (" +
		union(q, "key, allowed, refused", "key_traffic", segments, c.text, c.args...) + ") AS counted GROUP BY key" + having + ") " +
		"SELECT key, a, r, (SELECT count(*) FROM checked) FROM checked"
	if query.Cursor != "" {
		text += q.Fill(" WHERE a + r < ? OR (a + r = ? AND key > ?)", at.value, at.value, at.key)
	}
	text += " ORDER BY a + r DESC, key LIMIT " + strconv.Itoa(n)
	active.Rows, err = db.Each(t.Tx, func(r db.Row) (k offences.ActiveKey, err error) {
		return k, r.Scan(&k.Key, &k.Allowed, &k.Limited, &active.Keys)
	}, text, q.Args...)
	return err
}

// seenByAll fills in the traffic of all keys together.
func (t tx) seenByAll(seen *offences.Seen, segments []segment) error {
	q := &db.Selection{}
	text := "SELECT COALESCE(CAST(sum(allowed) AS BIGINT), 0), COALESCE(CAST(sum(limited + blocked) AS BIGINT), 0), " +
		"COALESCE(CAST(sum(untracked) AS BIGINT), 0) FROM (" +
		union(q, "allowed, limited, blocked, untracked", "traffic", segments, "") + ") AS counted"
	_, err := t.One(text, q.Args, &seen.AllAllowed, &seen.AllRefused, &seen.Untracked)
	return err
}
