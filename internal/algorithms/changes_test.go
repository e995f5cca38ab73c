package algorithms_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/algorithms"
)

// If a limit is raised, a waiting key is allowed at once. If it is lowered, earlier requests
// still count. Only gcra stores a time instead of a count: a key that was at the old limit is at
// the new one, and waits for one interval of it.
func TestChangedLimitsKeepEarlierCounts(t *testing.T) {
	forEach(t, func(t *testing.T, v variant) {
		if v.options.Variant == algorithms.VariantQueue {
			return // its pace changes, see TestQueueWaitFollowsAChangedLimit
		}
		rapid.Check(t, func(t *rapid.T) {
			limit := rapid.Int64Range(1, 50).Draw(t, "limit")
			more := rapid.Int64Range(1, 50).Draw(t, "more")
			window := rapid.Int64Range(100, 31*86_400_000).Draw(t, "window")
			var state algorithms.State
			small, large := v.stack(limit, window), v.stack(limit+more, window)
			ask := func(k *algorithms.Stack) bool {
				return k.Decide(&state, algorithms.Query{Now: morning, Cost: 1}, nil).Allowed
			}
			for ask(small) {
			}
			allowed := int64(0)
			for ask(large) {
				allowed++
			}
			wait := large.Remaining(nil, &state, morning, 1)[0].Wait
			if v.Name == algorithms.GCRA {
				if interval := window/(limit+more) + 1; allowed != 0 || wait > interval {
					t.Fatalf("%d more are allowed and then the wait is %d, want none and at most the interval of %d", allowed, wait, interval)
				}
			} else if allowed != more {
				t.Fatalf("%d more are allowed after the limit was raised by %d", allowed, more)
			}
			if ask(small) {
				t.Fatal("a request is allowed after the limit was lowered, want the earlier ones counted")
			}
			if wait := small.Remaining(nil, &state, morning, 1)[0].Wait; wait > 2*window {
				t.Fatalf("after the limit was lowered the wait is %d, want at most twice the window of %d", wait, window)
			}
		})
	})
}

// A limit that was 0 by mistake still counts the requests from before.
func TestTemporaryZeroLimitKeepsEarlierCounts(t *testing.T) {
	forEach(t, func(t *testing.T, v variant) {
		var state algorithms.State
		stack, none := v.stack(10, 60_000), v.stack(0, 60_000)
		allowedAtEach(t, stack, &state, morning)
		got := none.Decide(&state, algorithms.Query{Now: morning + 10, Cost: 1, MaxWait: 1000}, nil)
		if got.Allowed || got.RetryAt != algorithms.Never || got.AllowedAt != algorithms.Never {
			t.Fatalf("a limit of 0 answers %+v, want never", got)
		}
		if ttl := none.TTL(&state, morning+10); ttl < 1 {
			t.Fatalf("the TTL under a limit of 0 is %d, want the state kept", ttl)
		}
		if stack.Decide(&state, algorithms.Query{Now: morning + 10, Cost: 1}, nil).Allowed {
			t.Fatal("a request is allowed after the limit is back, want the earlier ones counted")
		}
	})
}
