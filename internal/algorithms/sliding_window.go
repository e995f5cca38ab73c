package algorithms

import _ "embed"

// SlidingWindow is the name of the counter that also weighs the previous window.
const SlidingWindow = "sliding_window"

//go:embed sliding_window.lua
var slidingWindowLua string

var slidingWindow = Algorithm{
	Name:  SlidingWindow,
	Title: "sliding window",
	Summary: "Counts the requests of the window of the clock, and adds those of the window before by the part of it that still counts, " +
		"as if they had come evenly. Never more than N in one window of the clock; up to nearly 2N around the instant at which it ends, the more of them the later.",
	Counter: slidingWindowCounter{},
	Lua:     slidingWindowLua,
}

// slidingWindowCounter keeps the time at which the present clock window began, the cost allowed
// since then, and the cost allowed in the window before. The estimate is
//
//	current + previous * (window - elapsed) / window
//
// (Cloudflare, "How we built rate limiting capable of scaling to millions of domains", 2017).
// Costs are whole numbers, so that rounding the estimate up changes no comparison.
type slidingWindowCounter struct{}

func (slidingWindowCounter) Size(Rule) int { return 3 }

func (slidingWindowCounter) Advance(r Rule, state []int64, now int64) bool {
	switch behind := now - state[0]; {
	case behind >= 2*r.Window:
		clear(state)
	case behind >= r.Window:
		state[0], state[1], state[2] = state[0]+r.Window, 0, state[1]
		if state[2] == 0 {
			state[0] = 0
		}
	}
	return lower(&state[0], clockWindowAhead(now, r.Window))
}

// room returns the limit less the estimate, rounded down.
func (slidingWindowCounter) room(r Rule, state []int64, now int64) int64 {
	elapsed := min(max(0, now-state[0]), r.Window)
	return r.Limit - state[1] - scaledUp(state[2], r.Window-elapsed, r.Window)
}

func (c slidingWindowCounter) Wait(r Rule, state []int64, now, cost int64) int64 {
	if cost <= c.room(r, state, now) {
		return 0
	}
	begins, counted, fading := state[0], state[1], state[2]
	if counted+cost > r.Limit { // allowed only once this window is the previous one
		begins, counted, fading = begins+r.Window, 0, counted
	}
	// fading * (window - elapsed) must be at most the rest of the limit.
	unfaded, _ := scaled(r.Limit-counted-cost, r.Window, fading)
	return begins + r.Window - unfaded - now
}

func (slidingWindowCounter) Add(r Rule, state []int64, now, cost int64) {
	if state[0] == 0 {
		state[0] = clockWindow(now, r.Window)
	}
	state[1] += cost
}

func (c slidingWindowCounter) Remaining(r Rule, state []int64, now int64) int64 {
	return max(0, c.room(r, state, now))
}

func (slidingWindowCounter) TTL(r Rule, state []int64, now int64) int64 {
	switch {
	case state[1] > 0:
		return state[0] + 2*r.Window - now
	case state[2] > 0:
		return state[0] + r.Window - now
	}
	return 0
}
