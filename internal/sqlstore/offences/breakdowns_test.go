package offences_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/test/storetest"
)

// TestBreakdownsAreAddedUp flushes what two nodes were requested in every hour of three days, also in
// several batches of one minute, adds it up, adds a late count and deletes the minutes: each path
// has all its requests throughout, in whole and by hour.
func TestBreakdownsAreAddedUp(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		day := f.Clock.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)
		want := map[string]int64{}
		batches := 0
		flush := func(node string, at time.Time, path string) {
			t.Helper()
			table := &breakdown.Table{}
			row := table.Row(breakdown.Values{path, "curl"})
			row.Counts.Allowed, row.Clients = 2, breakdown.Clients{{Key: "k:" + node, Count: 2}}
			batches++
			minute := at.UnixMilli()
			b := &offences.Batch{ID: fmt.Sprint(batches), Node: node, Breakdowns: []breakdown.Chunk{{Minute: minute, Data: table.Encode()}},
				Totals: []offences.Totals{{Minute: minute, Counts: offences.Counts{Allowed: 2}}}}
			for range 2 { // the second time it is known
				if _, err := f.Offences.Flush(t.Context(), b, offences.Evaluation{Now: f.Clock.Now()}); err != nil {
					t.Fatal(err)
				}
			}
			want[path] += 2
		}
		check := func(when string) {
			t.Helper()
			for _, step := range []time.Duration{0, time.Hour} {
				q := breakdown.Query{By: []int{0, 1}}
				err := f.Offences.Breakdowns(t.Context(), f.Clock.Now(), day, day.Add(72*time.Hour), step, func(s offences.TrafficSeries) { q.Start, q.Step = s.From, s.Step },
					func(start time.Time, table *breakdown.Table) error { q.Add(start, table); return nil })
				if err != nil {
					t.Fatal(when, err)
				}
				r := q.Result(100)
				got, sum := map[string]int64{}, int64(0)
				for _, g := range r.Breakdowns[0].Groups {
					got[g.Value] = g.Counts.Allowed
					sum += g.Counts.Allowed
				}
				if fmt.Sprint(got) != fmt.Sprint(want) || r.Total.Allowed != sum || r.Breakdowns[1].Groups[0].Counts.Allowed != sum {
					t.Errorf("%s, in steps of %v: got %v of %+v, want %v", when, step, got, r.Total, want)
				}
				if step > 0 && len(r.Points) != 72 {
					t.Errorf("%s: got %d hours", when, len(r.Points))
				}
			}
		}
		f.Clock.Advance(5 * 24 * time.Hour)
		for hour := range 72 {
			at := day.Add(time.Duration(hour)*time.Hour + 5*time.Minute)
			flush("a", at, "/all")
			flush("a", at, fmt.Sprint("/", hour%3))
			flush("b", at, "/all")
		}
		check("before it is added up")
		rollUp(t, f)
		check("added up")
		flush("b", day.Add(3*time.Hour+time.Minute), "/late")
		check("with a late count")
		f.Clock.Advance(7 * 24 * time.Hour)
		if _, err := f.Offences.DeleteOlder(t.Context(), f.Clock.Now(), offences.Retention{}, nil); err != nil {
			t.Fatal(err)
		}
		check("without the minutes")
		f.Clock.Advance(30 * 24 * time.Hour)
		rollUp(t, f)
		if _, err := f.Offences.DeleteOlder(t.Context(), f.Clock.Now(), offences.Retention{}, nil); err != nil {
			t.Fatal(err)
		}
		var kept int64
		err := f.Offences.Breakdowns(t.Context(), f.Clock.Now(), day, day.Add(72*time.Hour), 0, func(offences.TrafficSeries) {}, func(_ time.Time, table *breakdown.Table) error {
			for _, row := range table.Rows {
				kept += row.Counts.Allowed
			}
			return nil
		})
		if err != nil || kept != 72*6+2 {
			t.Errorf("the days have %d requests, %v", kept, err)
		}
	})
}

func rollUp(t *testing.T, f *storetest.Fixture) {
	t.Helper()
	if _, err := f.Offences.RollUp(t.Context(), f.Clock.Now()); err != nil {
		t.Fatal(err)
	}
}
