package rules

import (
	"fmt"
	"slices"
)

// Warning points out a rule that is allowed and probably not meant.
type Warning struct {
	Rule Rule
	// By is the rule that alone makes it so; the zero Rule where only several
	// others together do.
	By      Rule
	Message string // says what is so, why, and what to do
}

// Warnings returns the rules that can never be the reason of a refusal, because
// the rest of the stack never lets enough through. The stack limits exactly
// alike without all of them.
func (s Stack) Warnings() []Warning {
	binding, idle := s.split()
	warnings := make([]Warning, 0, len(idle))
	for _, r := range idle {
		warnings = append(warnings, binding.warn(r))
	}
	return warnings
}

// split parts the rules that can refuse someone from those that never do. Where
// either of two rules would do, the one of the shorter window counts.
func (s Stack) split() (binding, idle Stack) {
	binding = slices.Clone(s)
	for i := len(s) - 1; i >= 0; i-- {
		r := s[i]
		others := slices.Delete(slices.Clone(binding), i, i+1)
		if len(others) == 0 || others.busiest(r.Window, r.Limit+1) > r.Limit {
			continue
		}
		binding = others
		idle = append(idle, r)
	}
	slices.Reverse(idle)
	return binding, idle
}

// warn explains why r, which is none of s, can never refuse anyone.
func (s Stack) warn(r Rule) Warning {
	by, alone := s.closest(r)
	if by.Limit == 0 && alone {
		return Warning{r, by, fmt.Sprintf("%s can never refuse anyone: %s already refuses everything. Remove one of them.", r, by)}
	}
	subject, most := "the other rules together already allow", int64(s.busiest(r.Window, r.Limit+1))
	if alone {
		subject = by.String() + " already allows"
		if most < by.most(r.Window) {
			subject = "with the other rules, " + by.String() + " already allows"
		}
	}
	advice := "Remove it."
	if most > 1 {
		advice = fmt.Sprintf("Remove it, or set %s or less.", Rule{Limit: int(most - 1), Window: r.Window})
	}
	return Warning{r, by, fmt.Sprintf("%s can never refuse anyone: %s at most %s in any %s. %s",
		r, subject, grouped(most), windowInWords(r.Window), advice)}
}

// closest returns the rule that by itself lets the fewest through in r's
// window, and whether these are no more than r allows.
func (s Stack) closest(r Rule) (Rule, bool) {
	by := slices.MinFunc(s, func(a, b Rule) int { return int(a.most(r.Window) - b.most(r.Window)) })
	if by.most(r.Window) > int64(r.Limit) {
		return Rule{}, false
	}
	return by, true
}
