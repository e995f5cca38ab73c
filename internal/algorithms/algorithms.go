// Package algorithms holds the ways to count that a policy may name: one file
// each, in Go for the log in memory and beside it in Lua for Redis, and one line
// in All. Two of them are logs, which keep a time for each request and are
// exact; the others are counters, which keep a few numbers for each rule
// whatever the limit.
package algorithms

import "slices"

// Algorithm is one way to count.
type Algorithm struct {
	// Name is what policies, the API and the documentation call it.
	Name string
	// Title is its name in a sentence, and Summary one sentence about what it
	// keeps and promises, for people who choose.
	Title, Summary string
	// Exact says that it never lets more than N into any window and never
	// refuses needlessly.
	Exact bool
	// Options says which options it takes, by their names in the API.
	Options []string
	// Counter is how it counts; nil for the two logs.
	Counter Counter
	// Lua is how it counts on Redis, as engine.lua describes it; "" for the two
	// logs, which are the function library's own.
	Lua string
}

// IsLog reports whether it keeps the time of each request.
func (a *Algorithm) IsLog() bool { return a.Counter == nil }

// Takes reports whether it takes the option of that name.
func (a *Algorithm) Takes(option string) bool { return slices.Contains(a.Options, option) }

// The names of the options, as in the API.
const (
	OptionBurst        = "burst"
	OptionCountRefused = "count_refused"
	OptionWindowStart  = "window_start"
	OptionVariant      = "variant"
)

// Options are the settings of an algorithm in a policy. The zero value leaves each at
// its default.
type Options struct {
	// Burst is how many requests, by cost, may come at once after a pause: the
	// capacity of the bucket of each rule, or how many may wait in its queue.
	// 0 means each rule's own limit.
	Burst int
	// CountRefused has refused requests count too, the one stated exception to
	// "a refused request uses no quota".
	CountRefused bool
	// WindowStart is WindowClock or WindowFirst; "" means WindowClock.
	WindowStart string
	// Variant is VariantMeter or VariantQueue; "" means VariantMeter.
	Variant string
}

// The values of Options.WindowStart.
const (
	WindowClock = "clock"         // windows begin at multiples of their length since 1970
	WindowFirst = "first_request" // a window begins with the first request after the last one
)

// The values of Options.Variant.
const (
	VariantMeter = "meter" // a bucket that drains, and refuses what would make it run over
	VariantQueue = "queue" // a queue that lets one request out at a time, at an even pace
)

// Rule is one rule as a counter sees it.
type Rule struct {
	Limit  int64 // at most so much cost; 0 refuses everything
	Window int64 // milliseconds
	Options
}

// Capacity returns how much may come at once: Burst, or the limit where it is 0.
func (r Rule) Capacity() int64 {
	if r.Burst > 0 {
		return int64(r.Burst)
	}
	return r.Limit
}

// Counter counts by a few whole numbers for each rule, each less than 2^53 so
// that Lua holds it exactly. A state of zeros is that of a key that never came.
// Every method but Size and Advance gets a state that Advance has brought to now. No
// limit is 0; for Wait, neither the limit nor the Capacity is less than the cost; for
// Add, Wait was 0 for the cost, or Remaining is not less. Stack handles the other cases.
type Counter interface {
	// Size returns how many numbers are kept for r. It depends on nothing but
	// r's window and options, so that a changed limit finds its state.
	Size(r Rule) int
	// Advance brings a state to now, in Unix milliseconds: it ends windows that have
	// passed and drains what has drained. A state that is further ahead of now than r
	// allows, because the clock stepped back or the limit changed, is shifted back to
	// that bound. It reports whether it was; the state must then be stored even if the
	// request is refused, or each later request would shift it again.
	Advance(r Rule, state []int64, now int64) (shifted bool)
	// Wait returns how many milliseconds from now a request of that cost would
	// have to wait if nobody else came, 0 where it is allowed now. It is exact:
	// a millisecond earlier is refused, and later it is allowed.
	Wait(r Rule, state []int64, now, cost int64) int64
	// Add counts a request that was allowed.
	Add(r Rule, state []int64, now, cost int64)
	// Remaining returns how much cost would be allowed now in total, at least 0.
	Remaining(r Rule, state []int64, now int64) int64
	// TTL returns how many milliseconds from now the state will be equivalent to zeros
	// without further requests, 0 if it is now.
	TTL(r Rule, state []int64, now int64) int64
}

// Queue is a Counter that bounds how far ahead a reservation may be.
type Queue interface {
	Counter
	// MaxDelay returns that bound in milliseconds, Never for none.
	MaxDelay(r Rule) int64
}

// All returns the algorithms, the default first. A new one is one line here.
func All() []*Algorithm { return all }

// ByName returns the algorithm of that name, nil where there is none.
func ByName(name string) *Algorithm {
	for _, a := range all {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// Names returns the names of all, in the order of All.
func Names() []string {
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = a.Name
	}
	return names
}

var all = []*Algorithm{
	&timestampLog,
	&sortedSetLog,
	&fixedWindow,
	&slidingWindow,
	&slidingBuckets,
	&tokenBucket,
	&leakyBucket,
	&gcra,
}
