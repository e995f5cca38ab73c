package gate

import (
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
)

// own are the policies that a key selects or a check names; either may be nil.
type own struct {
	enforcing, shadow *rules.Policy
	// limit is the key's own limit, whose rules enforcing has then; nil for none.
	limit *profiles.Limit
}

// ownOf returns the own policies of a check about who. member is what is kept about its key.
func ownOf(c *Check, selector *rules.Selector, who rules.Subject, member *profiles.Member, at time.Time) (o own, err error) {
	if o.enforcing, o.shadow, err = policiesOf(c, selector, who); err != nil {
		return o, err
	}
	limit := member.LimitAt(at)
	if limit == nil {
		return o, nil
	}
	// A policy that the check names instead of the key's own keeps its rules.
	if selected, _ := selector.Select(who); c.Policy == "" || o.enforcing != nil && o.enforcing == selected {
		o.enforcing, o.limit = limit.Apply(selected), limit
	}
	return o, nil
}

// applying finds the policies that apply to a key besides its own, for checks and for
// explanations.
type applying struct {
	own
	selector *rules.Selector
	set      *blocks.Set
	crawlers *bots.Verifier
	who      rules.Subject
	at       time.Time
	hasPass  bool // what challenges lets the check through
	// passed is the policy that would challenge the key but for its pass, nil for none.
	passed *rules.Policy
}

// policiesOf returns the policies that a check selects: the one that it names, as
// enforcing or as shadow policy by its mode, and the best match for the other.
func policiesOf(c *Check, selector *rules.Selector, who rules.Subject) (enforcing, shadow *rules.Policy, err error) {
	enforcing, shadow = selector.Select(who)
	if c.Specific {
		byEnforcing, byShadow := selector.Matched(who)
		if byEnforcing.String() == "*" {
			enforcing = nil
		}
		if byShadow.String() == "*" {
			shadow = nil
		}
	}
	if c.Policy == "" {
		return enforcing, shadow, nil
	}
	named, found := selector.ByName(c.Policy)
	switch {
	case !found:
		return nil, nil, fault.NoSuch("policy", "there is no policy of that name; omit it to use the key's own policy")
	case selector.Waits(named): // its own policy protects until there is an attack
		return enforcing, shadow, nil
	case named.Mode == rules.Shadow:
		return enforcing, named, nil
	default:
		if draft := selector.DraftOf(c.Policy); draft != nil {
			shadow = draft
		}
		return named, shadow, nil
	}
}

// additional is a policy that a check asks in addition to the key's own policies.
type additional struct {
	// policy is the policy, or its part that limits the further key derived. It may be the key of a bot,
	// or of a pass.
	policy  *rules.Policy
	derived *keys.Key
	// block is the block that refuses the further key under an enforcing policy, nil for none.
	block *blocks.Entry
}

// mayAskMore reports whether a check may ask more than the own policies of its key.
func mayAskMore(selector *rules.Selector, request *conditions.Request) bool {
	return request != nil || selector.HasReported() || selector.HasDerived() || selector.CountsOwnValues()
}

// appendAsked appends what a check asks in addition, in order. request is what the check says of
// its request, nil for nothing.
func (a *applying) appendAsked(all []additional, request *conditions.Request) []additional {
	if !mayAskMore(a.selector, request) {
		return all
	}
	all = a.appendOwnDerived(all, request, false)
	var room [8]*rules.Policy
	conditional := a.selector.AppendConditional(room[:0], a.who, request)
	return a.appendConditional(all, a.selector.AppendReported(conditional, a.who), nil, request, false)
}

// possible returns what some check of the key asks in addition, in order. Of the further keys it
// has those that every request of the key has.
func (a *applying) possible() []additional {
	return a.appendConditional(a.appendOwnDerived(nil, nil, true), a.selector.Conditional(a.who), nil, nil, true)
}

func (a *applying) appendOwnDerived(all []additional, request *conditions.Request, isAny bool) []additional {
	if !a.selector.HasDerived() {
		return all
	}
	return a.appendDerived(a.appendDerived(all, a.enforcing, request, isAny), a.shadow, request, isAny)
}

// appendConditional appends those of the policies with conditions or an outcome that limit the
// key, and their further keys. counted is the key that they count, nil for that of the check. isAny
// leaves open what the request is. Policies with the outcome conditions.NotFound do not apply to verified
// crawlers.
func (a *applying) appendConditional(all []additional, policies []*rules.Policy, counted *keys.Key, request *conditions.Request, isAny bool) []additional {
	for _, p := range policies {
		if p == a.enforcing || p == a.shadow || !limits(p) || !isAny && !request.IsInScope(p.Scope) ||
			p.Outcome == conditions.NotFound && a.crawlers.OperatorOf(a.who.Key) != "" {
			continue
		}
		all = a.appendDerived(append(all, additional{policy: p, derived: counted}), p, request, isAny)
	}
	return all
}

// appendDerived appends the parts of p, which may be nil, for the further keys that it counts. An
// exempt key is left out.
func (a *applying) appendDerived(all []additional, p *rules.Policy, request *conditions.Request, isAny bool) []additional {
	for _, part := range a.selector.DerivedOf(p) {
		key, found := part.Derived.KeyOf(a.who.Key, request, nil)
		if !found || !isAny && !part.IsReported() && !part.Rules.CanCount(a.who.Key, request, nil) {
			continue
		}
		match := a.set.MatchIn(key, request.Scope(), a.at)
		switch {
		case match.Exemption != nil:
			continue
		case part.Mode != rules.Enforce, match.Challenges() && a.hasPass:
			match.Block = nil
		}
		derived := key // only a key that counts needs memory
		all = append(all, additional{policy: part, derived: &derived, block: match.Block})
	}
	return all
}

// appendPass appends the policy that the pass of a check selects, which counts the pass. If none limits
// it, those count it by their own rules that would challenge the check but for it, by PassRules if they
// refuse everything but passes: a pass is never without a limit unless it is exempt.
func (a *applying) appendPass(all []additional, c *Check) []additional {
	if c.Pass.IsZero() {
		return all
	}
	pass := c.Pass
	policy, _ := a.selector.Select(rules.Subject{Key: pass})
	isExempt := a.set.MatchIn(pass, c.Request.Scope(), a.at).Exemption != nil
	bounds := func(p *rules.Policy) bool { return !isExempt && !limits(policy) && limits(p) && !p.IsReported() }
	bounding := func(p *rules.Policy) additional {
		if refusingRule(p) >= 0 {
			p = passLimit.Apply(p)
		}
		return additional{policy: p, derived: &pass}
	}
	kept := all[:0]
	bind := func(p *rules.Policy) { // once: several keys of a bot may select one policy
		if bounds(p) && !slices.ContainsFunc(kept, func(k additional) bool { return k.derived == &pass && k.policy.ID == p.ID }) {
			kept = append(kept, bounding(p))
		}
	}
	for _, with := range all {
		switch isPassed := c.isPassed(with.policy); {
		case !isPassed:
			kept = append(kept, with)
		case with.derived == nil || bots.IsPattern(with.derived.String()):
			bind(with.policy)
		}
	}
	if bind(a.passed); !isExempt && limits(policy) {
		kept = append(kept, additional{policy: policy, derived: &pass})
	}
	return kept
}

// memberOf returns the plan and the limit of k, nil for none. It looks nothing up if no policy
// selects by plan and no key has a limit of its own.
func memberOf(view View, k keys.Key, selector *rules.Selector) *profiles.Member {
	if set := view.Profiles(); selector.HasPlans() || set.HasLimits() {
		return set.Find(k)
	}
	return nil
}

// addAdditional sets d.Additional, which stays nil if no policy with conditions or an outcome
// applies and no further key counts. Traps and blocks of further keys are decided at once.
func (d *Decision) addAdditional(by *applying) error {
	var room [8]additional
	asked := by.appendBot(by.appendAsked(room[:0], d.Check.Request), d.Check.bot, d.Check.Request)
	for _, with := range by.appendPass(asked, &d.Check) {
		outcome, answer := Allowed, Answer{At: d.At, Rule: -1, Derived: with.derived}
		switch p := with.policy; {
		case with.block != nil:
			outcome, answer.RetryAt, answer.Never = blockedBy(with.block), with.block.Expires, with.block.Expires.IsZero()
		case p.IsTrap():
			outcome, answer.Never, answer.Rule = refusedBy(p, d.Check.Key), true, refusingRule(p)
		}
		if d.Additional == nil {
			d.Additional, d.more = d.more, nil
		}
		n := len(d.Additional)
		d.Additional = slices.Grow(d.Additional, 1)[:n+1]
		a := &d.Additional[n]
		a.begin(&d.Check, d.At)
		a.IsAdditional = true
		if with.policy.Mode == rules.Shadow {
			a.Shadow = &Shadow{Outcome: outcome, Policy: with.policy, Answer: answer}
		} else {
			a.Policy, a.Outcome, a.Answer, a.Block = with.policy, outcome, answer, with.block
			a.Check.setCost(with.policy)
			if err := a.checkAskable(); err != nil {
				return err
			}
		}
	}
	return nil
}

// refusingRule returns the index of the first rule that always refuses.
func refusingRule(p *rules.Policy) int {
	return slices.IndexFunc(p.Rules, func(r rules.Rule) bool { return r.Limit == 0 })
}
