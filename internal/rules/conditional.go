package rules

import (
	"slices"

	"github.com/stint-dev/stint/internal/keys"
)

// MaxConditional is how many enforcing policies with conditions may exist that need a
// log, which are all but traps: a check asks at most that many beside the key's own.
const MaxConditional = 15

// IsConditional reports whether the policy has conditions.
func (p *Policy) IsConditional() bool { return !p.When.IsZero() }

// IsTrap reports whether the policy has conditions and refuses every request that
// meets them. A trap needs no log.
func (p *Policy) IsTrap() bool { return p.IsConditional() && p.Rules.refusesAll() }

// NeedsCombining reports whether p counts towards MaxConditional.
func (p *Policy) NeedsCombining() bool {
	return p.IsConditional() && p.Mode == Enforce && !p.IsTrap() && len(p.Rules) > 0
}

// Matches reports whether one of the policy's patterns matches k.
func (p *Policy) Matches(k keys.Key) bool {
	return slices.ContainsFunc(p.Match, func(m keys.Pattern) bool { return m.Matches(k) })
}
