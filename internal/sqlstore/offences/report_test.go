package offences_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/test/storetest"
)

func TestARankingKeepsTheKeysThatItIsAskedFor(t *testing.T) {
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
					t.Fatalf("by %s: asked about %d, got %+v, %v", sort, asked, r, err)
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

func TestReportsAreExactOverMinutesHoursAndDaysTogether(t *testing.T) {
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
		check("before anything is added up")
		middle := start.Add(30 * time.Hour)
		if done, err := f.Offences.RollUp(t.Context(), middle); err != nil || done < 29 {
			t.Fatalf("added up %d, %v", done, err)
		}
		check("with some hours added up")
		if _, err := f.Offences.RollUp(t.Context(), f.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		check("with all hours and days added up")
		// A node that was cut off brings old counts.
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
			t.Errorf("added up %d again, %v", again, err)
		}
	})
}

func TestAReportIsPagedFilteredAndSorted(t *testing.T) {
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
				t.Errorf("%d keys and %d offences in all", r.Keys, r.Offences)
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
			t.Errorf("the pages hold %d keys: %v", len(order), order)
		}
		for name, c := range map[string]struct {
			query offences.Query
			want  int64
		}{
			"by a network":          {offences.Query{Pattern: storetest.Pattern(t, "ip:198.51.100.0/28")}, 16},
			"by an IPv6 network":    {offences.Query{Pattern: storetest.Pattern(t, "ip:2001:db8::/32")}, 1},
			"by a prefix":           {offences.Query{Pattern: storetest.Pattern(t, "token:*")}, 1},
			"by a part of a key":    {offences.Query{Search: `%_\`}, 1},
			"by a source":           {offences.Query{Source: "edge-1"}, 27},
			"by another source":     {offences.Query{Source: "edge-2"}, 0},
			"by a rule":             {offences.Query{Rule: "20/1m"}, 27},
			"by any but a rule":     {offences.Query{NotRule: "20/1m"}, 0},
			"by policy":             {offences.Query{Policy: 7}, 27},
			"by another policy":     {offences.Query{Policy: 8}, 0},
			"with at least so many": {offences.Query{MinOffences: 5}, 6},
			"sorted by the last":    {offences.Query{Sort: offences.ByLast}, 27},
			"sorted by the first":   {offences.Query{Sort: offences.ByFirst}, 27},
			"sorted by key":         {offences.Query{Sort: offences.ByKey}, 27},
			"of what only a shadow": {offences.Query{Shadow: true}, 0},
		} {
			c.query.From, c.query.To = f.Clock.Now(), f.Clock.Now().Add(time.Minute)
			r, err := f.Offences.Rank(t.Context(), c.query)
			if err != nil || int64(len(r.Rows)) != c.want {
				t.Errorf("%s: %d rows, want %d, %v", name, len(r.Rows), c.want, err)
			}
		}
		if _, err := f.Offences.Rank(t.Context(), offences.Query{Cursor: "bad"}); err == nil {
			t.Error("a bad cursor is taken")
		}
	})
}
