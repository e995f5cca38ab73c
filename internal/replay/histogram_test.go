package replay

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestHistogramCountsEveryDuration(t *testing.T) {
	for _, d := range []time.Duration{-1, math.MinInt64, math.MaxInt64} {
		h := newHistogram()
		h.add(d)
		if h.durations.TotalCount() != 1 {
			t.Errorf("add(%v) counts nothing", d)
		}
	}
}

func TestQuantilesMatchTheDurations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []time.Duration
		h, half := newHistogram(), newHistogram()
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
			want := all[max(1, int(q*float64(len(all))+0.5))-1] // the nearest rank
			got := h.quantile(q)
			if got < want || float64(got-want) > float64(want)*0.01+float64(time.Microsecond) {
				t.Fatalf("quantile %v is %v, want %v", q, got, want)
			}
		}
	})
}
