package algorithms_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/timestamplog"
)

func queue(limit, window int64, length int) *algorithms.Stack {
	v := variant{Algorithm: algorithms.ByName(algorithms.LeakyBucket), options: algorithms.Options{Variant: algorithms.VariantQueue, Burst: length}}
	return v.stack(limit, window)
}

// A queue of 3 at 3 a second releases one request each third of a second and holds three. It
// refuses a fourth and returns when that one may join.
func TestQueueReleasesAtItsPaceAndRefusesWhenFull(t *testing.T) {
	var state algorithms.State
	stack := queue(3, 1000, 3)
	ask := func(now, maxWait int64) algorithms.Result {
		return stack.Decide(&state, algorithms.Query{Now: morning + now, Cost: 1, MaxWait: maxWait, ID: "x"}, nil)
	}
	for i, want := range []int64{0, 333, 666, 1000} {
		if got := ask(0, 60_000); !got.Allowed || got.AllowedAt != morning+want {
			t.Fatalf("request %d got %+v, want a reservation at %d", i, got, want)
		}
	}
	if got := ask(0, 60_000); got.Allowed || got.AllowedAt != morning+1333 || got.RetryAt != morning+333 {
		t.Fatalf("a full queue answers %+v, want a refusal", got)
	}
	if got := ask(332, 60_000); got.Allowed {
		t.Fatal("a full queue allows one more")
	}
	if got := ask(333, 60_000); !got.Allowed || got.AllowedAt != morning+1333 {
		t.Fatalf("after one was released: got %+v, want it allowed", got)
	}
	if got := ask(1333, 0); got.Allowed || got.RetryAt != morning+1666 {
		t.Fatalf("without MaxWait, after the last reservation: got %+v, want a refusal", got)
	}
	if got := ask(1666, 0); !got.Allowed || got.AllowedAt != morning+1666 {
		t.Fatalf("with an empty queue: got %+v, want it allowed", got)
	}
}

// More than one request may leave in the same millisecond if the pace is faster than one a
// millisecond.
func TestQueueIsExactAboveOneRequestPerMillisecond(t *testing.T) {
	var state algorithms.State
	stack := queue(5_000, 1_000, 100_000)
	var last int64
	for range 10_001 {
		last = stack.Decide(&state, algorithms.Query{Now: morning, Cost: 1, MaxWait: 60_000, ID: "x"}, nil).AllowedAt
	}
	if last != morning+2_000 {
		t.Fatalf("at 5,000 a second the 10,001st is released after %d ms, want 2000", last-morning)
	}
}

// If a limit is raised, queued requests leave faster; if it is lowered, more slowly.
func TestQueueWaitFollowsAChangedLimit(t *testing.T) {
	wait := func(limit int64) int64 {
		var state algorithms.State
		allowedAtEach(t, queue(10, 1000, 0), &state, morning)
		return queue(limit, 1000, 0).Remaining(nil, &state, morning, 1)[0].Wait
	}
	if wait(10) != 100 || wait(100) != 10 || wait(2) != 500 {
		t.Fatalf("the waits are %d, %d and %d, want 100, 10 and 500", wait(10), wait(100), wait(2))
	}
}

// Reservations are in the order in which they were requested, and no request overtakes another.
func TestReservationsAreInOrder(t *testing.T) {
	forEach(t, func(t *testing.T, v variant) {
		rapid.Check(t, func(t *rapid.T) {
			rules := drawRules(t, v, 3)
			stack := algorithms.NewStack(v.Algorithm, rules)
			var state algorithms.State
			now, last := int64(morning), int64(0)
			for range 30 {
				now += rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(0, 2_000)).Draw(t, "step")
				maxWait := rapid.SampledFrom([]int64{0, 1_000, 3_600_000}).Draw(t, "maxWait")
				got := stack.Decide(&state, algorithms.Query{Now: now, Cost: v.drawCost(t, rules), MaxWait: maxWait, ID: "x"}, nil)
				if !got.Allowed {
					continue
				}
				if got.AllowedAt < max(now, last) || got.AllowedAt > now+maxWait {
					t.Fatalf("got a reservation at %d, requested at %d with a MaxWait of %d, after one at %d", got.AllowedAt, now, maxWait, last)
				}
				last = got.AllowedAt
			}
		})
	})
}

// Cancelling the newest reservation restores the state before it. A reservation with a later one
// after it lapses, and so does one whose time has passed.
func TestCancelFreesOnlyTheNewestReservation(t *testing.T) {
	forEach(t, func(t *testing.T, v variant) {
		if !v.TakesReservations() {
			return
		}
		var state algorithms.State
		stack := v.stack(1, 10_000)
		ask := func(id string) algorithms.Result {
			return stack.Decide(&state, algorithms.Query{Now: morning, Cost: 1, MaxWait: 60_000, ID: id}, nil)
		}
		if v.options.Variant == algorithms.VariantQueue {
			stack = queue(1, 10_000, 6)
		}
		ask("first")
		second := ask("second")
		before := state.Clone()
		third := ask("third")
		if second.AllowedAt <= morning || third.AllowedAt <= second.AllowedAt {
			t.Fatalf("reservations at %d and %d", second.AllowedAt, third.AllowedAt)
		}
		for what, try := range map[string]func() bool{
			"one with a later one after it": func() bool { return state.Cancel(morning, second.AllowedAt, "second") },
			"one of another request":        func() bool { return state.Cancel(morning, third.AllowedAt, "second") },
			"one of no request":             func() bool { return state.Cancel(morning, third.AllowedAt, "") },
			"one at another time":           func() bool { return state.Cancel(morning, third.AllowedAt-1, "third") },
			"one whose time has passed":     func() bool { return state.Cancel(third.AllowedAt, third.AllowedAt, "third") },
		} {
			if try() {
				t.Errorf("Cancel of %s returned true", what)
			}
		}
		if !state.Cancel(morning+2, third.AllowedAt, "third") || state.Cancel(morning+2, third.AllowedAt, "third") {
			t.Fatal("Cancel of the newest did not return true once and then false")
		}
		if !reflect.DeepEqual(state.Numbers, before.Numbers) || state.Reservations.Newest != second.AllowedAt {
			t.Fatalf("after Cancel the state is %+v, want %+v", state, before)
		}
		if got := stack.Decide(&state, algorithms.Query{Now: morning + 2, Cost: 1}, nil); got.Allowed {
			t.Fatal("a check is allowed before the remaining reservation")
		}
		if got := ask("fourth"); got.AllowedAt != third.AllowedAt {
			t.Fatalf("the next reservation is at %d, want the cancelled one's time %d", got.AllowedAt, third.AllowedAt)
		}
	})
}

// A reservation that is further ahead than allowed is left by a clock that stepped back.
func TestClockStepBackDropsReservationsTooFarAhead(t *testing.T) {
	stack := queue(1, 10_000, 6)
	var state algorithms.State
	for range 2 {
		stack.Decide(&state, algorithms.Query{Now: morning, Cost: 1, MaxWait: 60_000, ID: "x"}, nil)
	}
	now := morning + 10_000 - timestamplog.MaxWait // the reservation is as far ahead as allowed
	if got := stack.Decide(&state, algorithms.Query{Now: now, Cost: 1}, nil); got.Changed || got.RetryAt != morning+20_000 {
		t.Fatalf("with a reservation within MaxWait: got %+v, want it kept", got)
	}
	if got := stack.Decide(&state, algorithms.Query{Now: now - 1, Cost: 1}, nil); !got.Changed || got.RetryAt != now-1+10_000 {
		t.Fatalf("with a reservation beyond MaxWait: got %+v, want it dropped", got)
	}
}
