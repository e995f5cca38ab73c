package offences_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	sqloffences "github.com/stint-dev/stint/internal/sqlstore/offences"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

func TestRankKeepsOnlySelectedKeys(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		for i := range 9 {
			n.limited("k:"+strconv.Itoa(i), 10-i/3) // three keys of each count
		}
		n.flush()
		q := offences.Query{From: f.Clock.Now().Add(-time.Hour), To: f.Clock.Now().Add(time.Minute), Limit: 2}
		for sort, want := range map[offences.Sort]string{offences.ByOffences: "[k:0 k:2 k:4 k:6 k:8]", offences.ByKey: "[k:0 k:2 k:4 k:6 k:8]"} {
			var got []string
			q.Sort, q.Cursor = sort, ""
			for range 3 {
				asked := 0
				q.Keep = func(key string) bool {
					asked++
					return (key[2]-'0')%2 == 0
				}
				r, err := f.Offences.Rank(t.Context(), q)
				if err != nil || asked != 9 || r.Keys != 5 || r.Offences != 10+10+9+8+8 || r.Unread != 0 {
					t.Fatalf("by %s: Keep was called %d times, want 9; got %+v, %v", sort, asked, r, err)
				}
				for _, row := range r.Rows {
					got = append(got, row.Key)
				}
				q.Cursor = r.Next
			}
			if fmt.Sprint(got) != want || q.Cursor != "" {
				t.Errorf("by %s: got %v, want %s", sort, got, want)
			}
		}
	})
}

func TestRankIsExactOverMinutesHoursAndDays(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		truth := map[int64]map[string]int64{}
		start := f.Clock.Now()
		random := rand.New(rand.NewPCG(1, 2))
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		for range 200 {
			minute := f.Clock.Now().Truncate(time.Minute).UnixMilli()
			if truth[minute] == nil {
				truth[minute] = map[string]int64{}
			}
			for range 5 {
				key := "k:" + strconv.Itoa(random.IntN(12))
				times := 1 + random.IntN(4)
				n.limited(key, times)
				truth[minute][key] += int64(times)
			}
			n.flush()
			f.Clock.Advance(time.Duration(1+random.IntN(40)) * time.Minute)
		}
		check := func(when string) {
			t.Helper()
			for range 30 {
				from := start.Add(time.Duration(random.IntN(60*60)) * time.Minute)
				to := from.Add(time.Duration(1+random.IntN(60*48)) * time.Minute)
				want := map[string]int64{}
				for minute, all := range truth {
					if minute >= from.UnixMilli() && minute < to.UnixMilli() {
						for key, times := range all {
							want[key] += times
						}
					}
				}
				got := ranked(t, f.Store, offences.Query{From: from, To: to, Limit: 1000})
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%s, from %s to %s: got %v, want %v", when, from, to, got, want)
				}
			}
		}
		check("before any roll-up")
		middle := start.Add(30 * time.Hour)
		if done, err := f.Offences.RollUp(t.Context(), middle); err != nil || done < 29 {
			t.Fatalf("rolled up %d, want at least 29; %v", done, err)
		}
		check("with some hours rolled up")
		if _, err := f.Offences.RollUp(t.Context(), f.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		check("with all hours and days rolled up")
		// A node that was disconnected flushes old counts.
		late := &offences.Batch{ID: "late"}
		for minute := range truth {
			late.Offences = append(late.Offences, offences.Offence{Minute: minute, Policy: 7, Key: "k:0", RefusedBy: "20/1m", Count: 2,
				MAC: offences.NewRefusalIDMaker(offenceSecret).MAC(7, "k:0")})
			truth[minute]["k:0"] += 2
		}
		if _, err := f.Offences.Flush(t.Context(), late, offences.Evaluation{Now: f.Clock.Now()}); err != nil {
			t.Fatal(err)
		}
		check("after late counts")
		if again, err := f.Offences.RollUp(t.Context(), f.Clock.Now()); err != nil || again != 0 {
			t.Errorf("rolled up %d again, want 0; %v", again, err)
		}
	})
}

func TestRankPagesFiltersAndSorts(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		for i := range 25 {
			n.limited(fmt.Sprintf("ip:198.51.100.%d", i), 1+i%5)
		}
		n.limited(`token:<b>%_\x`, 9)
		n.limited("ip:2001:db8:1::1", 2)
		n.flush()
		q := offences.Query{From: f.Clock.Now(), To: f.Clock.Now().Add(time.Minute), Limit: 10}
		var order []string
		for {
			r, err := f.Offences.Rank(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if r.Keys != 27 || r.Offences != 25*3+9+2 {
				t.Errorf("got %d keys and %d offences in total", r.Keys, r.Offences)
			}
			for _, row := range r.Rows {
				order = append(order, row.Key)
			}
			if q.Cursor = r.Next; q.Cursor == "" {
				break
			}
		}
		slices.Sort(order)
		if len(slices.Compact(order)) != 27 {
			t.Errorf("the pages have %d keys, want 27 different ones: %v", len(order), order)
		}
		for name, c := range map[string]struct {
			query offences.Query
			want  int64
		}{
			"by a network":        {offences.Query{Pattern: keytest.Pattern(t, "ip:198.51.100.0/28")}, 16},
			"by an IPv6 network":  {offences.Query{Pattern: keytest.Pattern(t, "ip:2001:db8::/32")}, 1},
			"by a prefix":         {offences.Query{Pattern: keytest.Pattern(t, "token:*")}, 1},
			"by a part of a key":  {offences.Query{Search: `%_\`}, 1},
			"by a source":         {offences.Query{Source: "edge-1"}, 27},
			"by another source":   {offences.Query{Source: "edge-2"}, 0},
			"by a rule":           {offences.Query{Rule: "20/1m"}, 27},
			"by all but one rule": {offences.Query{NotRule: "20/1m"}, 0},
			"by policy":           {offences.Query{Policy: 7}, 27},
			"by another policy":   {offences.Query{Policy: 8}, 0},
			"by minimum offences": {offences.Query{MinOffences: 5}, 6},
			"sorted by the last":  {offences.Query{Sort: offences.ByLast}, 27},
			"sorted by the first": {offences.Query{Sort: offences.ByFirst}, 27},
			"sorted by key":       {offences.Query{Sort: offences.ByKey}, 27},
			"by shadow policies":  {offences.Query{Shadow: true}, 0},
		} {
			c.query.From, c.query.To = f.Clock.Now(), f.Clock.Now().Add(time.Minute)
			r, err := f.Offences.Rank(t.Context(), c.query)
			if err != nil || int64(len(r.Rows)) != c.want {
				t.Errorf("%s: %d rows, want %d, %v", name, len(r.Rows), c.want, err)
			}
		}
		for _, text := range []string{
			"bad", "offences 0 1 2", "last 0 60000 1 a", // of another list
			"offences -60000 60000 100 a", "offences 60000 0 100 a", "offences -9223372036854775000 4102444800000 100 a",
			"offences 0 4102444800000 100 a", "offences 9223372036854700000 9223372036854775807 100 a", // a time range or time that no query has
		} {
			cursor := base64.RawURLEncoding.EncodeToString([]byte(text))
			if _, err := f.Offences.Rank(t.Context(), offences.Query{Cursor: cursor}); !fault.Is(err, fault.Invalid) {
				t.Errorf("the cursor %q: got %v, want Invalid", text, err)
			}
		}
	})
}

// TestMemoryAnswersMatchDatabase makes the same queries to two stores on one database while
// batches are flushed, late ones too, and hours and days are rolled up and deleted: one store
// answers from memory, the other caches no rows.
func TestMemoryAnswersMatchDatabase(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		random := rand.New(rand.NewPCG(3, 4))
		plain, writer := f.Another(t).Offences, f.Another(t).Offences
		sqloffences.ForgetMemory(plain, 0)
		start := f.Clock.Now().Truncate(time.Minute)
		pattern := func(text string) keys.Pattern { return keytest.Pattern(t, text) }
		patterns := []keys.Pattern{{}, {}, {}, pattern("ip:198.51.100.3"), pattern("ip:198.51.100.0/29"), pattern("ip:2001:db8::/33"), pattern("token:*"), pattern("ip:*")}
		one := func(of ...string) string { return of[random.IntN(len(of))] }
		key := func() string {
			n := random.IntN(12)
			return one("", fmt.Sprintf("ip:198.51.100.%d", n), fmt.Sprintf("ip:2001:db8:%d::/64", n<<12), fmt.Sprintf("token:%c", 'A'+n), fmt.Sprintf("k:%d", n))
		}
		flush := func(to time.Time) {
			b := &offences.Batch{ID: strconv.FormatUint(random.Uint64(), 36), Node: "b"}
			for range random.IntN(8) {
				k := offences.KeyTraffic{Minute: to.Add(-time.Duration(random.IntN(3)) * time.Minute).Truncate(time.Minute).UnixMilli(), Policy: 1 + random.Int64N(2), Key: key(),
					Allowed: random.Int64N(9), Refused: max(0, random.Int64N(9)-4)}
				if k.Key != "" && !slices.ContainsFunc(b.Keys, func(p offences.KeyTraffic) bool {
					return p.Minute == k.Minute && p.Policy == k.Policy && p.Key == k.Key
				}) {
					b.Keys = append(b.Keys, k)
				}
			}
			for range random.IntN(8) { // none, too: a batch may have keys only
				at := to.Add(-time.Duration(random.IntN(3)) * time.Minute).Truncate(time.Minute).UnixMilli()
				first := at + random.Int64N(30_000)
				o := offences.Offence{Minute: at, Policy: 1 + random.Int64N(2), Key: key(), Kind: offences.Kind(random.IntN(offences.KindCount)), RefusedBy: one("1/1s", "20/1m"),
					Source: one("", "edge-1"), Count: 1 + random.Int64N(9), Overcount: random.Int64N(3), First: offences.Refusal{At: first}, Last: offences.Refusal{At: first + 9_000}}
				if o.Key != "" {
					o.MAC = offences.NewRefusalIDMaker(offenceSecret).MAC(o.Policy, o.Key)
				}
				if !slices.ContainsFunc(b.Offences, func(p offences.Offence) bool {
					return p.Minute == o.Minute && p.Policy == o.Policy && p.Key == o.Key && p.Kind == o.Kind && p.RefusedBy == o.RefusedBy && p.Source == o.Source
				}) {
					b.Offences = append(b.Offences, o)
				}
			}
			b.Totals = []offences.Totals{{Minute: to.Truncate(time.Minute).UnixMilli(), Policy: 1, Counts: offences.Counts{Allowed: 3, Untracked: random.Int64N(2)}}}
			if _, err := writer.Flush(t.Context(), b, offences.Evaluation{Now: f.Clock.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		fromMemory := 0
		compare := func() {
			t.Helper()
			passed := f.Clock.Now().Sub(start)
			from := start.Add(time.Duration(random.Int64N(int64(passed)))).Truncate(time.Minute)
			to := from.Add(time.Duration(random.Int64N(int64(passed)))).Truncate(time.Minute).Add(time.Minute)
			q := offences.Query{From: from, To: to, Policy: random.Int64N(3), Pattern: patterns[random.IntN(len(patterns))], Source: one("", "", "edge-1"), Search: one("", "", "TOKEN:b", "1"),
				Rule: one("", "", "20/1m"), NotRule: one("", "", "1/1s"), MinOffences: random.Int64N(6), Shadow: random.IntN(3) == 0, Limit: 1 + random.IntN(9),
				Sort: offences.Sort(one("", "last", "first", "key", "offences"))}
			if random.IntN(3) == 0 {
				q.Keep = func(key string) bool { return key[len(key)-1]%2 == 0 }
			}
			answers := func(s *sqloffences.Store) (all []any) {
				add := func(answer any, err error) {
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, answer)
				}
				page := q
				var named []string
				var rows, paged []offences.Ranked
				for more := true; more; more = page.Cursor != "" {
					r, err := s.Rank(t.Context(), page)
					add(r, err)
					rows = append(rows, r.Rows...)
					for _, row := range r.Rows {
						named = append(named, row.Key)
					}
					page.Cursor = r.Next
				}
				span := offences.Span{From: from, To: to}
				details, reading, err := s.Details(t.Context(), q, named, span, 8)
				add(fmt.Sprint(details, reading), err)
				for cursor, more := "", true; more; more = cursor != "" {
					a, err := s.ActiveKeys(t.Context(), offences.ActiveQuery{From: from, To: to, Policy: q.Policy, Pattern: q.Pattern, Search: q.Search, NeverRefused: q.Shadow, Limit: q.Limit, Cursor: cursor})
					add(a, err)
					cursor = a.Next
				}
				rules, err := s.RuleTotals(t.Context(), span)
				add(rules, err)
				fresh, n, err := s.NewOffenders(t.Context(), start.Truncate(24*time.Hour), from.Truncate(24*time.Hour), to, 4) // as reports ask
				add(fmt.Sprint(len(fresh), fresh, n), err)
				var each []offences.Ranked
				read, err := s.EachRanked(t.Context(), q, func(r offences.Ranked) error { each = append(each, r); return nil })
				add(read, err)
				add(each, nil)
				err = s.EachRankedPage(t.Context(), q, func(r offences.Ranking) error { paged = append(paged, r.Rows...); return nil })
				if add(len(paged), err); fmt.Sprint(paged) != fmt.Sprint(rows) {
					t.Fatalf("all pages of %+v:\n%v\npage by page\n%v", q, paged, rows)
				}
				return all
			}
			got, want := answers(f.Offences), answers(plain)
			for i := range want {
				if fmt.Sprintf("%+v", got[i]) != fmt.Sprintf("%+v", want[i]) {
					t.Fatalf("answer %d to %+v:\n%+v\nfrom the database\n%+v", i, q, got[i], want[i])
				}
			}
			cached, missing, err := sqloffences.Memory(f.Offences, t.Context(), from, to)
			if err != nil {
				t.Fatal(err)
			}
			if missing == 0 {
				fromMemory += cached
			}
		}
		for i := range 60 {
			f.Clock.Advance(time.Duration(1+random.IntN(90)) * time.Minute)
			flush(f.Clock.Now())
			switch {
			case i%7 == 3: // a node that was disconnected flushes old counts
				flush(start.Add(time.Duration(random.Int64N(int64(f.Clock.Now().Sub(start))))))
			case i%10 == 9:
				if _, err := writer.RollUp(t.Context(), f.Clock.Now()); err != nil {
					t.Fatal(err)
				}
			case i%20 == 15:
				if _, err := writer.DeleteOlder(t.Context(), f.Clock.Now(), offences.Retention{Minutes: 12 * time.Hour}, nil); err != nil {
					t.Fatal(err)
				}
			}
			compare()
		}
		if fromMemory == 0 {
			t.Error("nothing was answered from memory")
		}
		// While a node of the previous release writes, nothing is answered from memory.
		if err := f.Store.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`INSERT INTO flushed_batches (id, at) VALUES ('of an older node', 1)`)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if cached, missing, err := sqloffences.Memory(f.Offences, t.Context(), start, f.Clock.Now()); err != nil || cached+missing != 0 {
			t.Errorf("with a batch that left no marks: %d cached, %d missing, %v", cached, missing, err)
		}
		compare()
	})
}
