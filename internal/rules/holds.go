package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
)

// Bounds of holds.
const (
	MinHold = time.Second
	MaxHold = algorithms.MaxHold * time.Millisecond
	// MaxConcurrent is the largest limit of a rule of what is concurrent.
	MaxConcurrent = algorithms.MaxHolds
)

// OnExpiry says what a hold that was never settled leaves.
type OnExpiry string

// What a hold leaves when it expires.
const (
	ExpiryKeeps    OnExpiry = "keep"    // what it held stays charged
	ExpiryReleases OnExpiry = "release" // nothing stays charged
)

// concurrentWord is the word behind the limit of a rule of what is concurrent.
const concurrentWord = "concurrent"

// IsConcurrent reports whether the rule limits how many holds of a key are open at once: "16 concurrent".
// Its Window is 0.
func (r Rule) IsConcurrent() bool { return r.Window == 0 }

// Windows returns the rules that limit what is charged in a window.
func (s Stack) Windows() Stack {
	first := slices.IndexFunc(s, func(r Rule) bool { return !r.IsConcurrent() })
	if first < 0 {
		return nil
	}
	return s[first:] // they are sorted by window
}

// Concurrent returns the smallest limit of what is concurrent, 0 for none.
func (s Stack) Concurrent() int {
	if len(s) == 0 || !s[0].IsConcurrent() {
		return 0
	}
	return s[0].Limit
}

// describeConcurrent returns a sentence about the limit of what is concurrent, "" for none.
func (s Stack) describeConcurrent() string {
	if n := s.Concurrent(); n > 0 {
		return fmt.Sprintf("At most %s at once: each takes a place until it is settled or its hold expires.", grouped(int64(n)))
	}
	return ""
}

// parseConcurrent parses "16 concurrent".
func parseConcurrent(text string) (r Rule, is bool, err error) {
	number, is := strings.CutSuffix(strings.TrimSpace(text), concurrentWord)
	if !is {
		return Rule{}, false, nil
	}
	r.Limit, err = parseLimit(text, strings.TrimSpace(number))
	if err == nil {
		err = r.Validate()
	}
	return r, true, err
}

// unitForm is the form of a unit: tokens, rows, cpu_seconds.
var unitForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// CheckUnit returns an error unless unit can be the unit of amounts, "" for none.
func CheckUnit(unit string) error {
	switch {
	case unit == "":
	case !unitForm.MatchString(unit):
		return fmt.Errorf("must be 1 to 32 of a-z, 0-9, underscore and dash, beginning with a letter, for example tokens")
	case unit == concurrentWord, unit == distinctWord, strings.HasPrefix(unit, "point"):
		return fmt.Errorf("is a word of rules; write for example tokens")
	}
	return nil
}

// cutUnit removes the unit behind a count: 1M tokens.
func cutUnit(count string) (rest, unit string) {
	rest, unit, _ = strings.Cut(count, " ")
	if unit = strings.TrimSpace(unit); CheckUnit(unit) != nil {
		return count, ""
	}
	return rest, unit
}

// Unit returns what the rules count, "" for requests.
func (s Stack) Unit() string {
	for _, r := range s.Windows() {
		return r.Unit
	}
	return ""
}

// withUnit returns s with a unit in the rules that name none, and an error if one names another.
func (s Stack) withUnit(unit string) (Stack, error) {
	all := slices.Clone(s)
	for i, r := range all {
		switch {
		case r.IsConcurrent() || r.Unit == unit || unit == "":
		case r.Unit != "":
			return nil, refuse(r.String(), "counts %s, and the policy counts %s", r.Unit, unit)
		case r.Points || r.Distinct != "":
			return nil, refuse(r.String(), "counts no %s", unit)
		default:
			all[i].Unit = unit
		}
	}
	return NewStack(all...)
}

// counts reports whether one of the policy's stacks has a rule for which is returns true.
func (p *Policy) counts(is func(Rule) bool) bool {
	return slices.ContainsFunc(p.Rules, is) || slices.ContainsFunc(p.Also, func(d Derived) bool { return slices.ContainsFunc(d.Rules, is) })
}

// TakesHolds reports whether a check of the policy can hold its cost.
func (p *Policy) TakesHolds() bool { return p != nil && p.Algorithm == algorithms.AmountLog }

// HoldFor returns for how long a check that asks to hold for a time holds under the policy, 0 if it
// holds nothing.
func (p *Policy) HoldFor(asked time.Duration) time.Duration {
	switch {
	case !p.TakesHolds():
		return 0
	case asked > 0:
		return asked
	}
	return p.Hold
}

// CostOf returns the cost of a check that says none if cost is 0.
func (p *Policy) CostOf(cost int) int {
	switch {
	case cost > 0:
		return cost
	case p != nil && p.Cost > 0:
		return p.Cost
	}
	return 1
}

// Expiry returns what a hold leaves when it expires: by default nothing if the policy only limits what is
// concurrent, and what it held otherwise.
func (p *Policy) Expiry() OnExpiry {
	switch {
	case p.OnExpiry != "":
		return p.OnExpiry
	case len(p.Rules.Windows()) == 0:
		return ExpiryReleases
	}
	return ExpiryKeeps
}

// validateHolds returns nil or a *FieldError.
func (p *Policy) validateHolds() error {
	isConcurrent := p.counts(Rule.IsConcurrent)
	switch {
	case p.Cost < 0 || p.Cost > algorithms.MaxAmount:
		return &FieldError{"cost", "must be 1 to 1000T, or be omitted for 1"}
	case p.Cost > 0 && !p.CountsAmounts():
		return &FieldError{"cost", "is the amount of a check that says none; it needs a unit, as in \"1M tokens/1d\", or the algorithm " + algorithms.AmountLog}
	case p.Cost > 0 && p.IsReported():
		return &FieldError{"cost", "cannot be combined with outcome: reports are charged there"}
	case p.Cost > p.LargestCost():
		return &FieldError{"cost", "is more than the smallest limit, so that every check that says none would be refused"}
	case p.Hold != 0 && (p.Hold < MinHold || p.Hold > MaxHold || p.Hold%time.Millisecond != 0):
		return &FieldError{"hold", "must be 1s to 1d, for example 30s"}
	case p.Hold != 0 && !p.TakesHolds() && p.CountsAmounts():
		return &FieldError{"hold", "needs the algorithm " + algorithms.AmountLog + ": the others keep only counts"}
	case p.Hold != 0 && !p.TakesHolds():
		return &FieldError{"hold", "needs a unit, as in \"1M tokens/1d\", a rule such as \"16 concurrent\", or the algorithm " + algorithms.AmountLog}
	case isConcurrent && p.Hold == 0:
		return &FieldError{"hold", "is missing; beside a rule of what is concurrent say for how long a check takes its place if it says nothing itself, for example 30s"}
	case p.Hold != 0 && p.IsReported():
		return &FieldError{"hold", "cannot be combined with outcome: reports are charged and hold nothing"}
	}
	switch p.OnExpiry {
	case "":
	case ExpiryKeeps, ExpiryReleases:
		if !p.TakesHolds() {
			return &FieldError{"on_expiry", "needs a policy that takes holds: one with a unit, or with a rule such as \"16 concurrent\""}
		}
	default:
		return &FieldError{"on_expiry", "must be keep or release"}
	}
	switch counts := func(r Rule) bool { return r.Unit != "" }; {
	case p.TakesHolds():
	case p.counts(counts) && !algorithms.TakesAmounts(p.Algorithm):
		return &FieldError{"algorithm", p.Algorithm + " keeps single requests; rules with a unit need " + algorithms.AmountLog + " or one of the counters, such as " + algorithms.TokenBucket}
	case p.counts(Rule.isCalendar):
		return &FieldError{"algorithm", "must be " + algorithms.AmountLog + " for rules of the calendar"}
	case isConcurrent:
		return &FieldError{"algorithm", "must be " + algorithms.AmountLog + " for rules of what is concurrent"}
	}
	return nil
}
