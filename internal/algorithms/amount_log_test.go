package algorithms_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/algorithms"
)

// many is a number of requests that has runs merged several times under three rules.
const many = 6_000

// drawAmounts draws rules of the log of amounts with windows of different sizes.
func drawAmounts(t *rapid.T) []algorithms.Rule {
	rules := make([]algorithms.Rule, rapid.IntRange(1, 3).Draw(t, "rules"))
	for i := range rules {
		rules[i] = algorithms.Rule{
			Limit:  rapid.OneOf(rapid.Int64Range(1, 1_000_000), rapid.Int64Range(1, algorithms.MaxAmount)).Draw(t, "limit"),
			Window: rapid.SampledFrom([]int64{1, 100, 60_000, 3_600_000, 86_400_000}).Draw(t, "window"),
		}
	}
	return rules
}

// busy calls ask at the times of many requests that come at an uneven pace.
func busy(t *rapid.T, rules []algorithms.Rule, ask func(now, cost int64)) {
	smallest := rules[0].Limit
	for _, r := range rules {
		smallest = min(smallest, r.Limit)
	}
	steps := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 100), rapid.Int64Range(0, 60_000)), 7, 7).Draw(t, "steps")
	costs := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(1, max(1, smallest/3000)), rapid.Int64Range(1, smallest)), 11, 11).Draw(t, "costs")
	now := int64(morning)
	for i := range many {
		now += steps[i%len(steps)]
		ask(now, costs[i%len(costs)])
	}
}

// With any number of requests, the amounts of a window never exceed the limit; a wait is exact
// while all requests have runs of their own, and later too long by at most 1/256 of the window;
// and the memory is bounded.
func TestAmountsNeverExceedTheLimitAndWaitsAreNearlyExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := drawAmounts(t)
		stack := algorithms.NewStack(algorithms.ByName(algorithms.AmountLog), rules)
		most := 3 * (512 + 514*len(rules))
		var state algorithms.State
		var allowed []allowedAt
		first, merged := 0, false // of those that any window can still contain
		asked, every, longest := 0, rapid.IntRange(2, many).Draw(t, "cancels one of"), int64(0)
		for _, r := range rules {
			longest = max(longest, r.Window)
		}
		busy(t, rules, func(now, cost int64) {
			for ; first < len(allowed) && allowed[first].at+86_400_000 <= now; first++ { //nolint:revive // it only counts
			}
			earliest := now // that the exact log would allow the request
			for _, r := range rules {
				earliest = max(earliest, exactTime(allowed[first:], r, now, cost))
			}
			before := len(state.Numbers)
			got := stack.Decide(&state, algorithms.Query{Now: now, Cost: cost}, nil)
			switch {
			case got.Allowed && earliest > now:
				t.Fatalf("allowed at %d, %d ms too early", now, earliest-now)
			case !merged && !got.Allowed && got.RetryAt != earliest:
				t.Fatalf("RetryAt is %d, want %d while every request has its run", got.RetryAt-now, earliest-now)
			case !got.Allowed && got.RetryAt-earliest > rules[got.Rule].Window/256:
				t.Fatalf("the wait is too long by %d ms of a window of %d", got.RetryAt-earliest, rules[got.Rule].Window)
			}
			if len(state.Numbers) > most {
				t.Fatalf("%d numbers, want at most %d", len(state.Numbers), most)
			}
			if got.Allowed {
				merged = merged || len(state.Numbers) < before && before+3 > most
				allowed = append(allowed, allowedAt{now, cost})
			}
			if asked++; asked%every == 0 && first < len(allowed) {
				i := first + asked%(len(allowed)-first)
				if freed := state.CancelCharge(now, allowed[i].at, allowed[i].cost); !freed && allowed[i].at+longest > now {
					t.Fatalf("%+v is not cancelled at %d", allowed[i], now)
				}
				allowed = slices.Delete(allowed, i, i+1)
			}
		})
	})
}

// exactTime returns when r alone would allow a cost if every request were kept.
func exactTime(allowed []allowedAt, r algorithms.Rule, now, cost int64) int64 {
	total, i := int64(0), len(allowed)
	for i > 0 && allowed[i-1].at+r.Window > now {
		i--
		total += allowed[i].cost
	}
	free := now
	for ; total+cost > r.Limit; i++ {
		total, free = total-allowed[i].cost, allowed[i].at+r.Window
	}
	return free
}

// The Lua version merges the same runs.
func TestLuaMergesAmountsAsGoDoes(t *testing.T) {
	client := connect(t)
	script := redis.NewScript(algorithms.Lua() + `
local rules, state, at = {}, {}, 1
for i = 1, tonumber(ARGV[1]) do
  rules[i] = { limit = tonumber(ARGV[at + 1]), window = tonumber(ARGV[at + 2]), burst = 0 }
  at = at + 2
end
local stack = engine.stack('amount_log', rules)
while at < #ARGV do
  local now, cost, cancelled = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local _, retry = engine.ask(stack, state, now, cost, 0)
  if retry == 0 then engine.add(stack, state, now, now, cost, '') end
  if cancelled > 0 then engine.cancel_charge(state, now, cancelled, cost) end
  at = at + 3
end
local out, numbers = {}, engine.numbers(engine.read(engine.write(state)))
for i = 1, #numbers do out[i] = string.format('%.0f', numbers[i]) end
return table.concat(out, ' ')`)
	rapid.Check(t, func(t *rapid.T) {
		rules := drawAmounts(t)
		args := []any{len(rules)}
		for _, r := range rules {
			args = append(args, r.Limit, r.Window)
		}
		stack := algorithms.NewStack(algorithms.ByName(algorithms.AmountLog), rules)
		var s sequence
		asked, every, ago := 0, rapid.IntRange(2, many).Draw(t, "cancels one of"), rapid.Int64Range(0, 100_000).Draw(t, "ago")
		busy(t, rules, func(now, cost int64) {
			stack.Decide(&s.state, algorithms.Query{Now: now, Cost: cost}, nil)
			cancelled := int64(0)
			if asked++; asked%every == 0 {
				cancelled = now - ago%rules[0].Window
				s.state.CancelCharge(now, cancelled, cost)
			}
			args = append(args, now, cost, cancelled)
		})
		s.say(s.state.Numbers...)
		got, err := script.Run(context.Background(), client, nil, args...).Text()
		if err != nil {
			t.Fatal(err)
		}
		compare(t, strings.Fields(got), s.said)
	})
}

// Rules share the runs, so that a changed window finds what the longest window before it kept.
func TestAmountsSurviveAChangeOfWindows(t *testing.T) {
	log := algorithms.ByName(algorithms.AmountLog)
	var state algorithms.State
	old := algorithms.NewStack(log, []algorithms.Rule{{Limit: 10, Window: 1_000}, {Limit: 50, Window: 60_000}})
	old.Decide(&state, algorithms.Query{Now: morning, Cost: 8}, nil)
	next := algorithms.NewStack(log, []algorithms.Rule{{Limit: 20, Window: 30_000}})
	if got := next.Decide(&state, algorithms.Query{Now: morning + 10_000, Cost: 13}, nil); got.RetryAt != morning+30_000 {
		t.Errorf("RetryAt is %d, want 20 s", got.RetryAt-morning-10_000)
	}
	if numbers := []int64{morning, morning, 8}; !slices.Equal(state.Numbers, numbers) {
		t.Errorf("the state is %v, want %v", state.Numbers, numbers)
	}
}
