package algorithms

import _ "embed"

// FixedWindow is the name of the counter per window.
const FixedWindow = "fixed_window"

//go:embed fixed_window.lua
var fixedWindowLua string

var fixedWindow = Algorithm{
	Name:  FixedWindow,
	Title: "fixed window",
	Summary: "Counts the requests of each window and starts at zero in the next: it needs the least memory. " +
		"Never more than N in one window of the clock, but up to 2N around the instant at which it ends.",
	Options: []string{OptionWindowStart},
	Counter: fixedWindowCounter{},
	Lua:     fixedWindowLua,
}

// fixedWindowCounter keeps the time at which the window began and the cost allowed since; both
// are 0 if there is no window.
type fixedWindowCounter struct{}

func (fixedWindowCounter) Size(Rule) int { return 2 }

func (fixedWindowCounter) Advance(r Rule, state []int64, now int64) bool {
	if now-state[0] >= r.Window {
		state[0], state[1] = 0, 0
		return false
	}
	latest := now
	if r.WindowStart != WindowFirst {
		latest = clockWindowAhead(now, r.Window)
	}
	return lower(&state[0], latest)
}

func (fixedWindowCounter) Wait(r Rule, state []int64, now, cost int64) int64 {
	if state[1]+cost <= r.Limit {
		return 0
	}
	return state[0] + r.Window - now
}

func (fixedWindowCounter) Add(r Rule, state []int64, now, cost int64) {
	if state[1] == 0 {
		state[0] = now
		if r.WindowStart != WindowFirst {
			state[0] = clockWindow(now, r.Window)
		}
	}
	state[1] += cost
}

func (fixedWindowCounter) Remaining(r Rule, state []int64, _ int64) int64 {
	return max(0, r.Limit-state[1])
}

func (fixedWindowCounter) TTL(r Rule, state []int64, now int64) int64 {
	if state[1] == 0 {
		return 0
	}
	return state[0] + r.Window - now
}
