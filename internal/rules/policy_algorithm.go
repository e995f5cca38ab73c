package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
)

// validateAlgorithm returns nil or a *FieldError.
func (p *Policy) validateAlgorithm() error {
	a := algorithms.ByName(p.Algorithm)
	if a == nil {
		return &FieldError{"algorithm", "must be one of " + strings.Join(algorithms.Names(), ", ")}
	}
	largest := p.Rules.LargestLimit()
	if largest > MaxLimit && !a.Amounts && !algorithms.TakesAmounts(a.Name) {
		return &FieldError{"rules", fmt.Sprintf("have the limit %s, but %s takes at most %d; choose the algorithm %s", appendLimit(nil, largest), a.Name, MaxLimit, algorithms.AmountLog)}
	}
	if largest > MaxLimit && a.NeedsUnit() && p.Rules.Unit() == "" {
		return &FieldError{"rules", fmt.Sprintf("have the limit %s, for which %s needs a unit, as in \"1M tokens/1d\"; without one it takes at most %d", appendLimit(nil, largest), a.Name, MaxLimit)}
	}
	var wrong *algorithms.OptionError
	if err := a.Check(p.Options); errors.As(err, &wrong) {
		return &FieldError{"options." + wrong.Option, wrong.Problem}
	}
	if p.Options.Burst > max(largest, algorithms.MaxBurst) {
		return &FieldError{"options." + algorithms.OptionBurst, fmt.Sprintf("must be at most %d, or at most the largest limit", algorithms.MaxBurst)}
	}
	return nil
}

// AlgorithmFor returns the algorithm of a policy with these rules and further keys that names none.
func AlgorithmFor(s Stack, also Also) string {
	needsAmounts := func(r Rule) bool { return r.Limit > MaxLimit || r.Unit != "" || r.IsConcurrent() || r.isCalendar() }
	switch {
	case s.CountsPoints():
		return algorithms.PointLog
	case (&Policy{Rules: s, Also: also}).counts(needsAmounts):
		return algorithms.AmountLog
	}
	return algorithms.TimestampLog
}

// CanCountBy reports whether the policy's rules may be counted by another algorithm, as those that count
// different values, points, amounts with a unit, what is concurrent or periods of the calendar may not.
func (p *Policy) CanCountBy(a *algorithms.Algorithm) bool {
	changed := *p
	changed.Algorithm, changed.Options = a.Name, algorithms.Options{}
	return p.Rules.Distinct() == "" && !p.Rules.CountsPoints() && changed.validateAlgorithm() == nil && changed.validateHolds() == nil
}

// CountsAmounts reports whether the policy takes costs up to algorithms.MaxAmount: under the log of amounts, and
// under a counter that takes them if a rule has a unit or a limit above MaxLimit.
func (p *Policy) CountsAmounts() bool {
	isLarge := func(r Rule) bool { return r.Unit != "" || r.Limit > MaxLimit }
	return p.Algorithm == algorithms.AmountLog || p.counts(isLarge) && algorithms.TakesAmounts(p.Algorithm)
}

// CanCancel reports whether what one check was charged can be taken out of the logs of the policy again. It
// cannot if the policy counts with a few numbers or counts values, and neither if it counts refused
// requests, in whose place an earlier one would have counted.
func (p *Policy) CanCancel() bool {
	a := algorithms.ByName(p.Algorithm)
	return (a.IsLog() || p.TakesHolds()) && p.Rules.Distinct() == "" && !p.Options.CountRefused
}

// MovesGeneration reports whether replacing p by next starts the logs of its keys from zero,
// because the earlier counts have no meaning under next. That is so if the outcome, the distinct
// value, the algorithm, its options or what the further keys count differ, or under a counter the
// windows or whether there is a unit. Up to N more requests may then be allowed than in an undisturbed window.
func (p *Policy) MovesGeneration(next *Policy) bool {
	if p.Outcome != next.Outcome || p.Rules.Distinct() != next.Rules.Distinct() || p.Algorithm != next.Algorithm || p.Options != next.Options {
		return true
	}
	if !slices.Equal(p.Also.counts(p.Algorithm), next.Also.counts(next.Algorithm)) {
		return true
	}
	a := algorithms.ByName(p.Algorithm)
	return a != nil && a.Counter != nil &&
		!slices.EqualFunc(p.Rules, next.Rules, func(a, b Rule) bool { return a.Window == b.Window && (a.Unit == "") == (b.Unit == "") })
}

// LargestCost returns the largest cost of one request that the policy can ever allow: that of its
// stack, but no more than its burst.
func (p *Policy) LargestCost() int {
	most := p.Rules.LargestCost()
	if p.Options.Burst > 0 {
		most = min(most, p.Options.Burst)
	}
	return most
}

// Counted returns the rules in the form in which counters use them.
func (s Stack) Counted(o algorithms.Options) []algorithms.Rule {
	counted := make([]algorithms.Rule, len(s))
	for i, r := range s {
		counted[i] = algorithms.Rule{Limit: int64(r.Limit), Window: int64(r.Window / time.Millisecond), Options: o, Calendar: r.calendar(), Amounts: r.Unit != ""}
		if r.isCalendar() {
			counted[i].Window += algorithms.CalendarSlack
		}
	}
	return counted
}
