package rules

import (
	"fmt"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
)

// Warnings returns the rules that can never be the reason of a refusal as the
// policy's algorithm counts. For the exact logs these are all such rules;
// counters let bursts through that depend on when they come, so that only rules
// are named that one other rule alone always goes before.
func (p *Policy) Warnings() []Warning {
	if a := algorithms.ByName(p.Algorithm); a == nil || a.IsLog() && !p.Options.CountRefused {
		return p.Rules.Warnings()
	}
	warnings := []Warning{}
	for i, r := range p.Rules {
		if at := slices.IndexFunc(p.Rules, func(q Rule) bool { return q != r && p.goesBefore(q, r) }); at >= 0 && !p.namedBefore(i, at) {
			warnings = append(warnings, Warning{r, p.Rules[at], p.warningOf(p.Rules[at], r)})
		}
	}
	return warnings
}

// namedBefore keeps two rules that say the same from being named both.
func (p *Policy) namedBefore(i, by int) bool { return by > i && p.goesBefore(p.Rules[i], p.Rules[by]) }

func (p *Policy) warningOf(by, r Rule) string {
	if by.Limit == 0 {
		return fmt.Sprintf("%s can never refuse anyone: %s already refuses everything. Remove one of them.", r, by)
	}
	return fmt.Sprintf("%s can never refuse anyone: as %s counts, %s always refuses first. Remove it.", r, p.Algorithm, by)
}

// binding returns the rules that Warnings does not name.
func (p *Policy) binding() Stack {
	idle := p.Warnings()
	return slices.DeleteFunc(slices.Clone(p.Rules), func(r Rule) bool {
		return slices.ContainsFunc(idle, func(w Warning) bool { return w.Rule == r })
	})
}

// goesBefore reports whether whatever r refuses is refused by q as well, for as
// long.
func (p *Policy) goesBefore(q, r Rule) bool {
	switch {
	case q.Limit == 0:
		return true
	case r.Limit == 0:
		return false
	}
	slower := int64(q.Limit)*int64(r.Window) <= int64(r.Limit)*int64(q.Window)
	switch p.Algorithm {
	case algorithms.TokenBucket, algorithms.LeakyBucket, algorithms.GCRA:
		// What is missing in r's bucket is never more than what is missing in q's:
		// each request takes the same from both, and r's fills as quickly or quicker.
		return slower && p.capacity(q) <= p.capacity(r) && p.Options.Variant != algorithms.VariantQueue
	case algorithms.FixedWindow:
		// Each window of the clock of r lies within one of q.
		return p.Options.WindowStart != algorithms.WindowFirst && q.Limit <= r.Limit && q.Window%r.Window == 0
	case algorithms.SlidingBuckets:
		// What r counts, q counts: the buckets of q cover no less than that.
		return q.Limit <= r.Limit && q.Window-(q.Window+59)/60-time.Millisecond >= r.Window
	case algorithms.SortedSetLog:
		return q.Limit <= r.Limit && q.Window >= r.Window
	}
	return false
}
