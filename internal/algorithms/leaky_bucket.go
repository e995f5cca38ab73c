package algorithms

import _ "embed"

// LeakyBucket is the name of the bucket that drains, and of the queue.
const LeakyBucket = "leaky_bucket"

//go:embed leaky_bucket.lua
var leakyBucketLua string

var leakyBucket = Algorithm{
	Name:  LeakyBucket,
	Title: "leaky bucket",
	Summary: "As a meter, a bucket that each request fills by its cost, that drains at an even pace and must not run over; it decides as a token bucket does. " +
		"As a queue, a check with max_wait is answered with the time at which its request may leave, and the caller waits until then: one after the other at an even pace, " +
		"and of requests of cost 1 never more than N in any window. Without max_wait, a request that may not leave at once is refused.",
	Options: []string{OptionBurst, OptionVariant},
	Counter: leakyBucketCounter{},
	Lua:     leakyBucketLua,
}

// leakyBucketCounter keeps the time of the last Advance and how full the bucket was then, as the token bucket
// keeps what is missing.
//
// As a queue, the bucket holds the requests that have not yet left. A request leaves when all
// requests before it have left, and the next one may follow when the cost of that request has
// drained at the pace of the limit. Departures are at fractions of a millisecond; a request may
// leave in the millisecond of its departure, so that no pace is lost.
type leakyBucketCounter struct{}

func (leakyBucketCounter) Size(r Rule) int { return bucket{}.Size(r) }

func (leakyBucketCounter) Advance(r Rule, state []int64, now int64) bool {
	if r.Variant != VariantQueue {
		return bucket{}.Advance(r, state, now)
	}
	moved := lower(&state[0], now)
	refill(r, state, now)
	// The most that one request under this limit can leave in the bucket.
	whole, part := scaled(r.Limit, r.Window+1, r.Window)
	return reduceMissing(r, state, whole, part) || moved
}

func (leakyBucketCounter) Wait(r Rule, state []int64, now, cost int64) int64 {
	if r.Variant != VariantQueue {
		return bucket{}.Wait(r, state, now, cost)
	}
	whole, part := missing(r, state)
	ms, left := scaled(whole, r.Window, r.Limit)
	return ms + (left+part)/r.Limit
}

func (leakyBucketCounter) Add(r Rule, state []int64, now, cost int64) {
	bucket{}.Add(r, state, now, cost)
}

func (c leakyBucketCounter) Remaining(r Rule, state []int64, now int64) int64 {
	if r.Variant != VariantQueue {
		return bucket{}.Remaining(r, state, now)
	}
	if c.Wait(r, state, now, 1) > 0 {
		return 0
	}
	return min(r.Limit, r.Capacity())
}

func (leakyBucketCounter) TTL(r Rule, state []int64, now int64) int64 {
	return bucket{}.TTL(r, state, now)
}

// MaxDelay returns the milliseconds in which a full queue empties, or Never if the bucket is not
// a queue or its limit is 0.
func (leakyBucketCounter) MaxDelay(r Rule) int64 {
	if r.Variant != VariantQueue || r.Limit == 0 {
		return Never
	}
	ms, _ := scaled(r.Capacity(), r.Window, r.Limit)
	return ms
}
