package algorithms

import _ "embed"

// SlidingBuckets is the name of the counter with sub-windows.
const SlidingBuckets = "sliding_buckets"

//go:embed sliding_buckets.lua
var slidingBucketsLua string

var slidingBuckets = Algorithm{
	Name:  SlidingBuckets,
	Title: "sliding buckets",
	Summary: "Counts the requests of each sixtieth of the window and adds up the last sixty. " +
		"Never more than N in 59 sixtieths of a window; requests leave the count up to a sixtieth of the window early.",
	Counter: slidingBucketsCounter{},
	Lua:     slidingBucketsLua,
}

// maxBuckets is the number of sub-windows of a window. A window shorter than 60 ms has one for
// each millisecond.
const maxBuckets = 60

// slidingBucketsCounter keeps the number of the newest sub-window, counted from 1970, and the
// cost allowed in it and in the sub-windows before it, newest first. If a window has n
// sub-windows, sub-window i begins at i * window / n, rounded up to a millisecond (Figma, "An
// alternative approach to rate limiting", 2017).
type slidingBucketsCounter struct{}

func bucketsOf(r Rule) int64 { return min(maxBuckets, r.Window) }

func (slidingBucketsCounter) Size(r Rule) int { return 1 + int(bucketsOf(r)) }

func (slidingBucketsCounter) Advance(r Rule, state []int64, now int64) bool {
	n := bucketsOf(r)
	present := now * n / r.Window
	counts := state[1:]
	if passed := present - state[0]; passed >= n {
		clear(state)
	} else if passed > 0 {
		copy(counts[passed:], counts)
		clear(counts[:passed])
		state[0] = present
		if sum(counts) == 0 {
			state[0] = 0
		}
	}
	// A count one sub-window ahead is kept, so that a clock that steps back repeatedly over the
	// beginning of a sub-window loses nothing early.
	return lower(&state[0], present+1)
}

func (slidingBucketsCounter) Wait(r Rule, state []int64, now, cost int64) int64 {
	counts := state[1:]
	over := sum(counts) + cost - r.Limit
	if over <= 0 {
		return 0
	}
	age := len(counts)
	for over > 0 {
		age--
		over -= counts[age]
	}
	return bucketLeaves(r, state[0]-int64(age)) - now
}

// bucketLeaves returns when a sub-window is no longer counted.
func bucketLeaves(r Rule, number int64) int64 {
	n := bucketsOf(r)
	return roundedUp((number+n)*r.Window, n)
}

func (slidingBucketsCounter) Add(r Rule, state []int64, now, cost int64) {
	if state[0] == 0 {
		state[0] = now * bucketsOf(r) / r.Window
	}
	state[1] += cost
}

func (slidingBucketsCounter) Remaining(r Rule, state []int64, _ int64) int64 {
	return max(0, r.Limit-sum(state[1:]))
}

func (slidingBucketsCounter) TTL(r Rule, state []int64, now int64) int64 {
	for age, count := range state[1:] {
		if count > 0 {
			return bucketLeaves(r, state[0]-int64(age)) - now
		}
	}
	return 0
}

func sum(numbers []int64) int64 {
	var total int64
	for _, n := range numbers {
		total += n
	}
	return total
}
