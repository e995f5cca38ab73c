package offences

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/sqlstore/offences/memory"
)

// rankCursor is the end of a page of a ranking. It keeps the span of the first page, so that
// the pages are consistent.
type rankCursor struct {
	sort     offences.Sort
	from, to int64
	value    int64
	key      string
}

// Limits of the values in a cursor, which callers can write: a span of at most the five years
// of a query, rounded to days, before the year 10,000.
const (
	maxCursorSpan = (5*366 + 2) * 24 * 60 * 60 * 1000 // milliseconds
	maxCursorTime = 253402300800000                   // Unix milliseconds
)

func (c rankCursor) String() string {
	return paging.Cursor(string(c.sort), strconv.FormatInt(c.from, 10), strconv.FormatInt(c.to, 10), strconv.FormatInt(c.value, 10), c.key)
}

func parseRankCursor(text string, sort offences.Sort) (c rankCursor, err error) {
	values, err := paging.ParseCursor(text, 5)
	if err != nil {
		return c, err
	}
	if values[0] != string(sort) || db.CheckText("cursor", values[4]) != nil {
		return c, fault.Field("cursor", paging.BadCursor)
	}
	c.sort, c.key = sort, values[4]
	for i, into := range []*int64{&c.from, &c.to, &c.value} {
		if *into, err = strconv.ParseInt(values[i+1], 10, 64); err != nil {
			return c, fault.Field("cursor", paging.BadCursor)
		}
	}
	if c.from < 0 || c.to < c.from || c.to > maxCursorTime || c.to-c.from > maxCursorSpan {
		return c, fault.Field("cursor", paging.BadCursor)
	}
	return c, nil
}

// rankedRow is a row of a ranking with the value that ranks it.
type rankedRow struct {
	offences.Ranked
	value int64
}

// rows reads the rows of a page and the first row after it, and returns the values that rank
// them.
func (r *ranker) rows(t *db.Tx, ranking *offences.Ranking) (values []int64, err error) {
	var read, kept, keptOffences int64
	err = r.each(t, ranking, func(k rankedRow) error {
		read++
		if r.query.Keep != nil {
			if read > offences.MaxKept || !r.query.Keep(k.Key) {
				return nil
			}
			kept++
			keptOffences += k.Offences
			if !r.isBehind(k.value, k.Key) || len(values) > r.limit {
				return nil
			}
		}
		ranking.Rows, values = append(ranking.Rows, k.Ranked), append(values, k.value)
		return nil
	})
	if r.query.Keep != nil {
		ranking.Unread = max(0, ranking.Keys-offences.MaxKept)
		ranking.Keys, ranking.Offences = kept, keptOffences
	}
	return values, err
}

// isBehind reports whether a row comes after the previous page.
func (r *ranker) isBehind(value int64, key string) bool {
	return r.query.Cursor == "" || value < r.at.value || value == r.at.value && key > r.at.key
}

// each calls do with the rows that a page may show, and counts all ranked rows.
func (r *ranker) each(t *db.Tx, ranking *offences.Ranking, do func(rankedRow) error) error {
	if r.sums == nil {
		text, args := r.statement()
		return db.Stream(t, func(from db.Row) (k rankedRow, err error) {
			return k, from.Scan(&k.Key, &k.Offences, &k.value, &ranking.Keys, &ranking.Offences)
		}, text, args, do)
	}
	ranking.Keys = int64(len(r.sums))
	given := 0
	for i := range r.sums {
		s := &r.sums[i]
		ranking.Offences += s.Offences
		value := r.valueOf(s)
		if r.query.Keep == nil && (given > r.limit || !r.isBehind(value, s.Key)) {
			continue
		}
		given++
		if err := do(rankedRow{offences.Ranked{Key: s.Key, Offences: s.Offences}, value}); err != nil {
			return err
		}
	}
	return nil
}

// valueOf returns the value that ranks a key.
func (r *ranker) valueOf(s *memory.Sum) int64 {
	switch r.query.Sort {
	case offences.ByLast:
		return s.Last
	case offences.ByFirst:
		return s.First
	case offences.ByKey:
		return 0
	}
	return s.Offences
}

// rank ranks all keys of the parts in memory.
func (r *ranker) rank(parts []memory.Part[memory.Row]) {
	least := max(1, r.query.MinOffences)
	r.sort(slices.DeleteFunc(memory.ByKey(parts, filterOf(r.query)), func(s memory.Sum) bool { return s.Offences < least }))
}

// sort sets the ranked sums, in order.
func (r *ranker) sort(sums []memory.Sum) {
	if r.sums = sums; sums == nil {
		r.sums = []memory.Sum{}
	}
	order := func(a, b memory.Sum) int {
		if c := cmp.Compare(r.valueOf(&b), r.valueOf(&a)); c != 0 {
			return c
		}
		return cmp.Compare(a.Key, b.Key)
	}
	if _, isOrigin := r.query.Pattern.Origin(); r.limit <= 0 || isOrigin || r.query.Keep != nil || r.query.Cursor != "" {
		slices.SortFunc(r.sums, order)
		return
	}
	sortFirst(r.sums, r.limit+1, order)
}

// sortFirst puts the first n rows in order, which are all that a page needs.
func sortFirst[T any](rows []T, n int, order func(a, b T) int) {
	page := min(len(rows), n)
	slices.SortFunc(rows[:page], order)
	for i := page; i < len(rows); i++ {
		if order(rows[i], rows[page-1]) < 0 {
			rows[i], rows[page-1] = rows[page-1], rows[i]
			for at := page - 1; at > 0 && order(rows[at], rows[at-1]) < 0; at-- {
				rows[at], rows[at-1] = rows[at-1], rows[at]
			}
		}
	}
}

// fill fills in the details of the rows of a page, and the offences that lost their key.
func (r *ranker) fill(ranking *offences.Ranking, parts []memory.Part[memory.Row]) {
	at := make(map[string]*offences.Ranked, len(ranking.Rows))
	for i := range ranking.Rows {
		at[ranking.Rows[i].Key] = &ranking.Rows[i]
	}
	for i := range r.sums {
		if row, is := at[r.sums[i].Key]; is {
			row.Overcount = r.sums[i].Overcount
			row.First, row.Last = db.FromMS(r.sums[i].First), db.FromMS(r.sums[i].Last)
		}
	}
	other := memory.WithoutKey(parts, r.query.Policy, r.query.Shadow)
	ranking.Other, ranking.OtherOvercount = other.Offences, other.Overcount
}

// filterOf returns the filter of a query for rows in memory; rankConditions is the same for the
// database.
func filterOf(query offences.Query) memory.Filter {
	return memory.Filter{Shadow: query.Shadow, Policy: query.Policy, Source: query.Source, Rule: query.Rule, NotRule: query.NotRule,
		Key: keyFilter(query.Search, query.Pattern)}
}

// keyFilter returns whether a key contains a text and is selected by a pattern, nil for all keys.
func keyFilter(search string, p keys.Pattern) func(key string) bool {
	search = db.Fold(search)
	pattern := patternSelects(p)
	if search == "" && pattern == nil {
		return nil
	}
	return func(key string) bool {
		return (pattern == nil || pattern(key)) && (search == "" || strings.Contains(db.Fold(key), search))
	}
}

// patternSelects is conditions.selects for rows in memory, nil if it selects all.
func patternSelects(p keys.Pattern) func(key string) bool {
	switch p.Kind() {
	case keys.Exact:
		literal := p.Literal()
		return func(key string) bool { return key == literal }
	case keys.Prefix:
		literal := p.Literal()
		return func(key string) bool { return strings.HasPrefix(key, literal) }
	case keys.FromOrigin:
		return func(key string) bool { return strings.HasPrefix(key, "ip:") }
	case keys.Network:
		low, high := db.NetworkBounds(p)
		network, _ := p.Network()
		is6 := network.Addr().Is6()
		return func(key string) bool {
			place := placeOf(key)
			return place != nil && bytes.Compare(place, low) >= 0 && bytes.Compare(place, high) <= 0 &&
				!(is6 && bytes.Compare(place, db.MappedLow) >= 0 && bytes.Compare(place, db.MappedHigh) <= 0)
		}
	}
	return nil
}

// NewOffenders implements reports.Counts.
func (s *Store) NewOffenders(ctx context.Context, since, from, to time.Time, limit int) (all []offences.Ranked, n int64, err error) {
	err = viewSpan(ctx, s.db, from, to, 0, func(t *db.Tx, span offences.Span, segments []segment) error {
		n = 0
		var is bool
		if all, n, is, err = newOffenders(s.cache, t, since, span, segments, max(1, limit)); err != nil || is {
			return err
		}
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

// newOffenders is NewOffenders for rows that are in memory.
func newOffenders(c *rowCache[memory.Row], t *db.Tx, since time.Time, span offences.Span, segments []segment, limit int) (all []offences.Ranked, n int64, is bool, err error) {
	rows, is, err := c.load(t, segments)
	if err != nil || !is {
		return nil, 0, false, err
	}
	rollups, err := in(t).rollups()
	if err != nil {
		return nil, 0, false, err
	}
	_, before := cover(since, span.From, 0, rollups)
	earlier, is, err := c.load(t, before)
	if err != nil || !is {
		return nil, 0, false, err
	}
	r := &ranker{query: offences.Query{Sort: offences.ByOffences}, limit: limit}
	r.sort(memory.New(memory.ByKey(rows, memory.Filter{}), earlier))
	for _, sum := range r.sums[:min(len(r.sums), limit)] {
		all = append(all, offences.Ranked{Key: sum.Key, Offences: sum.Offences, First: db.FromMS(sum.First), Last: db.FromMS(sum.Last)})
	}
	return all, int64(len(r.sums)), true, nil
}
