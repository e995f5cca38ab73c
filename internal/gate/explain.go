package gate

import (
	"context"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// MaxTimestamps bounds how many logged times an explanation shows.
const MaxTimestamps = 1000

// Explanation says what applies to a key now and why.
type Explanation struct {
	Key keys.Key
	At  time.Time
	// Plan is the key's plan, "" for none.
	Plan string
	// OwnLimit is the key's own limit, whose rules Enforcing then has; nil for none.
	OwnLimit   *profiles.Limit
	Exemptions []*blocks.Entry // that are active and select the key
	Blocks     []*blocks.Entry // that are active and select the key, hidden or not; those of a scope last
	// Enforcing and Shadow are the policies that a check would ask; nil where
	// none applies.
	Enforcing *PolicyExplanation
	Shadow    *PolicyExplanation
	// Conditional are the policies with conditions or an outcome, enforcing and shadow,
	// that would be asked in addition: about requests that meet the conditions, or about
	// every request.
	Conditional []*PolicyExplanation
	// Outcome is what a check of cost 1 of which nothing else is said would be answered
	// now: of Conditional, only those with an outcome count.
	Outcome Outcome
	// NextAllowed is when the next request would be allowed if nobody else
	// came: At where it would be now, zero with Never where waiting does not
	// help.
	NextAllowed time.Time
	Never       bool
	// Crawler is the operator of the verified crawler that the key is, "" for none. Policies
	// with the outcome conditions.NotFound do not apply to it and are left out.
	Crawler string
	// Degraded says which outage keeps the rules' part from being known.
	Degraded string
}

// PolicyExplanation is one policy's part of an Explanation.
type PolicyExplanation struct {
	Policy *rules.Policy
	// Pattern is what selected the key; zero where the policy was named.
	Pattern keys.Pattern
	// Derived is the further key that Policy, which is then a part of one, limits; nil for
	// the key itself.
	Derived *keys.Key
	Answer  Answer
	Allowed bool
	Rules   []RuleExplanation
	// Timestamps are the logged times that count for some rule, reservations ahead first and
	// then the newest first, at most MaxTimestamps of them; none where
	// the policy's algorithm keeps counters and no times.
	Timestamps []time.Time
}

// RuleExplanation is one rule's part.
type RuleExplanation struct {
	Rule rules.Rule
	// Used is what is gone of the most that may come at once: of the rule's
	// limit, or of a bucket's burst. Remaining is the rest.
	Used      int
	Remaining int
	// RetryAt is when this rule alone would allow one more request; zero with
	// Never for a rule that refuses everything.
	RetryAt time.Time
	Never   bool
	// NextExpiry is when the oldest request that counts ages out, zero where
	// none counts and where no times are kept.
	NextExpiry time.Time
}

// Explain says what applies to k now, under its own policies or the one named.
// It charges nothing and counts nothing. Its errors are those of Decide.
func (g *Gate) Explain(ctx context.Context, k keys.Key, policy string) (*Explanation, error) {
	if !g.view.Loaded() {
		return nil, fault.New(fault.Unavailable, "This node has not loaded its policies and blocks yet; try again in a moment.")
	}
	now, set, selector := g.now(), g.view.Blocks(), g.view.Selector()
	member := g.view.Profiles().Find(k)
	who := profiles.Subject(k, member)
	var d Decision
	d.begin(&Check{Key: k, Policy: policy}, now)
	enforcing, shadow, err := policiesOf(&d.Check, selector, who)
	if err != nil {
		return nil, err
	}
	d.Policy = enforcing
	d.applyOwnLimit(selector, who, member)
	enforcing = d.Policy
	x := &Explanation{
		Key: k, At: now, Plan: who.Plan, OwnLimit: d.OwnLimit, Crawler: g.crawlers.OperatorOf(k), Outcome: Allowed, NextAllowed: now,
		Exemptions: set.Selecting(blocks.Exemption, k, now), Blocks: append(set.Selecting(blocks.Block, k, now), set.SelectingScoped(k, now)...),
	}
	byMatch, shadowByMatch := selector.Matched(who)
	if x.Enforcing, err = g.explainPolicy(ctx, who, enforcing, byMatch); err != nil {
		x.Degraded = unreachable
	}
	if x.Shadow, err = g.explainPolicy(ctx, who, shadow, shadowByMatch); err != nil {
		x.Degraded = unreachable
	}
	if policy == "" {
		for _, p := range selector.Conditional(who) {
			if p.Outcome == conditions.NotFound && x.Crawler != "" {
				continue
			}
			px, err := g.explainPolicy(ctx, who, p, keys.Pattern{})
			if err != nil {
				x.Degraded = unreachable
			}
			x.Conditional = append(x.Conditional, px)
		}
	}
	if policy == "" {
		x.addDerived(ctx, g, selector)
	}
	x.conclude()
	return x, nil
}

// addDerived adds the parts of policies that limit further keys: those of the
// network of x.Key, which all its requests have, and those whose further key x.Key is.
func (x *Explanation) addDerived(ctx context.Context, g *Gate, selector *rules.Selector) {
	if !selector.HasDerived() {
		return
	}
	set := g.view.Blocks()
	add := func(part *rules.Policy, key keys.Key) {
		match := set.Match(key, x.At)
		if key != x.Key && match.Exemption != nil {
			return // it is not counted
		}
		px, err := g.explainPolicy(ctx, rules.Subject{Key: key}, part, keys.Pattern{})
		if err != nil {
			x.Degraded = unreachable
		}
		px.Derived = &key
		if key != x.Key && match.Block != nil && part.Mode == rules.Enforce && !part.DependsOnRequest() && !slices.Contains(x.Blocks, match.Block) {
			x.Blocks = append(x.Blocks, match.Block)
		}
		x.Conditional = append(x.Conditional, px)
	}
	var counting []*rules.Policy
	for _, p := range []*PolicyExplanation{x.Enforcing, x.Shadow} {
		if p != nil {
			counting = append(counting, p.Policy)
		}
	}
	for _, p := range x.Conditional {
		counting = append(counting, p.Policy)
	}
	for _, p := range counting {
		for _, part := range selector.DerivedOf(p) {
			if key, found := part.Derived.KeyOf(x.Key, nil, nil); found {
				add(part, key)
			}
		}
	}
	for _, part := range selector.Making(x.Key) {
		add(part, x.Key)
	}
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
	return px, nil
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

// conclude works out the verdict from its parts.
func (x *Explanation) conclude() {
	if len(x.Exemptions) > 0 {
		return
	}
	for _, e := range append([]*PolicyExplanation{x.Enforcing}, x.Conditional...) {
		if e != nil && e.Derived != nil && *e.Derived == x.Key {
			continue // it refuses the requests that derive the key, and no checks of it
		}
		if e == nil || e.Allowed || e != x.Enforcing && (e.Policy.DependsOnRequest() || e.Policy.Mode != rules.Enforce) {
			continue
		}
		x.Outcome, x.Never = Limited, x.Never || e.Answer.Never
		x.NextAllowed = latest(x.NextAllowed, e.Answer.RetryAt)
	}
	for _, b := range x.Blocks {
		if b.Scope != "" {
			continue // of checks that say the scope
		}
		x.Outcome = Blocked
		if b.Expires.IsZero() {
			x.Never = true
		} else if b.Expires.After(x.NextAllowed) {
			x.NextAllowed = b.Expires
		}
	}
	if x.Never {
		x.NextAllowed = time.Time{}
	}
}
