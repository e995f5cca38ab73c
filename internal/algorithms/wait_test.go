package algorithms_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/algorithms"
)

// A wait is exact: a millisecond earlier the same request is refused with the rest of the wait,
// and from then on it is allowed. This holds for stacks, after any history, and after any clock
// steps.
func TestWaitsAreExact(t *testing.T) {
	forEach(t, func(t *testing.T, v variant) {
		rapid.Check(t, func(t *rapid.T) {
			rules := drawRules(t, v, 3)
			stack := algorithms.NewStack(v.Algorithm, rules)
			state, now := history(t, v, rules)
			q := algorithms.Query{Now: now, Cost: v.drawCost(t, rules), Peek: true}
			q.MaxWait = rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(0, 3_600_000)).Draw(t, "most")
			first := stack.Decide(&state, q, nil)
			if first.RetryAt == algorithms.Never {
				q.Now += rapid.Int64Range(0, 1<<32).Draw(t, "later")
				if got := stack.Decide(&state, q, nil); got.RetryAt != algorithms.Never {
					t.Fatalf("a request that is never allowed later got %+v", got)
				}
				return
			}
			if first.Allowed {
				return
			}
			for _, before := range []int64{first.RetryAt - 1, rapid.Int64Range(now, first.RetryAt-1).Draw(t, "before")} {
				q.Now = before
				if got := stack.Decide(&state, q, nil); got.Allowed || got.RetryAt != first.RetryAt {
					t.Fatalf("at %d of %d: %+v, first %+v", before-now, first.RetryAt-now, got, first)
				}
			}
			for _, after := range []int64{0, 1, rapid.Int64Range(0, 1<<33).Draw(t, "after")} {
				q.Now = first.RetryAt + after
				got := stack.Decide(&state, q, nil)
				if !got.Allowed || got.AllowedAt-q.Now > q.MaxWait {
					t.Fatalf("%d after the wait of %d: %+v", after, first.RetryAt-now, got)
				}
				if after == 0 && got.AllowedAt != first.AllowedAt {
					t.Fatalf("the refusal announced a reservation at %d, and it is at %d", first.AllowedAt, got.AllowedAt)
				}
			}
		})
	})
}

// history draws a state that results from some requests and clock steps.
func history(t *rapid.T, v variant, rules []algorithms.Rule) (state algorithms.State, now int64) {
	stack, wait := algorithms.NewStack(v.Algorithm, rules), int64(0)
	now = morning
	for range rapid.IntRange(1, 20).Draw(t, "requests") {
		now += drawStep(t, rules, wait)
		q := algorithms.Query{Now: now, Cost: v.drawCost(t, rules), ID: "x", MaxWait: rapid.SampledFrom([]int64{0, 0, 5_000}).Draw(t, "max wait")}
		result := stack.Decide(&state, q, nil)
		if wait = result.RetryAt - now; result.Allowed || result.RetryAt == algorithms.Never {
			wait = 0
		}
	}
	return state, now
}

// All or nothing: a refused request and a peek do not change any later answer.
func TestRefusedRequestsAndPeeksChangeNothing(t *testing.T) {
	forEach(t, func(t *testing.T, v variant) {
		rapid.Check(t, func(t *rapid.T) {
			rules := drawRules(t, v, 3)
			stack := algorithms.NewStack(v.Algorithm, rules)
			state, now := history(t, v, rules)
			stack.TTL(&state, now) // shifts back what is too far ahead
			other := state.Clone()
			q := algorithms.Query{Now: now, Cost: v.drawCost(t, rules)}
			q.Peek = stack.Decide(&state, algorithms.Query{Now: now, Cost: q.Cost, Peek: true}, nil).Allowed
			if got := stack.Decide(&other, q, nil); got.Changed {
				t.Fatalf("got %+v, want Changed to be false", got)
			}
			for later := now; later < now+3*rules[0].Window; later += 1 + rules[0].Window/5 {
				a, b := stack.Remaining(nil, &state, later, 1), stack.Remaining(nil, &other, later, 1)
				if !slices.Equal(a, b) {
					t.Fatalf("Remaining is %v after the request, want %v", b, a)
				}
			}
		})
	})
}

// The Remaining cost is allowed now, request by request, and then nothing more.
func TestRemainingIsWhatIsAllowed(t *testing.T) {
	forEach(t, func(t *testing.T, v variant) {
		if v.options.Variant == algorithms.VariantQueue {
			return // it releases one request at a time, see TestQueueReleasesAtItsPaceAndRefusesWhenFull
		}
		rapid.Check(t, func(t *rapid.T) {
			rules := drawRules(t, v, 1)
			rules[0].Limit = rapid.Int64Range(1, 300).Draw(t, "small limit")
			rules[0].Burst = min(rules[0].Burst, 300)
			stack := algorithms.NewStack(v.Algorithm, rules)
			state, now := history(t, v, rules)
			now += 3_600_000 // after all reservations
			left := stack.Remaining(nil, &state, now, 1)[0].Amount
			for n := left; n >= 0; n-- {
				has := stack.Remaining(nil, &state, now, 1)[0]
				allowed := stack.Decide(&state, algorithms.Query{Now: now, Cost: 1}, nil).Allowed
				if has.Amount != n || allowed != (n > 0) || allowed != (has.Wait == 0) {
					t.Fatalf("with %d of %d left: Remaining returns %+v and the request is allowed: %v", n, left, has, allowed)
				}
			}
		})
	})
}

// When the TTL of a state has passed, it is equivalent to no state; a millisecond earlier it is
// not.
func TestTTLEndsExactlyWhenTheStateIsEmpty(t *testing.T) {
	forEach(t, func(t *testing.T, v variant) {
		rapid.Check(t, func(t *rapid.T) {
			rules := drawRules(t, v, 3)
			for i := range rules {
				rules[i].Limit = max(1, rules[i].Limit)
			}
			stack := algorithms.NewStack(v.Algorithm, rules)
			state, now := history(t, v, rules)
			ttl := stack.TTL(&state, now)
			if ttl > 0 {
				early := state.Clone()
				if stack.TTL(&early, now+ttl-1) != 1 {
					t.Fatalf("a millisecond before the end the TTL is %d, want 1", stack.TTL(&early, now+ttl-1))
				}
			}
			if left := stack.TTL(&state, now+ttl); left != 0 || slices.ContainsFunc(state.Numbers, func(n int64) bool { return n != 0 }) || state.Reservations != nil {
				t.Fatalf("%d ms later the TTL is %d and the state %+v, want 0 and empty", ttl, left, state)
			}
		})
	})
}

// When the Reset of a rule has passed, its whole limit is available again. The longest Reset is
// the TTL of the state.
func TestRuleIsFullyRestoredAfterItsReset(t *testing.T) {
	forEach(t, func(t *testing.T, v variant) {
		rapid.Check(t, func(t *rapid.T) {
			rules := drawRules(t, v, 3)
			for i := range rules {
				rules[i].Limit = max(1, rules[i].Limit)
			}
			stack := algorithms.NewStack(v.Algorithm, rules)
			state, now := history(t, v, rules)
			ttl := stack.TTL(&state, now)
			fresh := stack.Remaining(nil, &algorithms.State{}, now, 1)
			longest := int64(0)
			for i, has := range stack.Remaining(nil, &state, now, 1) {
				longest = max(longest, has.Reset)
				later := state.Clone()
				if got := stack.Remaining(nil, &later, now+has.Reset, 1)[i]; has.Reset > 0 && (got.Amount != fresh[i].Amount || got.Reset != 0) {
					t.Fatalf("rule %d of %+v: %d ms after %+v it has %+v, want as without requests %+v", i, rules, has.Reset, has, got, fresh[i])
				}
				if has.Reset == 0 && state.Reservations == nil && has.Amount != fresh[i].Amount {
					t.Fatalf("rule %d of %+v counts something and its reset is 0: %+v", i, rules, has)
				}
			}
			if longest > ttl || state.Reservations == nil && longest != ttl {
				t.Fatalf("the longest reset is %d ms, the TTL %d", longest, ttl)
			}
		})
	})
}
