// Package algorithms contains the ways to count among which a policy chooses. Each has one file
// in Go for the log in memory, one in Lua for Redis, and one line in All. Two of them are logs,
// which keep the time of each request and are exact. The log of amounts keeps times with amounts.
// The others are counters, which keep a few numbers for each rule, whatever its limit.
package algorithms

import "slices"

// Algorithm is one way to count.
type Algorithm struct {
	// Name is the name in policies, the API and the documentation.
	Name string
	// Title is the name in a sentence. Summary is one sentence about what the algorithm keeps and
	// guarantees, for people who choose one.
	Title, Summary string
	// Exact reports whether it never allows more than N in any window and never refuses
	// needlessly.
	Exact bool
	// Options are the names in the API of the options that it supports.
	Options []string
	// Amounts marks the log of amounts and the log of points.
	Amounts bool
	// Counter is the implementation for the log in memory; nil for the three logs.
	Counter Counter
	// Lua is the implementation for Redis, as engine.lua describes it; "" for the two logs of
	// requests, which are part of the function library.
	Lua string
}

// IsLog reports whether the algorithm keeps the time of each request.
func (a *Algorithm) IsLog() bool { return a.Counter == nil && !a.Amounts }

// TakesAmounts reports whether the algorithm of that name takes limits and costs up to MaxAmount: the log of
// amounts and the counters.
func TakesAmounts(name string) bool {
	a := ByName(name)
	return a != nil && (a.Name == AmountLog || a.Counter != nil)
}

// NeedsUnit reports whether limits above those of requests need a unit, because the algorithm then keeps a state
// of another form.
func (a *Algorithm) NeedsUnit() bool {
	return a.Counter != nil && a.Counter.Size(Rule{Window: 1}) != a.Counter.Size(Rule{Window: 1, Amounts: true})
}

// TakesReservations reports whether a request may be allowed for a time ahead.
func (a *Algorithm) TakesReservations() bool { return !a.Amounts }

// Takes reports whether the algorithm supports an option.
func (a *Algorithm) Takes(option string) bool { return slices.Contains(a.Options, option) }

// The names of the options, as in the API.
const (
	OptionBurst        = "burst"
	OptionCountRefused = "count_refused"
	OptionWindowStart  = "window_start"
	OptionVariant      = "variant"
)

// Options are the settings of an algorithm in a policy. Zero values mean the defaults.
type Options struct {
	// Burst is how many requests, by cost, are allowed at once after a pause: the capacity of the
	// bucket of each rule, or how many may wait in its queue. 0 means each rule's own limit.
	Burst int
	// CountRefused makes refused requests count too. It is the only exception to the guarantee
	// that a refused request uses no quota.
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
	VariantMeter = "meter" // a bucket that drains, and refuses what would make it overflow
	VariantQueue = "queue" // a queue that releases one request at a time, at an even pace
)

// Rule is one rule as counters use it.
type Rule struct {
	Limit  int64 // largest total cost; 0 refuses everything
	Window int64 // milliseconds; 0 for a limit on how many holds are open at once
	// Calendar makes the log of amounts count what was charged since the present period began; nil for a
	// window that slides. Window is then at least as long as any period.
	Calendar *Calendar
	// Amounts is set if the limit is of amounts with a unit. The buckets then take limits up to MaxAmount.
	Amounts bool
	Options
}

// Capacity returns how much is allowed at once: Burst, or the limit if Burst is 0. A Burst above MaxBurst is at most
// the limit, so that a bucket fills within its window.
func (r Rule) Capacity() int64 {
	if r.Burst > 0 {
		return min(int64(r.Burst), max(MaxBurst, r.Limit))
	}
	return r.Limit
}

// since returns the last time that does not count at now any more.
func (r *Rule) since(now int64) int64 {
	if r.Calendar == nil {
		return now - r.Window
	}
	start, _ := r.Calendar.Period(now)
	return start - 1
}

// leaves returns when what was charged at a time up to now stops counting.
func (r *Rule) leaves(at, now int64) int64 {
	if r.Calendar == nil {
		return at + r.Window
	}
	if start, end := r.Calendar.Period(now); at >= start {
		return end
	}
	return at
}

// Counter counts with a few whole numbers for each rule, each less than 2^53 so that Lua
// represents it exactly. A state of zeros is that of a key without requests. All methods except
// Size and Advance require a state that Advance has brought to now. No limit is 0. For Wait,
// neither the limit nor the Capacity is less than the cost. For Add, Wait was 0 for the cost, or
// Remaining is not less than the cost. Stack handles all other cases.
type Counter interface {
	// Size returns how many numbers are kept for r. It depends only on r's window, unit and options, so
	// that the state remains usable if the limit changes.
	Size(r Rule) int
	// Advance brings a state to now, in Unix milliseconds: it ends windows that have passed and
	// drains buckets. If the state is further ahead of now than r allows, because the clock
	// stepped back or the limit changed, Advance shifts it back to that bound and returns true.
	// The state must then be stored even if the request is refused, or each later request would
	// shift it again.
	Advance(r Rule, state []int64, now int64) (shifted bool)
	// Wait returns how many milliseconds from now a request of that cost would have to wait if
	// nobody else came, 0 if it is allowed now. The result is exact: the request is refused a
	// millisecond earlier, and allowed at any later time.
	Wait(r Rule, state []int64, now, cost int64) int64
	// Add counts a request that was allowed.
	Add(r Rule, state []int64, now, cost int64)
	// Remaining returns the total cost that would be allowed now, at least 0.
	Remaining(r Rule, state []int64, now int64) int64
	// TTL returns how many milliseconds from now the state becomes equivalent to zeros if there
	// are no further requests, 0 if it is equivalent now.
	TTL(r Rule, state []int64, now int64) int64
}

// Queue is a Counter that bounds how far ahead a reservation may be.
type Queue interface {
	Counter
	// MaxDelay returns that bound in milliseconds, Never if there is none.
	MaxDelay(r Rule) int64
}

// All returns the algorithms among which a policy chooses, the default first. A new algorithm needs
// one line here.
func All() []*Algorithm { return all }

// WithPoints returns All and the log of points, which belongs to policies with evidence.
func WithPoints() []*Algorithm { return append(slices.Clip(all), &pointLog) }

// ByName returns the algorithm with that name, nil if there is none. Unlike All it knows the log of
// points too.
func ByName(name string) *Algorithm {
	for _, a := range all {
		if a.Name == name {
			return a
		}
	}
	if name == pointLog.Name {
		return &pointLog
	}
	return nil
}

// Names returns the names of all algorithms, in the order of All.
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
	&amountLog,
	&fixedWindow,
	&slidingWindow,
	&slidingBuckets,
	&tokenBucket,
	&leakyBucket,
	&gcra,
}
