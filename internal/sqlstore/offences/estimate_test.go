package offences_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

func TestEstimateTrafficUsesTrafficSample(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		start := f.Clock.Now()
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		e := &admin.SampleEstimator{Store: f.Offences, Secret: func() []byte { return offenceSecret }}
		none, err := e.EstimateTraffic(t.Context(), start.Add(-time.Hour), start.Add(time.Hour), func(keys.Key) bool { return true })
		if err != nil || none != nil {
			t.Fatalf("without recorded traffic: got %+v, %v, want nil", none, err)
		}
		for i := range 30 {
			n.allowed(fmt.Sprintf("ip:203.0.113.%d", i), 2)
			n.allowed(fmt.Sprintf("ip:198.51.100.%d", i), 6)
		}
		f.Clock.Advance(2 * time.Minute)
		n.flush() // the minute is over, and its traffic sample is written
		p := keytest.Pattern(t, "ip:203.0.113.0/24")
		got, err := e.EstimateTraffic(t.Context(), start.Add(-time.Hour), start.Add(time.Hour), p.Matches)
		if err != nil {
			t.Fatal(err)
		}
		if got.Keys != 30 || got.AllKeys != 60 || got.Checks != 60 || got.AllChecks != 240 || math.Abs(got.Ratio-0.25) > 1e-9 || got.Error != 0 {
			t.Fatalf("with a complete traffic sample: got %+v", got)
		}
	})
}

// An attack that is refused anyway is no traffic that a block of its network would refuse.
func TestEstimateTrafficCountsWhatWasAllowed(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		start := f.Clock.Now()
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		e := &admin.SampleEstimator{Store: f.Offences, Secret: func() []byte { return offenceSecret }}
		estimate := func() *admin.TrafficEstimate {
			t.Helper()
			f.Clock.Advance(2 * time.Minute)
			n.flush()
			got, err := e.EstimateTraffic(t.Context(), start.Add(-time.Hour), f.Clock.Now(), keytest.Pattern(t, "ip:203.0.113.0/24").Matches)
			if err != nil || got == nil {
				t.Fatal(got, err)
			}
			return got
		}
		for i := range 40 {
			n.limited(fmt.Sprintf("ip:203.0.113.%d", i), 20)
		}
		if got := estimate(); got.Ratio != 0 || got.Keys != 0 || got.AllChecks != 0 {
			t.Errorf("where nothing was allowed: got %+v", got)
		}
		n.allowed("ip:203.0.113.1", 4) // of a key that is refused most of the time
		n.allowed("ip:198.51.100.1", 396)
		if got := estimate(); got.Keys != 1 || got.AllKeys != 2 || got.Checks != 4 || got.AllChecks != 400 || math.Abs(got.Ratio-0.01) > 1e-9 {
			t.Errorf("a network whose checks were refused: got %+v", got)
		}
	})
}
