package algorithms

import _ "embed"

// GCRA is the name of the generic cell rate algorithm.
const GCRA = "gcra"

//go:embed gcra.lua
var gcraLua string

var gcra = Algorithm{
	Name:  GCRA,
	Title: "generic cell rate algorithm",
	Summary: "Keeps one instant, at which the next request is due if all come at an even pace, and lets them be early by as much as the burst allows. " +
		"It decides as a token bucket does, and keeps half as much.",
	Options: []string{OptionBurst},
	Counter: gcraCounter{},
	Lua:     gcraLua,
}

// gcraCounter keeps the theoretical arrival time of ITU-T I.371 (the virtual scheduling
// algorithm), in fractions of a millisecond since 1970. Here it is the time at which the bucket
// would be empty again. A request moves it ahead by its cost times the emission interval. The
// request is allowed if it is then ahead of now by at most the burst times the interval. The
// interval is rounded up to a whole fraction, so that a burst is exact and the pace is never too
// fast. It is too slow by less than N/1024 of a millisecond in a window. For limits above MaxBurst
// that would be much, so the span of a whole request is rounded up there: the pace is too slow by
// less than 1/1024 of a millisecond for each request, and a burst too large by what it gives in one.
type gcraCounter struct{}

const (
	finestFraction = 1024
	// Times up to the year 2110 and whole numbers below 2^53 are kept exactly.
	latestTime   = 4_420_000_000_000
	exactNumbers = 1 << 53
)

// fractionOf returns into how many fractions a millisecond is divided: 1024, or fewer if the
// burst is so large and the window so long that the arrival time could not be represented
// exactly. It does not depend on the limit.
func fractionOf(r Rule) int64 {
	fraction := int64(finestFraction)
	burst := int64(r.Burst)
	if burst > MaxBurst { // then it is at most the limit
		burst = 1
	}
	for furthest := latestTime + max(1, burst)*r.Window; furthest*fraction >= exactNumbers; {
		fraction /= 2
	}
	return fraction
}

// span returns by how many fractions a cost moves the arrival time ahead.
func (gcraCounter) span(r Rule, cost int64) int64 {
	window := r.Window * fractionOf(r)
	if r.Limit > MaxBurst {
		return scaledUp(cost, window, r.Limit)
	}
	return cost * roundedUp(window, r.Limit)
}

func (gcraCounter) Size(Rule) int { return 1 }

func (c gcraCounter) Advance(r Rule, state []int64, now int64) bool {
	present := now * fractionOf(r)
	if state[0] <= present {
		state[0] = 0
		return false
	}
	return lower(&state[0], present+c.span(r, r.Capacity()))
}

// ahead returns how far the arrival time is ahead of now, in fractions.
func (gcraCounter) ahead(r Rule, state []int64, now int64) int64 {
	return max(0, state[0]-now*fractionOf(r))
}

func (c gcraCounter) Wait(r Rule, state []int64, now, cost int64) int64 {
	return roundedUp(max(0, c.ahead(r, state, now)+c.span(r, cost)-c.span(r, r.Capacity())), fractionOf(r))
}

func (c gcraCounter) Add(r Rule, state []int64, now, cost int64) {
	state[0] = max(state[0], now*fractionOf(r)) + c.span(r, cost)
}

func (c gcraCounter) Remaining(r Rule, state []int64, now int64) int64 {
	left := c.span(r, r.Capacity()) - c.ahead(r, state, now)
	if r.Limit <= MaxBurst {
		return left / c.span(r, 1)
	}
	cost, _ := scaled(left, r.Limit, r.Window*fractionOf(r))
	return min(cost, r.Capacity())
}

func (c gcraCounter) TTL(r Rule, state []int64, now int64) int64 {
	return roundedUp(c.ahead(r, state, now), fractionOf(r))
}
