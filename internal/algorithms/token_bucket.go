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

// bucket keeps the time of the last Advance and how much was missing from its capacity then, in 1/W of a request,
// where W is the window in milliseconds. Each millisecond adds as many of these units as the limit says. So nothing is
// ever rounded, and the unit stays the same if the limit changes. Of amounts, whole units and the rest in 1/W of one
// are two numbers, each below 2^53. A full bucket has zeros.
type bucket struct{}

func (bucket) Size(r Rule) int {
	if r.Amounts {
		return 3
	}
	return 2
}

// missing returns what is missing: whole requests, and the rest in 1/W of one.
func missing(r Rule, state []int64) (whole, part int64) {
	if r.Amounts {
		return state[1], state[2]
	}
	return state[1] / r.Window, state[1] % r.Window
}

func setMissing(r Rule, state []int64, whole, part int64) {
	if r.Amounts {
		state[1], state[2] = whole, part
	} else {
		state[1] = whole*r.Window + part
	}
}

func (bucket) Advance(r Rule, state []int64, now int64) bool {
	moved := lower(&state[0], now)
	refill(r, state, now)
	return reduceMissing(r, state, r.Capacity(), 0) || moved
}

// refill adds what has accumulated since the last Advance.
func refill(r Rule, state []int64, now int64) {
	addedWhole, addedPart := scaled(now-state[0], r.Limit, r.Window)
	whole, part := missing(r, state)
	whole, part = whole-addedWhole, part-addedPart
	if part < 0 {
		whole, part = whole-1, part+r.Window
	}
	if whole < 0 || whole == 0 && part == 0 {
		clear(state)
		return
	}
	state[0] = now
	setMissing(r, state, whole, part)
}

// reduceMissing reduces what is missing to whole requests and a part of one, and reports whether it was more.
func reduceMissing(r Rule, state []int64, maxWhole, maxPart int64) bool {
	whole, part := missing(r, state)
	if whole < maxWhole || whole == maxWhole && part <= maxPart {
		return false
	}
	setMissing(r, state, maxWhole, maxPart)
	return true
}

// accumulates returns in how many milliseconds whole requests and a part of one accumulate, rounded up.
func accumulates(r Rule, whole, part int64) int64 {
	ms, left := scaled(whole, r.Window, r.Limit)
	return ms + roundedUp(left+part, r.Limit)
}

func (bucket) Wait(r Rule, state []int64, _, cost int64) int64 {
	whole, part := missing(r, state)
	over := whole + cost - r.Capacity()
	if over < 0 { // by a whole request, which is more than any part
		return 0
	}
	return accumulates(r, over, part)
}

func (bucket) Add(r Rule, state []int64, now, cost int64) {
	whole, part := missing(r, state)
	state[0] = now
	setMissing(r, state, whole+cost, part)
}

func (bucket) Remaining(r Rule, state []int64, _ int64) int64 {
	whole, part := missing(r, state)
	if part > 0 {
		whole++
	}
	return r.Capacity() - whole
}

func (bucket) TTL(r Rule, state []int64, _ int64) int64 {
	whole, part := missing(r, state)
	return accumulates(r, whole, part)
}
