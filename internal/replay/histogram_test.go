package replay

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestEveryDurationLiesBelowTheEdgeOfItsBucketAndNotFarBelow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(40*24*time.Hour)).Draw(t, "duration"))
		edge := upperEdge(bucketOf(d))
		if d >= edge || float64(edge-d) > float64(d)*0.04+float64(time.Microsecond) {
			t.Fatalf("%v lies in the bucket that ends at %v", d, edge)
		}
	})
}

func TestNoDurationIsTooLong(t *testing.T) {
	for _, d := range []time.Duration{-1, math.MinInt64, math.MaxInt64} {
		var h histogram
		h.add(d)
		if h.total != 1 {
			t.Errorf("%v is not counted", d)
		}
	}
}

func TestQuantilesAreThoseOfTheDurations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []time.Duration
		var h, half histogram
		for i, ms := range rapid.SliceOfN(rapid.Int64Range(0, 100_000), 1, 200).Draw(t, "durations") {
			d := time.Duration(ms) * time.Millisecond
			all = append(all, d)
			if i%2 == 0 {
				h.add(d)
			} else {
				half.add(d)
			}
		}
		h.merge(&half)
		slices.Sort(all)
		for _, q := range []float64{0.5, 0.9, 0.99, 1} {
			want := all[int(math.Ceil(q*float64(len(all))))-1]
			got := h.quantile(q)
			if got < want || float64(got-want) > float64(want)*0.04+float64(time.Microsecond) {
				t.Fatalf("quantile %v is %v, want %v", q, got, want)
			}
		}
	})
}
