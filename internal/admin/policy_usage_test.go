package admin

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

func TestPeakOfAKeyIsItsBusiestWindow(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var points []offences.SamplePoint
		at := int64(1_000_000)
		for range 1 + random.IntN(40) {
			at += int64(random.IntN(1500))
			points = append(points, offences.SamplePoint{At: at, Cost: 1 + random.IntN(3), Count: 1 + random.IntN(2)})
		}
		window := int64(1 + random.IntN(5000))
		want := int64(0)
		for _, end := range points {
			sum := int64(0)
			for _, p := range points {
				if p.At <= end.At && p.At > end.At-window {
					sum += int64(p.Cost * p.Count)
				}
			}
			want = max(want, sum)
		}
		if got := peakOf(points, window); got.Peak != want {
			t.Fatalf("peakOf in %d ms: got %d, want %d of %v", window, got.Peak, want, points)
		}
	}
}

func TestRuleUsageCountsKeysNearAndOverTheLimit(t *testing.T) {
	byKey := map[string][]offences.SamplePoint{}
	for i := range 100 { // a key of every peak from 1 to 100
		key := string(rune('!' + i))
		byKey[key] = []offences.SamplePoint{{At: 1000, Key: key, Cost: 1, Count: i + 1}}
	}
	u := usageOf(rules.Rule{Limit: 90, Window: time.Minute}, byKey)
	if u.Keys != 100 || u.Over != 10 || u.Near != 19 || u.Median != 50 || u.P95 != 95 || u.P99 != 99 || u.Max != 100 {
		t.Errorf("got %+v", u)
	}
	if len(u.Busiest) != maxBusiest || u.Busiest[0].Peak != 100 || u.Busiest[4].Peak != 96 {
		t.Errorf("the busiest are %+v", u.Busiest)
	}
}

func TestPolicyUsageOfALongRangeIsReadInWholeHours(t *testing.T) {
	const day = 24 * time.Hour
	for span, want := range map[time.Duration]time.Duration{
		time.Hour: time.Minute, day: time.Minute, 7 * day: 10 * time.Minute, 500 * time.Hour: 30 * time.Minute,
		517 * time.Hour: time.Hour, maxUsageSpan: time.Hour, 90 * day: 3 * time.Hour,
	} {
		if got := useStep(span); got != want {
			t.Errorf("useStep(%s): got %s, want %s", span, got, want)
		}
	}
}
