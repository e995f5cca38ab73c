package rules

import (
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
)

// Describe says in plain words what the policy's rules mean under its algorithm. It leaves out
// the rules in Warnings, because they have no effect.
func (p *Policy) Describe() string {
	a := algorithms.ByName(p.Algorithm)
	if a == nil || a.Exact {
		text := p.Rules.Describe()
		if p.Options.CountRefused {
			text += " Refused requests count too: a client that keeps sending requests is refused until it pauses."
		}
		return text
	}
	binding := p.binding()
	switch {
	case len(binding) == 0, binding.refusesAll():
		return binding.Describe()
	}
	if words := counterWords[p.Algorithm]; words != nil {
		return words(p, binding)
	}
	return binding.each("%s in any %s", inFull) + ". " + a.Summary
}

// counterWords has the functions that describe counters: what each rule allows and, in the next
// sentence, what it does not guarantee. The sources of these statements are in
// docs/ALGORITHMS.md.
var counterWords = map[string]func(*Policy, Stack) string{
	algorithms.FixedWindow:    describeFixedWindow,
	algorithms.SlidingWindow:  describeSlidingWindow,
	algorithms.SlidingBuckets: describeSlidingBuckets,
	algorithms.TokenBucket:    describeBucket,
	algorithms.LeakyBucket:    describeLeakyBucket,
	algorithms.GCRA:           describeBucket,
}

func describeFixedWindow(p *Policy, s Stack) string {
	twice := s.each("%s in a %s", func(r Rule) (string, string) { return grouped(2 * int64(r.Limit)), windowInWords(r.Window) })
	if p.Options.WindowStart == algorithms.WindowFirst {
		return "At most " + s.each("%s in the %s after a first request", inFull) +
			"; the next request after it begins another. Across its end up to twice as many come: " + twice + "."
	}
	return "At most " + s.each("%s in each %s of the clock", inFull) + ". Across the end of one up to twice as many come: " + twice + "."
}

func describeSlidingWindow(_ *Policy, s Stack) string {
	return "At most " + s.each("%s in each %s of the clock", inFull) +
		". In other stretches that long nearly twice as many can come, though never at once; and a request is now and then refused needlessly, since the window before is taken to have been even."
}

func describeSlidingBuckets(_ *Policy, s Stack) string {
	coarse := false
	text := "At most " + s.each("%s in any %s", func(r Rule) (string, string) {
		step := r.Window / 60
		if r.Window < 60*time.Millisecond {
			return inFull(r)
		}
		coarse = true
		return grouped(int64(r.Limit)), lengthInWords(r.Window - step)
	}) + "."
	if coarse {
		text += " Requests leave the count up to a sixtieth of a window early, so that up to twice as many can lie within a whole one."
	}
	return text
}

func describeBucket(p *Policy, s Stack) string {
	return "At most " + strings.Join(s.clauses("%s at once, then %s", func(r Rule) (string, string) {
		return grouped(p.capacity(r)), evenly(r)
	}), "; and ") + ". So never more than " + s.each("%s in any %s", func(r Rule) (string, string) {
		return grouped(p.capacity(r) + int64(r.Limit)), windowInWords(r.Window)
	}) + "."
}

func describeLeakyBucket(p *Policy, s Stack) string {
	if p.Options.Variant != algorithms.VariantQueue {
		return describeBucket(p, s)
	}
	slowest := s[0]
	for _, r := range s {
		if !slowest.isAtMostAsFastAs(r) {
			slowest = r
		}
	}
	return "One request after the other: " + evenly(slowest) + ". A request that waits gets the next reservation, at most " + lengthInWords(p.queue(s)) +
		" ahead; one that does not wait is refused unless it may leave at once."
}

// capacity returns how much a bucket of r holds, or how many requests its queue holds.
func (p *Policy) capacity(r Rule) int64 {
	return Stack{r}.Counted(p.Options)[0].Capacity()
}

// queue returns the maximum wait for a reservation: how long the fastest queue takes to empty
// when it is full.
func (p *Policy) queue(s Stack) time.Duration {
	var shortest time.Duration
	for _, r := range s {
		if empties := time.Duration(float64(r.Window) * float64(p.capacity(r)) / float64(r.Limit)); shortest == 0 || empties < shortest {
			shortest = empties
		}
	}
	return shortest
}

// evenly returns a phrase for the pace of r: "one every 3 seconds", "50 every second".
func evenly(r Rule) string {
	if pace := r.Pace(); pace >= time.Second {
		return "one every " + lengthInWords(pace)
	}
	return fmt.Sprintf("%s every %s, evenly", grouped(int64(r.Limit)), windowInWords(r.Window))
}

// lengthInWords formats a duration that need not be a whole number of units, by its two longest
// units. Below a minute it includes tenths of a second.
func lengthInWords(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute && d%time.Second >= 50*time.Millisecond:
		return fmt.Sprintf("%.1f seconds", d.Seconds())
	}
	return inWords(d.Truncate(time.Second))
}

// inFull returns a rule's limit and its window.
func inFull(r Rule) (limit, window string) { return grouped(int64(r.Limit)), windowInWords(r.Window) }

// each formats one clause for each rule and joins them.
func (s Stack) each(format string, words func(Rule) (string, string)) string {
	return list(s.clauses(format, words))
}

func (s Stack) clauses(format string, words func(Rule) (string, string)) []string {
	clauses := make([]string, len(s))
	for i, r := range s {
		first, second := words(r)
		clauses[i] = fmt.Sprintf(format, first, second)
	}
	return clauses
}

// DescribeCounting returns the title of the algorithm and the options that differ from their
// defaults: "GCRA, burst 50".
func (p *Policy) DescribeCounting() string {
	text := p.Algorithm
	if a := algorithms.ByName(p.Algorithm); a != nil {
		text = a.Title
	}
	if p.Options.Burst != 0 {
		text += ", burst " + grouped(int64(p.Options.Burst))
	}
	if p.Options.CountRefused {
		text += ", refused requests count too"
	}
	if p.Options.WindowStart == algorithms.WindowFirst {
		text += ", windows from the first request"
	}
	if p.Options.Variant == algorithms.VariantQueue {
		text += ", as a queue"
	}
	return text
}

// maxCheapLimit is the largest limit for which Advice does not suggest a counter.
const maxCheapLimit = 5000

// Advice suggests what would suit the policy's rules better, "" for nothing.
func (p *Policy) Advice() string {
	a := algorithms.ByName(p.Algorithm)
	if largest := p.Rules.LargestLimit(); a != nil && a.IsLog() && largest > maxCheapLimit {
		return "This keeps up to " + grouped(int64(largest)) + " times for each key. Beyond some thousands a counter costs far less: " +
			"sliding buckets keep at most 61 numbers for each rule, whatever the limit."
	}
	return ""
}

// DescribeReset says what happens to the counts if next replaces p, "" if they stay. p may be
// nil.
func (p *Policy) DescribeReset(next *Policy) string {
	if p == nil || !p.MovesGeneration(next) {
		return ""
	}
	what := "Another algorithm, or other options,"
	if p.Outcome != next.Outcome || p.Rules.Distinct() != next.Rules.Distinct() {
		what = "A policy that counts something else"
	} else if p.Algorithm == next.Algorithm && p.Options == next.Options {
		what = "Another window under a counter"
	}
	return what + " cannot go on from what was counted. The counts of every key are reset: it may at once make as many requests as a new key, in addition to those it has just made."
}
