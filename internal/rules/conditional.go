package rules

import (
	"slices"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
)

// MaxConditional is how many enforcing policies with conditions or an outcome may exist
// that need a log, which are all but traps: a check asks at most that many beside the
// key's own.
const MaxConditional = 15

// IsConditional reports whether the policy has conditions or an outcome, so that it
// applies in addition to the key's other policies.
func (p *Policy) IsConditional() bool { return !p.When.IsZero() || p.IsReported() }

// IsReported reports whether reports of an outcome charge the policy: those about a key
// that it matches, of requests that meet its conditions. Checks of the key charge
// nothing then; each is refused while the policy has no room for one more report,
// whatever is requested.
func (p *Policy) IsReported() bool { return p.Outcome != "" }

// DependsOnRequest reports whether a check of a key that the policy matches is decided
// by what is requested.
func (p *Policy) DependsOnRequest() bool { return p.IsConditional() && !p.IsReported() }

// IsTrap reports whether the policy has conditions and refuses every request that
// meets them. A trap needs no log.
func (p *Policy) IsTrap() bool { return p.DependsOnRequest() && p.Rules.refusesAll() }

// NeedsCombining reports whether p counts towards MaxConditional.
func (p *Policy) NeedsCombining() bool {
	return p.IsConditional() && p.Mode == Enforce && !p.IsTrap() && len(p.Rules) > 0
}

// Matches reports whether one of the policy's patterns matches k.
func (p *Policy) Matches(k keys.Key) bool {
	return slices.ContainsFunc(p.Match, func(m keys.Pattern) bool { return m.Matches(k) })
}

func (p *Policy) validateOutcome() error {
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
