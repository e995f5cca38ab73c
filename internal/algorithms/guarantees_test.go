package algorithms_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/algorithms"
)

// bound is a guarantee: any half-open time span of length milliseconds has an allowed cost of at
// most maxCost.
type bound struct{ length, maxCost int64 }

// guarantee returns what v guarantees for a rule if no request costs more than cost.
func (v variant) guarantee(r algorithms.Rule, cost int64) bound {
	switch {
	case v.Exact:
		return bound{r.Window, r.Limit}
	case v.Name == algorithms.SlidingBuckets && r.Window <= 60:
		return bound{r.Window, r.Limit} // a sub-window is a millisecond: it is exact
	case v.Name == algorithms.SlidingBuckets:
		return bound{r.Window - (r.Window+59)/60 + 1, r.Limit}
	case v.options.Variant == algorithms.VariantQueue:
		return bound{r.Window, r.Limit + cost - 1}
	case v.Takes(algorithms.OptionBurst):
		return bound{r.Window, r.Capacity() + (r.Window-1)*r.Limit/r.Window}
	}
	return bound{r.Window, 2 * r.Limit}
}

// allowedAt is a cost that was allowed, and when.
type allowedAt struct{ at, cost int64 }

// maxIn returns the largest allowed cost in any time span of that length. The times are sorted.
func maxIn(length int64, allowed []allowedAt) (most int64) {
	var within int64
	from := 0
	for _, a := range allowed {
		within += a.cost
		for ; a.at-allowed[from].at >= length; from++ {
			within -= allowed[from].cost
		}
		most = max(most, within)
	}
	return most
}

// drawSmall draws a rule that a few requests can fill.
func drawSmall(t *rapid.T, v variant) algorithms.Rule {
	r := v.rule(rapid.Int64Range(1, 12).Draw(t, "limit"), rapid.OneOf(rapid.Int64Range(1, 130), rapid.Int64Range(1, 5_000)).Draw(t, "window"))
	if v.Takes(algorithms.OptionBurst) {
		r.Burst = rapid.IntRange(0, 20).Draw(t, "burst")
	}
	return r
}

// At any times, with any costs and MaxWaits, no more is allowed than guaranteed. Requests with a
// reservation count at its time.
func TestGuarantees(t *testing.T) {
	forEach(t, func(t *testing.T, v variant) {
		rapid.Check(t, func(t *rapid.T) {
			r := drawSmall(t, v)
			stack := algorithms.NewStack(v.Algorithm, []algorithms.Rule{r})
			largest := min(r.Limit, r.Capacity())
			var state algorithms.State
			var allowed []allowedAt
			now, wait := int64(morning), int64(0)
			for range rapid.IntRange(1, 80).Draw(t, "requests") {
				now += max(0, drawStep(t, []algorithms.Rule{r}, wait))
				cost := rapid.Int64Range(1, largest).Draw(t, "cost")
				got := stack.Decide(&state, algorithms.Query{Now: now, Cost: cost, ID: "x", MaxWait: rapid.SampledFrom([]int64{0, 0, 0, r.Window}).Draw(t, "most")}, nil)
				if got.Allowed {
					allowed = append(allowed, allowedAt{got.AllowedAt, cost})
					wait = 0
				} else {
					wait = got.RetryAt - now
				}
			}
			promised := v.guarantee(r, largest)
			if most := maxIn(promised.length, allowed); most > promised.maxCost {
				t.Fatalf("%+v allows %d within %d ms, want at most %d: %v", r, most, promised.length, promised.maxCost, allowed)
			}
		})
	})
}

// The same holds for the real time that has passed if the clock repeatedly steps back.
func TestGuaranteesWhileTheClockStepsBack(t *testing.T) {
	forEach(t, func(t *testing.T, v variant) {
		rapid.Check(t, func(t *rapid.T) {
			r := drawSmall(t, v)
			stack := algorithms.NewStack(v.Algorithm, []algorithms.Rule{r})
			var state algorithms.State
			var allowed []allowedAt
			behind := int64(0)
			for passed := int64(0); len(allowed) < 60 && passed < 8*r.Window; {
				if rapid.IntRange(0, 3).Draw(t, "step back") == 0 {
					behind += rapid.OneOf(rapid.Int64Range(1, 3), rapid.Int64Range(1, 3*r.Window), rapid.Just[int64](3_600_000)).Draw(t, "by")
				}
				if stack.Decide(&state, algorithms.Query{Now: morning + passed - behind, Cost: 1}, nil).Allowed {
					allowed = append(allowed, allowedAt{passed, 1})
				} else {
					passed += rapid.Int64Range(1, max(1, r.Window/2)).Draw(t, "pause")
				}
			}
			promised := v.guarantee(r, 1)
			if most := maxIn(promised.length, allowed); most > promised.maxCost {
				t.Fatalf("%+v allows %d within %d ms, want at most %d: %v", r, most, promised.length, promised.maxCost, allowed)
			}
		})
	})
}

// A client who waits until RetryAt while the clock steps back is refused at most once
// more.
func TestClockStepBackRefusesAtMostOnceMore(t *testing.T) {
	forEach(t, func(t *testing.T, v variant) {
		rapid.Check(t, func(t *rapid.T) {
			rules := drawRules(t, v, 3)
			stack := algorithms.NewStack(v.Algorithm, rules)
			state, now := history(t, v, rules)
			q := algorithms.Query{Now: now, Cost: v.drawCost(t, rules)}
			refused := stack.Decide(&state, q, nil)
			if refused.Allowed || refused.RetryAt == algorithms.Never {
				return
			}
			q.Now = refused.RetryAt - rapid.OneOf(rapid.Int64Range(1, 10), rapid.Int64Range(1, 40*86_400_000)).Draw(t, "back")
			if refused = stack.Decide(&state, q, nil); refused.Allowed {
				return
			}
			q.Now = refused.RetryAt
			if again := stack.Decide(&state, q, nil); !again.Allowed {
				t.Fatalf("refused twice: %+v, then %+v", refused, again)
			}
		})
	})
}

// The limits in windows of the clock are never exceeded, whenever the requests arrive.
func TestClockWindowsNeverExceedTheLimit(t *testing.T) {
	for _, name := range []string{algorithms.FixedWindow, algorithms.SlidingWindow} {
		v := variant{name: name, Algorithm: algorithms.ByName(name)}
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := drawSmall(t, v)
				stack := algorithms.NewStack(v.Algorithm, []algorithms.Rule{r})
				var state algorithms.State
				in := map[int64]int64{}
				now := int64(morning)
				for range 60 {
					now += rapid.Int64Range(0, r.Window/3+1).Draw(t, "step")
					if stack.Decide(&state, algorithms.Query{Now: now, Cost: 1}, nil).Allowed {
						if in[now/r.Window]++; in[now/r.Window] > r.Limit {
							t.Fatalf("%d are allowed in one window of %+v", in[now/r.Window], r)
						}
					}
				}
			})
		})
	}
}
