package rules

import (
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/proxies"
)

// planKind begins the patterns that select keys by their plan: plan:gold, and plan:* for every
// key that has a plan.
const planKind = "plan:"

// Subject is the key that is checked and its plan, by which policies select it.
type Subject struct {
	Key  keys.Key
	Plan string // "" for none
	// IsCrowd means that proxies.Crowds has the key.
	IsCrowd bool
}

// IsShared reports whether the key is an address of many people: an edge of a content delivery network, or
// a crowd. What their requests show is no evidence against any of them. See proxies.AboutShared.
func (s Subject) IsShared() bool {
	network, isAddress := s.Key.Network()
	return s.IsCrowd || isAddress && proxies.CDN(network.Addr()) != ""
}

// CheckPlan returns an error unless name is 1 to 64 of a-z, 0-9, dot, underscore and dash,
// beginning with a letter or digit.
func CheckPlan(name string) error {
	if !namePattern.MatchString(name) {
		return errors.New("must be 1 to 64 of a-z, 0-9, dot, underscore and dash, beginning with a letter or digit")
	}
	return nil
}

// PlanOf returns the plan that a pattern of a policy selects, "*" for every plan, and false for a
// pattern of keys. The pattern plan:gold does not select a key that is itself spelled plan:gold,
// because then a client could choose its plan by its key.
func PlanOf(m keys.Pattern) (plan string, is bool) {
	switch m.Kind() {
	case keys.Exact:
		return strings.CutPrefix(m.Literal(), planKind)
	case keys.Prefix:
		if plan, is = strings.CutPrefix(m.Literal(), planKind); is {
			return plan + "*", true
		}
	}
	return "", false
}

// IsPlan reports whether a pattern of a policy selects keys by their plan.
func IsPlan(m keys.Pattern) bool { _, is := PlanOf(m); return is }

func checkPlanPattern(m keys.Pattern) error {
	plan, is := PlanOf(m)
	if !is || plan == "*" {
		return nil
	}
	if strings.HasSuffix(plan, "*") {
		return errors.New("names a part of a plan; name one plan, for example plan:gold, or plan:* for every key with a plan")
	}
	if err := CheckPlan(plan); err != nil {
		return errors.New("names a plan that cannot be: it " + err.Error())
	}
	return nil
}

// MatchedBy returns the pattern of a policy that selects s, the zero pattern if none does.
func MatchedBy(p *Policy, s Subject) keys.Pattern {
	for _, m := range p.Match {
		if plan, is := PlanOf(m); is && s.Plan != "" && (plan == s.Plan || plan == "*") || !is && m.Matches(s.Key) {
			return m
		}
	}
	return keys.Pattern{}
}

// Matches reports whether one of the policy's patterns selects s.
func (p *Policy) Matches(s Subject) bool { return !MatchedBy(p, s).IsZero() }

// SelectsByPlan reports whether one of a policy's patterns selects keys by their plan.
func SelectsByPlan(p *Policy) bool {
	return slices.ContainsFunc(p.Match, IsPlan)
}

// role is the set of the enforcing policies, or of the shadow policies.
type role struct {
	byKey *keys.Index[*Policy]
	// byPlan has the policies by the plan in their pattern, "*" for every plan; nil if no policy
	// has such a pattern.
	byPlan map[string]planned
}

type planned struct {
	pattern keys.Pattern
	policy  *Policy
}

func newRole() role { return role{byKey: keys.NewIndex[*Policy]()} }

// add adds one pattern of p, unless a policy with a lower id has the same pattern.
func (r *role) add(m keys.Pattern, p *Policy) {
	plan, is := PlanOf(m)
	if !is {
		if known, taken := r.byKey.Get(m); !taken || p.ID < known.ID {
			r.byKey.Set(m, p)
		}
		return
	}
	if r.byPlan == nil {
		r.byPlan = map[string]planned{}
	}
	if known, taken := r.byPlan[plan]; !taken || p.ID < known.policy.ID {
		r.byPlan[plan] = planned{m, p}
	}
}

// best returns the policy of a subject and the pattern that selects it. A pattern of only this
// key comes first, then one of its plan, then plan:*, then the most specific of the others.
func (r *role) best(s Subject) (by keys.Pattern, p *Policy) {
	if r.byKey == nil {
		return by, nil
	}
	by, p, _ = r.byKey.Best(s.Key)
	if s.Plan == "" || r.byPlan == nil || p != nil && isOfOne(by, s.Key) {
		return by, p
	}
	if at, found := r.byPlan[s.Plan]; found {
		return at.pattern, at.policy
	}
	if at, found := r.byPlan["*"]; found {
		return at.pattern, at.policy
	}
	return by, p
}

// isOfOne reports whether m, which matches k, matches no other key.
func isOfOne(m keys.Pattern, k keys.Key) bool {
	if m.Kind() == keys.Exact {
		return true
	}
	network, is := m.Network()
	return is && (isSingle(network) || m.String() == k.String())
}

func isSingle(network netip.Prefix) bool { return network.Bits() == network.Addr().BitLen() }
