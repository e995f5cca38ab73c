package algorithms_test

import (
	"testing"

	"github.com/stint-dev/stint/internal/algorithms"
)

// allowedAtEach sends requests until one is refused, at each of the given times, and returns how
// many were allowed at each.
func allowedAtEach(t *testing.T, stack *algorithms.Stack, state *algorithms.State, instants ...int64) []int64 {
	t.Helper()
	allowed := make([]int64, len(instants))
	for i, at := range instants {
		for stack.Decide(state, algorithms.Query{Now: at, Cost: 1}, nil).Allowed {
			allowed[i]++
		}
	}
	return allowed
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
		{"a fixed window allows 2N within 2 ms around the end of a window",
			variant{Algorithm: algorithms.ByName(algorithms.FixedWindow)}, []int64{999, 1000}, []int64{10, 10}},
		{"a fixed window from the first request allows 2N after an early first request",
			variant{Algorithm: algorithms.ByName(algorithms.FixedWindow), options: algorithms.Options{WindowStart: algorithms.WindowFirst}}, []int64{0, 999, 1000}, []int64{10, 0, 10}},
		{"a sliding window allows nearly 2N within a window",
			variant{Algorithm: algorithms.ByName(algorithms.SlidingWindow)},
			[]int64{999, 1000, 1100, 1200, 1300, 1400, 1500, 1600, 1700, 1800, 1900, 1998}, []int64{10, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}},
		{"sliding buckets allow 2N within a window less a sub-window",
			variant{Algorithm: algorithms.ByName(algorithms.SlidingBuckets)}, []int64{16, 999, 1000, 1016}, []int64{10, 0, 10, 0}},
		{"a token bucket allows nearly 2N within a window",
			variant{Algorithm: algorithms.ByName(algorithms.TokenBucket)}, []int64{0, 500, 999, 1000}, []int64{10, 5, 4, 1}},
		{"a leaky bucket as a meter allows nearly 2N within a window",
			variant{Algorithm: algorithms.ByName(algorithms.LeakyBucket)}, []int64{0, 500, 999, 1000}, []int64{10, 5, 4, 1}},
		{"GCRA allows nearly 2N within a window",
			variant{Algorithm: algorithms.ByName(algorithms.GCRA)}, []int64{0, 500, 999, 1000}, []int64{10, 5, 4, 1}},
		{"GCRA with a burst of 1 allows requests only at an even pace",
			variant{Algorithm: algorithms.ByName(algorithms.GCRA), options: algorithms.Options{Burst: 1}}, []int64{0, 99, 100, 200}, []int64{1, 0, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var state algorithms.State
			instants := make([]int64, len(c.instants))
			for i, at := range c.instants {
				instants[i] = morning + at
			}
			allowed := allowedAtEach(t, c.v.stack(10, 1000), &state, instants...)
			for i := range allowed {
				if allowed[i] != c.want[i] {
					t.Fatalf("at %v it allows %v, want %v", c.instants, allowed, c.want)
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
				if allowed := allowedAtEach(t, v.stack(limit, window), &state, morning+1); allowed[0] != limit {
					t.Errorf("%d per %d ms allows %d at once, want the whole limit", limit, window, allowed[0])
				}
			}
		}
	})
}
