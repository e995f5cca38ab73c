package algorithms

import _ "embed"

// TokenBucket is the name of the bucket that fills.
const TokenBucket = "token_bucket"

//go:embed token_bucket.lua
var tokenBucketLua string

var tokenBucket = Algorithm{
	Name:  TokenBucket,
	Title: "token bucket",
	Summary: "A bucket of tokens that fills at an even pace, and from which each request takes its cost. " +
		"Never more than the burst and what the pace gives: within t of time, burst + N*t/W; with the default burst, up to 2N in one window.",
	Options: []string{OptionBurst},
	Counter: bucket{},
	Lua:     tokenBucketLua,
}

// bucket keeps the time of the last Advance and how much was missing from its capacity then, in
// 1/W of a request, where W is the window in milliseconds. Each millisecond adds as many of these
// units as the limit says. So nothing is ever rounded, and the unit stays the same if the limit
// changes. A full bucket has zeros.
type bucket struct{}

func (bucket) Size(Rule) int { return 2 }

func (bucket) Advance(r Rule, state []int64, now int64) bool {
	moved := lower(&state[0], now)
	refill(r, state, now)
	return lower(&state[1], r.Capacity()*r.Window) || moved
}

// refill adds what has accumulated since the last Advance.
func refill(r Rule, state []int64, now int64) {
	elapsed := now - state[0]
	if elapsed >= roundedUp(state[1], r.Limit) { // checked first, because the product could overflow
		state[0], state[1] = 0, 0
		return
	}
	state[0], state[1] = now, state[1]-elapsed*r.Limit
}

func (bucket) Wait(r Rule, state []int64, _, cost int64) int64 {
	return roundedUp(max(0, state[1]+(cost-r.Capacity())*r.Window), r.Limit)
}

func (bucket) Add(r Rule, state []int64, now, cost int64) {
	state[0], state[1] = now, state[1]+cost*r.Window
}

func (bucket) Remaining(r Rule, state []int64, _ int64) int64 {
	return (r.Capacity()*r.Window - state[1]) / r.Window
}

func (bucket) TTL(r Rule, state []int64, _ int64) int64 {
	return roundedUp(state[1], r.Limit)
}
