package rules_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/rules"
)

func TestFullSpeedMatchesRequestsEveryMillisecond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stack := drawSmallStack(t)
		const until = 40
		want := askEveryMillisecond(stack, until)
		var got []time.Duration
		for at := range stack.FullSpeed() {
			if at >= until*time.Millisecond {
				break
			}
			got = append(got, at)
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d requests at full speed, want %d: %v, %v", stack, len(got), len(want), got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%s: request %d is allowed at %v, want %v", stack, i+1, got[i], want[i])
			}
		}
	})
}

// askEveryMillisecond sends requests once every millisecond until one is refused.
func askEveryMillisecond(stack rules.Stack, until int) (times []time.Duration) {
	var state recent
	for ms := range until {
		copy(state[1:], state[:smallWindow-1])
		state[0] = 0
		for len(refusingRules(stack, state, 1)) == 0 {
			state[0]++
			times = append(times, time.Duration(ms)*time.Millisecond)
		}
	}
	return times
}

func TestFullSpeedEndsBeforeItsTimesOverflow(t *testing.T) {
	last := time.Duration(-1)
	for at := range mustStack(t, "1/31d").FullSpeed() {
		if at <= last {
			t.Fatalf("%v comes after %v", at, last)
		}
		last = at
	}
	if last < 200*365*24*time.Hour {
		t.Errorf("the last time is %v, want centuries", last)
	}
}

func TestUsedUpReturnsWhenEachLimitIsReached(t *testing.T) {
	for text, want := range map[string]map[string]time.Duration{
		"1/s 20/m 200/h 800/d": {"1/1s": 0, "20/1m": 19 * time.Second, "200/1h": 9*time.Minute + 19*time.Second, "800/1d": 3*time.Hour + 9*time.Minute + 19*time.Second},
		"1/s 20/m 800/d":       {"1/1s": 0, "20/1m": 19 * time.Second, "800/1d": 39*time.Minute + 19*time.Second},
		"5/s 100000/31d":       {"5/1s": 0, "100000/31d": 19999 * time.Second},
		"20/s 10/m":            {"10/1m": 0},
		"0/s 10/m":             {},
		"":                     {},
	} {
		got := mustStack(t, text).UsedUp()
		if len(got) != len(want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
		for _, u := range got {
			if u.After != want[u.Rule.String()] {
				t.Errorf("%q: %s is used up after %v, want %v", text, u.Rule, u.After, want[u.Rule.String()])
			}
		}
	}
}

func BenchmarkWarningsOfTheLargestStack(b *testing.B) {
	var all []rules.Rule
	for i := range rules.MaxRules {
		all = append(all, rules.Rule{Limit: rules.MaxLimit - rules.MaxRules + i, Window: time.Duration(i+1) * time.Hour})
	}
	stack, err := rules.NewStack(all...)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		stack.Warnings()
	}
}
