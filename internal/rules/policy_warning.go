package rules

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
)

// Warnings returns the rules that can never cause a refusal under the policy's algorithm. For the
// exact logs these are all such rules. Counters allow bursts that depend on when requests arrive,
// so for them Warnings only returns rules that a single other rule always makes ineffective.
func (p *Policy) Warnings() []Warning {
	if same := sameValueWarnings(p.Rules, p.same()...); len(same) > 0 {
		return same
	}
	if a := algorithms.ByName(p.Algorithm); a == nil || a.IsLog() && !p.Options.CountRefused {
		return p.Rules.Warnings()
	}
	warnings := []Warning{}
	for i, r := range p.Rules {
		if at := slices.IndexFunc(p.Rules, func(q Rule) bool { return q != r && p.goesBefore(q, r) }); at >= 0 && !p.namedBefore(i, at) {
			warnings = append(warnings, Warning{r, p.warningOf(p.Rules[at], r)})
		}
	}
	return warnings
}

// namedBefore reports whether rule i must be left out of Warnings, because rule by comes later
// and they make each other ineffective.
func (p *Policy) namedBefore(i, by int) bool { return by > i && p.goesBefore(p.Rules[i], p.Rules[by]) }

func (p *Policy) warningOf(by, r Rule) string {
	if by.Limit == 0 {
		return fmt.Sprintf("%s can never refuse anyone: %s already refuses everything. Remove one of them.", r, by)
	}
	return fmt.Sprintf("%s can never refuse anyone: as %s counts, %s always refuses first. Remove it.", r, p.Algorithm, by)
}

// binding returns the rules that are not in Warnings.
func (p *Policy) binding() Stack {
	idle := p.Warnings()
	return slices.DeleteFunc(slices.Clone(p.Rules), func(r Rule) bool {
		return slices.ContainsFunc(idle, func(w Warning) bool { return w.Rule == r })
	})
}

// isAtMostAsFastAs reports whether the limit of r, spread over its window, is at most that of q.
func (r Rule) isAtMostAsFastAs(q Rule) bool {
	high, low := bits.Mul64(uint64(r.Limit), uint64(q.Window))           //nolint:gosec // not negative
	otherHigh, otherLow := bits.Mul64(uint64(q.Limit), uint64(r.Window)) //nolint:gosec // not negative
	return high < otherHigh || high == otherHigh && low <= otherLow
}

// goesBefore reports whether q refuses everything that r refuses, and for at least as long.
func (p *Policy) goesBefore(q, r Rule) bool {
	switch {
	case q.IsConcurrent() || r.IsConcurrent():
		return q.IsConcurrent() && r.IsConcurrent() && q.Limit <= r.Limit
	case q.Limit == 0:
		return true
	case r.Limit == 0:
		return false
	case q.isCalendar() || r.isCalendar(): // a window that slides has parts of two periods
		return q.Calendar == r.Calendar && q.Limit <= r.Limit
	}
	switch p.Algorithm {
	case algorithms.TokenBucket, algorithms.LeakyBucket, algorithms.GCRA:
		// The bucket of r is never emptier than that of q: each request takes the same from both,
		// and r's fills at least as fast.
		return q.isAtMostAsFastAs(r) && p.capacity(q) <= p.capacity(r) && p.Options.Variant != algorithms.VariantQueue
	case algorithms.FixedWindow:
		// Each clock window of r lies within one of q.
		return p.Options.WindowStart != algorithms.WindowFirst && q.Limit <= r.Limit && q.Window%r.Window == 0
	case algorithms.SlidingBuckets:
		// q counts everything that r counts: the buckets of q cover at least r's window.
		return q.Limit <= r.Limit && q.Window-(q.Window+59)/60-time.Millisecond >= r.Window
	case algorithms.SortedSetLog, algorithms.AmountLog, algorithms.PointLog:
		return q.Limit <= r.Limit && q.Window >= r.Window
	}
	return false
}
