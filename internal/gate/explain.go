package gate

import (
	"context"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/wire"
)

// MaxTimestamps bounds how many logged times an explanation shows.
const MaxTimestamps = wire.MaxTimestamps

// Explanation says what applies to a key now and why.
type Explanation struct {
	Key keys.Key
	At  time.Time
	// Plan is the key's plan, "" for none.
	Plan string
	// OwnLimit is the key's own limit, whose rules Enforcing has then; nil for none.
	OwnLimit   *profiles.Limit
	Exemptions []*blocks.Entry // active ones that select the key
	Blocks     []*blocks.Entry // active ones that select the key, hidden or not; those with a scope last
	// Enforcing and Shadow are the policies that a check would ask; nil if none applies.
	Enforcing *PolicyExplanation
	Shadow    *PolicyExplanation
	// Conditional are the policies with conditions or an outcome, enforcing and shadow,
	// that would be asked in addition: about requests that meet the conditions, or about
	// every request.
	Conditional []*PolicyExplanation
	// Outcome is the present answer to a check of cost 1 without further details. Of Conditional,
	// it considers only the policies that do not depend on the request: those with an outcome and
	// no scope, and parts that limit the network of the key.
	Outcome Outcome
	// Limiting is the policy, of Enforcing and Conditional, that such a check names as its
	// refusing policy: the one that makes it wait longest. nil unless Outcome is Limited or Challenged.
	Limiting *PolicyExplanation
	// Block is the one of Blocks that refuses such a check the longest, or would without an
	// exemption; nil for none.
	Block *blocks.Entry
	// Remaining is how many such checks the rules would allow now without a wait, even if an
	// exemption or a block applies. It considers the rules that count every request of the key.
	// -1 if there is no such rule, or if that is not known because of Degraded.
	Remaining int
	// NextAllowed is when the next request would be allowed if nobody else came: At if it would
	// be allowed now, zero with Never if waiting does not help.
	NextAllowed time.Time
	Never       bool
	// IsShared means that many people share the address; see proxies.AboutShared.
	IsShared bool
	// Crawler is the operator of the verified crawler that the key belongs to, "" for none.
	// Policies with the outcome conditions.NotFound do not apply to it and are left out.
	Crawler string
	// Degraded describes the outage because of which the state of the rules is not known, "" for
	// none.
	Degraded string
}

// PolicyExplanation is one policy's part of an Explanation.
type PolicyExplanation struct {
	Policy *rules.Policy
	// Pattern is the pattern that selected the key; zero if the policy was named.
	Pattern keys.Pattern
	// Derived is the further key that Policy limits, if Policy is a part of another policy; nil
	// if it limits the key itself.
	Derived *keys.Key
	// isAsked reports that a check without further details asks the policy.
	isAsked bool
	Answer  Answer
	Allowed bool
	Rules   []RuleExplanation
	// Charges are what a policy with evidence has charged within its longest window, the newest first,
	// and Points says in a sentence what they are for; none for other policies.
	Charges []EvidenceCharge
	Points  string
	// Holds are the open holds of the key, the oldest first; none under a policy that takes none.
	Holds []OpenHold
	// Charged are the amounts that a policy of amounts has charged the key, the oldest first, including
	// some that no longer count; none under other policies.
	Charged []AmountCharge
	// Timestamps are the logged times that count for some rule: reservations ahead first, then
	// the others, newest first, at most MaxTimestamps of them. None if the policy's algorithm
	// keeps counters instead of times.
	Timestamps []time.Time
}

// RuleExplanation is the state of one rule.
type RuleExplanation struct {
	Rule rules.Rule
	// Used is how much of the rule's limit, or of a bucket's burst, is used up. Remaining is the
	// rest.
	Used      int
	Remaining int
	// RetryAt is when this rule alone would allow one more request; zero with
	// Never for a rule that refuses everything.
	RetryAt time.Time
	Never   bool
	// NextExpiry is when the oldest request that counts leaves the window; zero if none counts or
	// no times are kept.
	NextExpiry time.Time
}

// Explain says what applies to k now, under its own policies or the named policy. It charges
// nothing and counts nothing. Its errors are those of Decide.
func (g *Gate) Explain(ctx context.Context, k keys.Key, policy string) (*Explanation, error) {
	if !g.view.Loaded() {
		return nil, errNotLoaded
	}
	now, set, selector := g.now(), g.view.Blocks(), g.view.Selector()
	member := g.view.Profiles().Find(k)
	who := g.subject(k, member, now)
	own, err := ownOf(&Check{Key: k, Policy: policy}, selector, who, member, now)
	if err != nil {
		return nil, err
	}
	x := &Explanation{
		Key: k, At: now, Plan: who.Plan, OwnLimit: own.limit, Crawler: g.crawlers.OperatorOf(k), IsShared: who.IsShared(), Outcome: Allowed, NextAllowed: now,
		Exemptions: set.Selecting(blocks.Exemption, k, now), Blocks: append(set.Selecting(blocks.Block, k, now), set.SelectingScoped(k, now)...),
	}
	if only := set.ForAttacks(); only != nil && g.inAttack() && len(x.Blocks) == 0 {
		x.Blocks = only.Selecting(blocks.Block, k, now)
	}
	byMatch, shadowByMatch := selector.Matched(who)
	if who.Key = bots.SelectedKey(k); who.Key != k && policy == "" {
		own.enforcing, own.shadow, byMatch, shadowByMatch = selectBot(selector, k)
	}
	if x.Enforcing, err = g.explainPolicy(ctx, rules.Subject{Key: k, Plan: who.Plan}, own.enforcing, byMatch); err != nil {
		x.Degraded = degradedBy(err)
	}
	x.Enforcing.endIn(own.limit.Left(now))
	if x.Shadow, err = g.explainPolicy(ctx, rules.Subject{Key: k, Plan: who.Plan}, own.shadow, shadowByMatch); err != nil {
		x.Degraded = degradedBy(err)
	}
	if policy == "" {
		x.addAdditional(ctx, g, &applying{own, selector, set, g.crawlers, who, now, false, nil})
	}
	x.conclude()
	return x, nil
}

// addAdditional adds the policies that apply in addition to the key's own, in the order in which
// a check asks them: if several refuse a check for equally long, the check names the first. The
// parts of policies follow whose further key x.Key may be.
func (x *Explanation) addAdditional(ctx context.Context, g *Gate, by *applying) {
	asked := by.appendAsked(nil, nil)
	for _, with := range by.possible() {
		if with.derived == nil && by.who.Key != x.Key {
			with.derived = &x.Key
		}
		px := x.addConditional(ctx, g, by.who, with.policy, with.derived)
		px.isAsked = slices.ContainsFunc(asked, func(a additional) bool { return a.policy == with.policy })
		if px.isAsked && with.block != nil && !slices.Contains(x.Blocks, with.block) {
			x.Blocks = append(x.Blocks, with.block)
		}
	}
	for _, part := range by.selector.Making(x.Key) {
		x.addConditional(ctx, g, by.who, part, &x.Key)
	}
}

// addConditional adds a policy, or its part that limits a further key.
func (x *Explanation) addConditional(ctx context.Context, g *Gate, who rules.Subject, p *rules.Policy, derived *keys.Key) *PolicyExplanation {
	if derived != nil {
		who = rules.Subject{Key: *derived}
	}
	px, err := g.explainPolicy(ctx, who, p, keys.Pattern{})
	if err != nil {
		x.Degraded = degradedBy(err)
	}
	px.Derived = derived
	x.Conditional = append(x.Conditional, px)
	return px
}

func (g *Gate) explainPolicy(ctx context.Context, who rules.Subject, p *rules.Policy, by keys.Pattern) (*PolicyExplanation, error) {
	if p == nil {
		return nil, nil
	}
	px := &PolicyExplanation{Policy: p, Allowed: true, Answer: Answer{At: g.now(), Rule: -1}}
	for _, m := range p.Match {
		if m == by {
			px.Pattern = m
			break
		}
	}
	if by.IsZero() && p.IsConditional() {
		px.Pattern = rules.MatchedBy(p, who)
	}
	if !limits(p) {
		return px, nil
	}
	request := timestamplog.RequestOf(p, who.Key.String(), 1)
	request.Peek, request.Detail = true, true
	if p.TakesHolds() { // what a check that holds would be answered
		request.Hold, request.Value = 1, uint64(algorithms.HoldTag(0, false))
	}
	results := make([]timestamplog.Result, 1)
	limited, cancel := context.WithTimeout(ctx, 10*g.deadline)
	defer cancel()
	g.log.Decide(limited, []timestamplog.Request{request}, results)
	if err := results[0].Err; err != nil {
		return px, err
	}
	var times []int64
	if a := request.Algorithm; a == nil || a.IsLog() {
		var err error
		if times, _, err = g.log.Timestamps(limited, request.LogID, MaxTimestamps); err != nil {
			return px, err
		}
	}
	px.fill(&results[0], times)
	if p.TakesHolds() {
		holds, _, err := g.log.Holds(limited, request.LogID)
		if err != nil {
			return px, err
		}
		for _, h := range holds {
			px.Holds = append(px.Holds, OpenHold{time.UnixMilli(h.Taken), time.UnixMilli(h.Expires), int(h.Amount), h.Source})
		}
		charges, _, err := g.log.Charges(limited, request.LogID, p.Rules.LongestWindow().Milliseconds()+algorithms.CalendarSlack)
		if err != nil {
			return px, err
		}
		for _, c := range slices.Backward(charges) {
			px.Charged = append(px.Charged, AmountCharge{time.UnixMilli(c.At), int(c.Points)})
		}
	}
	if p.HasEvidence() {
		charges, now, err := g.log.Charges(limited, request.LogID, p.Rules.LongestWindow().Milliseconds())
		if err != nil {
			return px, err
		}
		px.Points = p.ExplainPoints(p.Rules[max(0, results[0].Rule)], charges, now)
		for _, c := range charges {
			px.Charges = append(px.Charges, EvidenceCharge{time.UnixMilli(c.At), p.Evidence.LabelOf(c), int(c.Points)})
		}
	}
	return px, nil
}

// OpenHold is one open hold of a key.
type OpenHold struct {
	Taken, Expires time.Time
	Amount         int
	Source         string // who asked for it, "" if that is not known; see Check.Caller
}

// AmountCharge is an amount that was charged at a time.
type AmountCharge struct {
	At     time.Time
	Amount int
}

// EvidenceCharge is one charge of a policy with evidence.
type EvidenceCharge struct {
	At     time.Time
	For    string
	Points int
}

func (px *PolicyExplanation) fill(r *timestamplog.Result, times []int64) {
	px.Allowed = r.Allowed
	px.Answer.fill(r)
	for _, t := range times {
		if r.Now-t < px.Policy.Rules.LongestWindow().Milliseconds() {
			px.Timestamps = append(px.Timestamps, time.UnixMilli(t))
		}
	}
	counted := px.Policy.Rules.Counted(px.Policy.Options)
	for i, rule := range px.Policy.Rules {
		rx := RuleExplanation{Rule: rule}
		if i < len(r.States) {
			state := r.States[i]
			rx.Remaining, rx.Used = state.Remaining, max(0, int(counted[i].Capacity())-state.Remaining)
			if rx.Never = state.RetryAfterMS == timestamplog.Never; !rx.Never {
				rx.RetryAt = time.UnixMilli(r.Now + state.RetryAfterMS)
			}
		}
		if n := min(rx.Used, len(times)); n > 0 && n == rx.Used {
			rx.NextExpiry = time.UnixMilli(times[n-1] + rule.WindowMS())
		}
		px.Rules = append(px.Rules, rx)
	}
}

// endIn is Answer.endIn for px, which may be nil.
func (px *PolicyExplanation) endIn(left time.Duration) {
	if px == nil || left <= 0 {
		return
	}
	px.Answer.endIn(left)
	for i := range px.Rules {
		rule := Answer{At: px.Answer.At, RetryAt: px.Rules[i].RetryAt, Never: px.Rules[i].Never}
		rule.endIn(left)
		px.Rules[i].RetryAt, px.Rules[i].Never = rule.RetryAt, rule.Never
	}
}

// DecidingRule returns the rule that refuses, false if none does.
func (px *PolicyExplanation) DecidingRule() (rules.Rule, bool) {
	return decidingRule(px.Policy, px.Answer)
}

// conclude sets the outcome of x from its parts.
func (x *Explanation) conclude() {
	x.Remaining = -1
	for _, e := range x.applying() {
		x.count(e)
		if e.Allowed {
			continue
		}
		if x.Limiting == nil || e.Answer.isLonger(&x.Limiting.Answer) {
			x.Limiting = e
		}
		if outcome := refusedBy(e.Policy, x.Key); outcome.gravity() > x.Outcome.gravity() {
			x.Outcome = outcome
		}
		x.Never = x.Never || e.Answer.Never
		x.NextAllowed = latest(x.NextAllowed, e.Answer.RetryAt)
	}
	for _, b := range x.Blocks {
		if b.ScopeOfChecks() != "" && !b.IsForAttacks() {
			continue // applies only to checks that name the scope
		}
		if b.Action == blocks.Challenge && x.Key.IsPass() {
			continue // it has solved one
		}
		if b.Action == blocks.Challenge {
			if x.Outcome == Allowed {
				x.Outcome, x.Block = Challenged, b
			}
			continue
		}
		x.Outcome, x.Limiting = Blocked, nil
		if x.Block == nil || x.Block.Action == blocks.Challenge || b.Outlasts(x.Block) {
			x.Block = b
		}
		switch {
		case b.IsForAttacks():
			x.NextAllowed = latest(x.NextAllowed, x.At.Add(attackRetry))
		case b.Expires.IsZero():
			x.Never = true
		case b.Expires.After(x.NextAllowed):
			x.NextAllowed = b.Expires
		}
	}
	if len(x.Exemptions) > 0 {
		x.Outcome, x.Limiting, x.Never, x.NextAllowed = Allowed, nil, false, x.At
	}
	if x.Never {
		x.NextAllowed = time.Time{}
	}
}

// applying returns the enforcing policies that decide a check without further details.
func (x *Explanation) applying() []*PolicyExplanation {
	var all []*PolicyExplanation
	if x.Enforcing != nil {
		all = append(all, x.Enforcing)
	}
	for _, e := range x.Conditional {
		if e.isAsked && e.Policy.Mode == rules.Enforce {
			all = append(all, e)
		}
	}
	return all
}

// count lowers x.Remaining to what is left of the rules of e, unless they count reports or
// different values instead of requests.
func (x *Explanation) count(e *PolicyExplanation) {
	if x.Degraded != "" || e.Policy.IsReported() || e.Policy.Rules.Distinct() != "" {
		return
	}
	for _, r := range e.Rules {
		left := r.Remaining
		if e.Policy.Options.Variant == algorithms.VariantQueue {
			left = min(left, 1) // further checks would have to wait
		}
		if x.Remaining < 0 || left < x.Remaining {
			x.Remaining = left
		}
	}
}
