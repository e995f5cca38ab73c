package rules

import (
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/conditions"
)

// MaxConditional is how many logs enforcing policies may ask for together beside the
// key's own: one for each policy with conditions, an outcome or distinct rules that is no
// trap, and one for each further key that a policy counts.
const MaxConditional = 15

// IsConditional reports whether the policy has conditions, an outcome or rules that count
// different values, so that it applies in addition to the key's other policies.
func (p *Policy) IsConditional() bool {
	return !p.When.IsZero() || p.IsReported() || p.Rules.Distinct() != ""
}

// IsReported reports whether reports of an outcome charge the policy: those about a key
// that it matches, of requests that meet its conditions. Checks of the key charge
// nothing then; each is refused while the policy has no room for one more report,
// whatever is requested.
func (p *Policy) IsReported() bool { return p.Outcome != "" }

// DependsOnRequest reports whether a check of a key that the policy matches is decided
// by what is requested.
func (p *Policy) DependsOnRequest() bool {
	if p.Derived != nil && (p.Derived.Name != Network || p.ofRequest) {
		return true
	}
	return p.IsConditional() && (!p.IsReported() || p.Scope != "")
}

// IsTrap reports whether the policy has conditions and refuses every request that
// meets them. A trap needs no log.
func (p *Policy) IsTrap() bool { return p.DependsOnRequest() && p.Rules.refusesAll() }

// DescribeApplies says in a sentence what a policy with conditions, an outcome or distinct
// rules applies to, "" for one without.
func (p *Policy) DescribeApplies() string {
	if name := p.Rules.Distinct(); name != "" && p.When.IsZero() && !p.IsReported() {
		return "Applies to requests of which the " + name + " is said, in addition to the key's own policy."
	}
	return p.When.DescribeApplies(p.Outcome, p.Scope)
}

// CanCount reports whether the rules count r, of which the caller also says values: those that
// count distinct values do so only where it has one.
func (s Stack) CanCount(r *conditions.Request, values map[string]string) bool {
	return s.Distinct() == "" || s.ValueOf(r, values) != ""
}

// ValueOf returns the value of r, of which the caller also says values, that distinct
// rules count. It is "" where nothing is said of it: such a request is not counted.
func (s Stack) ValueOf(r *conditions.Request, values map[string]string) string {
	return r.Named(s.Distinct(), values)
}

func (p *Policy) validateDistinct() error {
	name := p.Rules.Distinct()
	switch {
	case name == "":
	case p.Algorithm != algorithms.TimestampLog:
		return &FieldError{"algorithm", "must be " + algorithms.TimestampLog + " beside distinct rules, which always count exactly"}
	}
	return nil
}

func (p *Policy) validateOutcome() error {
	switch {
	case p.Scope == "":
	case conditions.CheckScope(p.Scope) != nil:
		return &FieldError{"scope", conditions.CheckScope(p.Scope).Error()}
	case !p.IsReported():
		return &FieldError{"scope", "is possible only beside outcome; conditions say which checks another policy is about"}
	}
	if !p.IsReported() {
		return nil
	}
	if err := conditions.CheckOutcome(p.Outcome); err != nil {
		return &FieldError{"outcome", err.Error()}
	}
	if len(p.Rules) == 0 || p.Rules.refusesAll() {
		return &FieldError{"rules", "must have at least one rule and no limit of 0 beside outcome: the policy refuses checks once that many outcomes were reported"}
	}
	return nil
}
