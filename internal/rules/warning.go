package rules

import (
	"cmp"
	"fmt"
	"slices"
)

// Warning reports a rule that is allowed but probably a mistake.
type Warning struct {
	Rule    Rule
	Message string // what is wrong, why, and what to do
}

// Warnings returns the rules that can never cause a refusal, because the other rules never allow
// enough requests. Without all of them, the stack limits exactly the same.
func (s Stack) Warnings() []Warning {
	binding, idle := s.split()
	warnings := make([]Warning, 0, len(idle))
	for _, r := range idle {
		warnings = append(warnings, binding.warn(r))
	}
	return warnings
}

// split separates the rules that can refuse a request from those that never do. If either of two
// rules makes the other ineffective, the one with the shorter window is kept. Neither has the rules of
// what is concurrent. Those of the calendar can always refuse one.
func (s Stack) split() (binding, idle Stack) {
	s, calendar := s.sliding()
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
	return append(binding, calendar...), idle
}

// warn explains why r, which is not in s, can never refuse a request.
func (s Stack) warn(r Rule) Warning {
	by, alone := s.closest(r)
	if by.Limit == 0 && alone {
		return Warning{r, fmt.Sprintf("%s can never refuse anyone: %s already refuses everything. Remove one of them.", r, by)}
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
		advice = fmt.Sprintf("Remove it, or set %s or less.", Rule{Limit: int(most - 1), Window: r.Window, Unit: r.Unit})
	}
	return Warning{r, fmt.Sprintf("%s can never refuse anyone: %s at most %s in any %s. %s",
		r, subject, grouped(most), windowInWords(r.Window), advice)}
}

// closest returns the rule of s that by itself allows the fewest requests in r's window, and
// whether it allows no more than r.
func (s Stack) closest(r Rule) (Rule, bool) {
	by := slices.MinFunc(s, func(a, b Rule) int { return cmp.Compare(a.most(r.Window), b.most(r.Window)) })
	if by.most(r.Window) > int64(r.Limit) {
		return Rule{}, false
	}
	return by, true
}
