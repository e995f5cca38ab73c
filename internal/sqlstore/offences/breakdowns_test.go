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

// TestUnreadableRowsStopNothing has a table and a sketch that nobody can read beside good ones: the good
// ones are read, added up and added to. A table of another version stays as it is.
func TestUnreadableRowsStopNothing(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		bad, foreign := `X'0178'`, `X'78'`
		if f.Postgres() {
			bad, foreign = `'\x0178'`, `'\x78'`
		}
		hour := f.Clock.Now().Truncate(time.Hour)
		sketch := offences.NewSketch()
		sketch.InsertHash(4711)
		good, err := sketch.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		flush := func(id, node string, sketch []byte) {
			t.Helper()
			table := &breakdown.Table{}
			table.Row(breakdown.Values{"/a"}).Counts.Allowed = 2
			b := &offences.Batch{ID: id, Node: node, Breakdowns: []breakdown.Chunk{{Minute: hour.UnixMilli(), Data: table.Encode()}},
				Totals: []offences.Totals{{Minute: hour.UnixMilli(), Counts: offences.Counts{Allowed: 2}}}, Distinct: []offences.DistinctKeys{{Minute: hour.UnixMilli(), Node: node, Sketch: sketch}}}
			if _, err := f.Offences.Flush(t.Context(), b, offences.Evaluation{Now: f.Clock.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		check := func(when string, counted int64, unread int) {
			t.Helper()
			q := breakdown.Query{By: []int{0}}
			err := f.Offences.Breakdowns(t.Context(), f.Clock.Now(), hour, hour.Add(time.Hour), 0, func(offences.TrafficSeries) {},
				func(start time.Time, table *breakdown.Table) error { q.Add(start, table); return nil })
			if r := q.Result(9); err != nil || r.Total.Allowed != counted || r.Unread != unread {
				t.Errorf("%s: %d requests and %d tables that cannot be read, %v; want %d and %d", when, r.Total.Allowed, r.Unread, err, counted, unread)
			}
			series, err := f.Offences.Traffic(t.Context(), 0, hour, hour.Add(time.Hour), time.Hour)
			if err != nil || len(series.Points) != 1 || series.Points[0].Keys != 1 {
				t.Errorf("%s: %+v, %v; want one point with one key", when, series.Points, err)
			}
		}
		flush("1", "bad", []byte("no sketch"))
		flush("2", "good", good)
		f.Exec(t, "UPDATE breakdowns SET data = "+bad+" WHERE node = 'bad'")
		check("before it is added up", 2, 1)
		f.Clock.Advance(2 * time.Hour)
		rollUp(t, f)
		check("added up", 2, 0)
		f.Exec(t, "UPDATE breakdowns SET data = "+bad+" WHERE span > 1")
		flush("3", "bad", good)
		check("with a late count", 2, 0)
		f.Exec(t, "UPDATE breakdowns SET data = "+foreign+" WHERE span > 1")
		flush("4", "bad", good)
		check("with one more", 0, 1)
	})
}

// TestPointsBeginAtWholeSteps reads from the middle of an hour in steps of hours, of which some are only
// kept as such: each hour is its own point.
func TestPointsBeginAtWholeSteps(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		first := f.Clock.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)
		f.Clock.Advance(48 * time.Hour)
		for hour := range int64(4) {
			at := first.Add(time.Duration(hour)*time.Hour + 50*time.Minute).UnixMilli()
			table := &breakdown.Table{}
			table.Row(breakdown.Values{"/a"}).Counts.Allowed = hour + 1
			b := &offences.Batch{ID: fmt.Sprint(hour), Node: "a", Breakdowns: []breakdown.Chunk{{Minute: at, Data: table.Encode()}}, Totals: []offences.Totals{{Minute: at, Counts: offences.Counts{Allowed: hour + 1}}}}
			if _, err := f.Offences.Flush(t.Context(), b, offences.Evaluation{Now: f.Clock.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		rollUp(t, f)
		from, to := first.Add(20*time.Minute), first.Add(4*time.Hour)
		series, err := f.Offences.TrafficCounts(t.Context(), 0, from, to, time.Hour)
		if err != nil || !series.From.Equal(from) || len(series.Points) != 4 {
			t.Fatalf("got %+v, %v", series, err)
		}
		q := breakdown.Query{}
		err = f.Offences.Breakdowns(t.Context(), f.Clock.Now(), from, to, time.Hour, func(s offences.TrafficSeries) { q.Start, q.Step = s.First(), s.Step },
			func(start time.Time, table *breakdown.Table) error { q.Add(start, table); return nil })
		requested := q.Result(9).Points
		if err != nil || len(requested) != 4 {
			t.Fatalf("got %+v, %v", requested, err)
		}
		intervals := offences.Intervals(series.Points, series.From, to, series.Step)
		for hour := range 4 {
			at, n := first.Add(time.Duration(hour)*time.Hour), int64(hour+1)
			if p := series.Points[hour]; !p.At.Equal(at) || p.Allowed != n {
				t.Errorf("the point of hour %d is %+v", hour, p)
			}
			if p := requested[hour]; !p.At.Equal(at) || p.Allowed != n {
				t.Errorf("what was requested in hour %d is %+v", hour, p)
			}
			begin, seconds := at, 3600.0
			if hour == 0 {
				begin, seconds = from, 2400
			}
			if i := intervals[hour]; !i.At.Equal(begin) || i.Seconds != seconds || i.Allowed != n {
				t.Errorf("the interval of hour %d is %+v", hour, i)
			}
		}
	})
}

func rollUp(t *testing.T, f *storetest.Fixture) {
	t.Helper()
	if _, err := f.Offences.RollUp(t.Context(), f.Clock.Now()); err != nil {
		t.Fatal(err)
	}
}
