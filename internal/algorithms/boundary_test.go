package algorithms_test

import (
	"testing"

	"github.com/stint-dev/stint/internal/algorithms"
)

// take counts all that v allows at each of the given times, and returns the total.
func take(t *testing.T, stack *algorithms.Stack, state *algorithms.State, instants ...int64) []int64 {
	t.Helper()
	let := make([]int64, len(instants))
	for i, at := range instants {
		for stack.Decide(state, algorithms.Query{Now: at, Cost: 1}, nil).Allowed {
			let[i]++
		}
	}
	return let
}

// These are the worst bursts that the guarantees permit, with 10 requests in a second. Times
// count from the beginning of a second of the clock.
func TestCountersAllowTheirWorstBursts(t *testing.T) {
	for _, c := range []struct {
		name     string
		v        variant
		instants []int64
		want     []int64
	}{
		{"a fixed window lets 2N in within 2 ms where two windows meet",
			variant{"", algorithms.ByName(algorithms.FixedWindow), algorithms.Options{}}, []int64{999, 1000}, []int64{10, 10}},
		{"one that starts with the first request does, too, if that comes early",
			variant{"", algorithms.ByName(algorithms.FixedWindow), algorithms.Options{WindowStart: algorithms.WindowFirst}}, []int64{0, 999, 1000}, []int64{10, 0, 10}},
		{"a sliding window lets nearly 2N in within a window, over the whole of it",
			variant{"", algorithms.ByName(algorithms.SlidingWindow), algorithms.Options{}},
			[]int64{999, 1000, 1100, 1200, 1300, 1400, 1500, 1600, 1700, 1800, 1900, 1998}, []int64{10, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}},
		{"sliding buckets let 2N in within a window but for the last sub-window",
			variant{"", algorithms.ByName(algorithms.SlidingBuckets), algorithms.Options{}}, []int64{16, 999, 1000, 1016}, []int64{10, 0, 10, 0}},
		{"a token bucket lets nearly 2N in within a window, a burst and the pace",
			variant{"", algorithms.ByName(algorithms.TokenBucket), algorithms.Options{}}, []int64{0, 500, 999, 1000}, []int64{10, 5, 4, 1}},
		{"a leaky bucket as a meter does the same",
			variant{"", algorithms.ByName(algorithms.LeakyBucket), algorithms.Options{}}, []int64{0, 500, 999, 1000}, []int64{10, 5, 4, 1}},
		{"so does the generic cell rate algorithm",
			variant{"", algorithms.ByName(algorithms.GCRA), algorithms.Options{}}, []int64{0, 500, 999, 1000}, []int64{10, 5, 4, 1}},
		{"with a burst of 1 it keeps an even pace and refuses what comes together",
			variant{"", algorithms.ByName(algorithms.GCRA), algorithms.Options{Burst: 1}}, []int64{0, 99, 100, 200}, []int64{1, 0, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var state algorithms.State
			instants := make([]int64, len(c.instants))
			for i, at := range c.instants {
				instants[i] = morning + at
			}
			let := take(t, c.v.stack(10, 1000), &state, instants...)
			for i := range let {
				if let[i] != c.want[i] {
					t.Fatalf("at %v it lets in %v, want %v", c.instants, let, c.want)
				}
			}
		})
	}
}

// A burst is exact even if the interval between requests is not a whole number of milliseconds or
// of their fractions: it allows the limit at once, and no more.
func TestWholeLimitIsAllowedAtOnce(t *testing.T) {
	forEach(t, func(t *testing.T, v variant) {
		if v.options.Variant == algorithms.VariantQueue {
			return // it releases one request at a time
		}
		for _, limit := range []int64{1, 3, 7, 800, 2_000, 9_973} {
			for _, window := range []int64{7, 1_000, 60_000, 86_400_000, 31 * 86_400_000} {
				var state algorithms.State
				if let := take(t, v.stack(limit, window), &state, morning+1); let[0] != limit {
					t.Errorf("of %d per %d ms, %d may come at once", limit, window, let[0])
				}
			}
		}
	})
}
