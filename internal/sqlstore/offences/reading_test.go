package offences_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

func TestTimelineAndTrafficReportRangeRead(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		start := f.Clock.Now() // a whole hour
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		s := service(f, n.policy)
		k := keytest.Key(t, "k:x")
		for range 4 { // at 12:00, 12:40, 13:20 and 14:00
			n.limited("k:x", 3)
			f.Clock.Advance(40 * time.Minute)
			n.flush()
		}
		from, to := start.Add(10*time.Minute+30*time.Second), start.Add(2*time.Hour+30*time.Minute)
		check := func(when string, points int, wantFrom, wantTo time.Time, lineStep, trafficStep time.Duration, counts []int64) {
			t.Helper()
			line, err := s.Timeline(t.Context(), k, from, to, 14)
			if err != nil || len(line.Points) != points || !line.From.Equal(wantFrom) || !line.To.Equal(wantTo) || line.Step != lineStep {
				t.Fatalf("%s the timeline is %+v, %v", when, line, err)
			}
			var got []int64
			for i, p := range line.Points {
				if want := wantFrom.Add(time.Duration(i) * lineStep); !p.At.Equal(want) {
					t.Errorf("%s point %d is of %s, want %s", when, i, p.At, want)
				}
				if p.Limited > 0 {
					got = append(got, p.Limited)
				}
			}
			if len(got) != len(counts) || got[0] != counts[0] {
				t.Errorf("%s the points are %v, want %v", when, got, counts)
			}
			traffic, err := s.Traffic(t.Context(), 7, from, to, 10*time.Minute)
			if err != nil || !traffic.From.Equal(wantFrom) || !traffic.To.Equal(wantTo) || traffic.Step != trafficStep || len(traffic.Points) != len(counts) {
				t.Errorf("%s the traffic is %+v, %v", when, traffic, err)
			}
			for _, p := range traffic.Points {
				if p.At.Sub(traffic.From)%traffic.Step != 0 {
					t.Errorf("%s a point begins at %s, not at a step", when, p.At)
				}
			}
		}
		check("by minutes", 14, start.Add(10*time.Minute), to, 10*time.Minute, 10*time.Minute, []int64{3, 3, 3})
		f.Clock.Advance(48 * time.Hour)
		if _, err := f.Offences.RollUp(t.Context(), f.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Offences.DeleteOlder(t.Context(), f.Clock.Now(), offences.Retention{Minutes: 24 * time.Hour}, nil); err != nil {
			t.Fatal(err)
		}
		check("by hours", 3, start, start.Add(3*time.Hour), time.Hour, time.Hour, []int64{6, 3, 3})
	})
}
