package backtest

import (
	"context"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/proxies"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
)

// trial is one plan being tried.
type trial struct {
	selector      *rules.Selector
	log           timestamplog.Log
	now           int64 // Unix milliseconds, the time of the record at hand
	triedPolicies []*triedPolicy
	byPolicy      map[*rules.Policy]*triedPolicy
	requests      [1]timestamplog.Request // reused, so that a decision allocates nothing
	results       [1]timestamplog.Result
	found         []*rules.Policy // reused by applying
	outcomes      answers.Outcomes
	crawlers      []keys.Pattern
	crowds        *proxies.Crowds
	plans         func(keys.Key) string // nil for none
	values        func(accesslog.Record) map[string]string
	names         []string // reused by report
	scopes        accesslog.Scopes
	blocks        map[blockedKey]block
	evidence      map[*rules.Evidence]*foundEvidence
	// networks are the networks that offended as further keys at the record at hand, and
	// isReportFull whether a policy had no room for its report.
	networks     []netip.Prefix
	isReportFull bool

	allowed, refused, tooCostly, unlimited, blocked, challenged int64
}

// triedPolicy is one policy of a trial.
type triedPolicy struct {
	policy  *rules.Policy
	request timestamplog.Request // for a key that is still to be named
	counts  []RuleCount
	reports ReportCount // of a policy with an outcome
	// maxCosts is the largest cost that each rule can ever allow.
	maxCosts   []int
	escalation *escalation // nil for none; a policy and its parts share one
}

func newTrial(plan Plan, o *Options) *trial {
	t := &trial{selector: plan.selector, outcomes: o.Outcomes, crawlers: o.Crawlers, plans: o.Plans, values: o.Values, scopes: o.Scopes, byPolicy: map[*rules.Policy]*triedPolicy{}, blocks: map[blockedKey]block{}, evidence: map[*rules.Evidence]*foundEvidence{}}
	escalations := offences.EscalationsOf(plan.policies)
	if t.selector == nil {
		t.selector = rules.NewSelector(nil)
	}
	t.crowds = &proxies.Crowds{OnFound: t.endBlocks}
	t.log = memlog.New(memlog.Options{Now: func() time.Time { return time.UnixMilli(t.now) }})
	for _, p := range withDerived(plan.policies, t.selector) {
		l := &triedPolicy{policy: p, request: timestamplog.RequestOf(p, "", 1)}
		derived := ""
		if p.Derived != nil {
			derived = p.Derived.Label()
		}
		l.reports = ReportCount{Policy: p.Name, DerivedKey: derived, Outcome: p.Outcome}
		if p.HasEvidence() {
			l.reports.Outcome = "evidence"
		}
		if p.Mode == rules.Enforce {
			for i, rule := range p.Rules.Counted(p.Options) {
				l.counts = append(l.counts, RuleCount{Policy: p.Name, DerivedKey: derived, Rule: p.Rules[i].String(), Outcome: p.Outcome, Scope: p.Scope, Trap: p.IsTrap(), challenges: p.OnLimit == rules.ChallengeOnLimit})
				most := min(rule.Limit, rule.Capacity())
				if !p.CountsAmounts() {
					most = min(most, timestamplog.MaxCost)
				}
				l.maxCosts = append(l.maxCosts, int(most))
			}
			if policy, found := escalations[p.ID]; found && p.Derived == nil {
				l.escalation = &escalation{policy: policy, of: l, states: map[string]*escalated{}, count: EscalationCount{Policy: p.Name, Scope: p.Scope}}
			} else if found {
				l.escalation = t.triedPolicies[len(t.triedPolicies)-p.Part].escalation // the policy is before its parts
			}
		}
		t.triedPolicies = append(t.triedPolicies, l)
		t.byPolicy[p] = l
	}
	return t
}

// subject returns k with the plan that it is said to have.
func (t *trial) subject(k keys.Key) rules.Subject {
	who := rules.Subject{Key: k, IsCrowd: t.isCrowd(k)}
	if t.plans != nil {
		who.Plan = t.plans(k)
	}
	return who
}

// isCrowd reports whether many people share k by what its requests have shown so far.
func (t *trial) isCrowd(k keys.Key) bool { return t.crowds.Has(k, time.UnixMilli(t.now)) }

// triedPolicyOf returns the triedPolicy that limits k, nil when none does.
func (t *trial) triedPolicyOf(k keys.Key) *triedPolicy {
	policy, _ := t.selector.Select(t.subject(k))
	if policy == nil || policy.Mode != rules.Enforce || len(policy.Rules) == 0 {
		return nil
	}
	return t.byPolicy[policy]
}

// decide answers one record. by is the rule that
// makes a refused one wait longest, or for a blocked one a rule of the policy that blocked
// it; nil for an allowed one.
func (t *trial) decide(ctx context.Context, l *triedPolicy, key string, record accesslog.Record) (by *RuleCount, err error) {
	t.now = record.Time
	t.networks, t.isReportFull = t.networks[:0], false
	t.crowds.Note(record.Key, record.Agent, time.UnixMilli(t.now))
	if len(t.blocks) > 0 {
		if blocked, is := t.blockedBy(key, t.scopeOf(record)); is {
			return t.refuseBlocked(blocked), nil
		}
	}
	if t.selector.HasEvidence() {
		if err = t.chargeEvidence(ctx, key, record); err != nil {
			return nil, err
		}
	}
	blocked := t.blocked
	by, err = t.ask(ctx, l, key, record)
	if by != nil && by.challenges && t.blocked == blocked {
		t.challenged++
	}
	if by == nil && err == nil && t.selector.HasReported() {
		err = t.report(ctx, key, record)
	}
	return by, err
}

// refuseBlocked counts a refusal by an automatic block.
func (t *trial) refuseBlocked(b block) *RuleCount {
	b.by.count.Refused++
	if b.challenges {
		t.challenged++
	}
	t.blocked++
	t.refused++
	return &b.by.of.counts[0]
}

// ask answers one record of a key that is not blocked.
func (t *trial) ask(ctx context.Context, l *triedPolicy, key string, record accesslog.Record) (by *RuleCount, err error) {
	if applying := t.applying(record); len(applying) > 0 || l != nil && len(l.policy.Also) > 0 {
		return t.decideConditional(ctx, l, applying, key, record)
	}
	if l == nil {
		t.unlimited++
		t.allowed++
		return nil, nil
	}
	request, result := &t.requests[0], &t.results[0]
	*request = l.request
	request.Key, request.Cost = key, record.Cost
	if isTooCostly(l.policy, record.Cost) {
		t.tooCostly++
		t.refused++
		return l.refuseCost(record.Cost), nil
	}
	// Where a refusal counts, it cannot be asked about once more.
	request.Detail = l.policy.Options.CountRefused
	t.log.Decide(ctx, t.requests[:], t.results[:])
	if result.Err != nil {
		return nil, result.Err
	}
	if result.Allowed {
		t.allowed++
		return nil, nil
	}
	t.refused++
	by = &l.counts[result.Rule]
	t.countOffence(l, key)
	return by, t.countRules(ctx, l)
}

// countRules counts the rules that refused the request at hand. Most requests
// are allowed and need no detail, so only the refused ones are asked again; as
// a refusal logs nothing, the answer is the same. Where refusals count, the
// rules are the rules that refuse after it.
func (t *trial) countRules(ctx context.Context, l *triedPolicy) error {
	if len(l.counts) == 1 {
		l.counts[0].Failed++
		l.counts[0].Alone++
		return nil
	}
	if !t.requests[0].Detail {
		t.requests[0].Peek, t.requests[0].Detail = true, true
		t.log.Decide(ctx, t.requests[:], t.results[:])
		if err := t.results[0].Err; err != nil {
			return err
		}
	}
	states := t.results[0].States
	l.count(func(i int) bool { return states[i].RetryAfterMS > 0 })
	return nil
}

// isTooCostly reports whether a policy refuses every request of a cost.
func isTooCostly(p *rules.Policy, cost int) bool {
	return cost > p.LargestCost() || cost > timestamplog.MaxCost && !p.CountsAmounts()
}

// refuseCost counts the rules that could never allow so large a cost, which
// the service refuses before it asks any log.
func (l *triedPolicy) refuseCost(cost int) *RuleCount {
	l.count(func(i int) bool { return cost > l.maxCosts[i] })
	for i := range l.counts {
		if cost > l.maxCosts[i] {
			return &l.counts[i]
		}
	}
	return nil
}

func (l *triedPolicy) count(failed func(rule int) bool) {
	failures, last := 0, 0
	for i := range l.counts {
		if failed(i) {
			l.counts[i].Failed++
			failures++
			last = i
		}
	}
	if failures == 1 {
		l.counts[last].Alone++
	}
}

func (t *trial) ruleCounts() []RuleCount {
	var all []RuleCount
	for _, l := range t.triedPolicies {
		all = append(all, l.counts...)
	}
	return all
}

// reportCounts returns the counts of the policies with an outcome and of their parts.
func (t *trial) reportCounts() []ReportCount {
	var all []ReportCount
	for _, l := range t.triedPolicies {
		if l.policy.IsReported() && l.policy.Mode == rules.Enforce {
			all = append(all, l.reports)
		}
	}
	return all
}
