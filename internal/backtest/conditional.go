package backtest

import (
	"context"
	"slices"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keyhash"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// applying returns the enforcing policies with conditions or an outcome that apply to a
// record. It is valid until the next call.
func (t *trial) applying(record accesslog.Record) []*rules.Policy {
	if !t.selector.HasConditional() && !t.selector.HasReported() {
		return nil
	}
	about := t.requestOf(record)
	t.found = t.selector.AppendConditional(t.found[:0], t.subject(record.Key), about)
	t.found = t.selector.AppendReported(t.found, t.subject(record.Key))
	kept := t.found[:0]
	for _, p := range t.found {
		if p.Mode == rules.Enforce && about.IsInScope(p.Scope) && len(p.Rules) > 0 && !t.isExempt(p, record) {
			kept = append(kept, p)
		}
	}
	return kept
}

// counting is what one log counts of a record: a policy for the key, or its part for a
// further key.
type counting struct {
	*triedPolicy
	key string
}

// countings returns what the logs of the policies count of a record, including their further
// keys.
func (t *trial) countings(l *triedPolicy, applying []*rules.Policy, key string, record accesslog.Record) []counting {
	var all []counting
	add := func(l *triedPolicy) {
		all = append(all, counting{l, key})
		for _, part := range t.selector.DerivedOf(l.policy) {
			attributes, values := t.attributesOf(record), t.valuesOf(record)
			derived, found := part.Derived.KeyOf(record.Key, attributes, values)
			if found && (part.IsReported() || part.Rules.CanCount(record.Key, attributes, values)) {
				all = append(all, counting{t.byPolicy[part], derived.String()})
			}
		}
	}
	if l != nil {
		add(l)
	}
	for _, p := range applying {
		if !p.IsTrap() {
			add(t.byPolicy[p])
		}
	}
	return all
}

// decideConditional answers a record that several policies decide, all or nothing, as
// the service does. by is the rule that makes it wait longest. A rule counts as having
// refused if it does; one alone if no other does.
func (t *trial) decideConditional(ctx context.Context, l *triedPolicy, applying []*rules.Policy, key string, record accesslog.Record) (by *RuleCount, err error) {
	for _, p := range applying {
		if p.IsTrap() {
			trap := t.byPolicy[p]
			trap.count(func(i int) bool { return p.Rules[i].Limit == 0 })
			t.countOffence(trap, key)
			if by == nil {
				by = trap.firstZero()
			}
		}
	}
	all := t.countings(l, applying, key, record)
	for _, c := range all {
		if c.policy.Derived == nil {
			continue
		}
		if blocked, is := t.blockedBy(c.key, t.scopeOf(record)); is {
			return t.refuseBlocked(blocked), nil
		}
	}
	if by != nil {
		t.refused++
		return by, nil
	}
	requests, results := make([]timestamplog.Request, len(all)), make([]timestamplog.Result, len(all))
	for i, each := range all {
		isReported := each.policy.IsReported()
		if !isReported && isTooCostly(each.policy, record.Cost) {
			t.tooCostly++
			t.refused++
			return each.refuseCost(record.Cost), nil
		}
		requests[i] = each.request
		requests[i].Key, requests[i].Cost, requests[i].Detail = each.key, record.Cost, true
		if isReported {
			requests[i].Cost, requests[i].Uncharged = 1, true
		} else if !t.setValue(&requests[i], each.policy, record) {
			requests[i].Uncharged = true
		}
	}
	if err := t.log.DecideAll(ctx, requests, results); err != nil {
		return nil, err
	}
	latest := int64(0)
	for i, r := range results {
		if r.Allowed {
			continue
		}
		each := all[i]
		if each.count(func(rule int) bool { return r.States[rule].RetryAfterMS > 0 }); r.RetryAt >= latest {
			latest, by = r.RetryAt, &each.counts[r.Rule]
		}
		t.countOffence(each.triedPolicy, each.key)
	}
	if by == nil {
		t.allowed++
	} else {
		t.refused++
	}
	return by, nil
}

// report charges the policies with an outcome for the outcome of a record that was
// allowed. One that is refused would have had no outcome.
func (t *trial) report(ctx context.Context, key string, record accesslog.Record) error {
	t.names = record.AppendOutcomes(t.names[:0], t.outcomes)
	if len(t.names) == 0 {
		return nil
	}
	t.found = t.selector.AppendReported(t.found[:0], t.subject(record.Key))
	attributes := t.attributesOf(record)
	for _, p := range t.found {
		if p.Mode == rules.Enforce && p.HasEvidence() {
			for _, name := range t.names {
				if name == conditions.NotFound && t.isCrawler(record) {
					continue
				}
				if err := t.chargeAll(ctx, p.AppendReportedEvidence(nil, nil, name, attributes), key, record, true); err != nil {
					return err
				}
			}
			continue
		}
		if p.Mode != rules.Enforce || t.isExempt(p, record) || !slices.Contains(t.names, p.Outcome) || !p.When.IsZero() && (attributes == nil || !p.When.Meets(attributes)) {
			continue
		}
		if err := t.reportTo(ctx, p, key, record); err != nil {
			return err
		}
		for _, part := range t.selector.DerivedOf(p) {
			derived, found := part.Derived.KeyOf(record.Key, attributes, t.valuesOf(record))
			if !found {
				t.byPolicy[part].reports.Unsaid++
				continue
			}
			if err := t.reportTo(ctx, part, derived.String(), record); err != nil {
				return err
			}
		}
	}
	return nil
}

// reportTo charges one policy, or the part of one for a further key.
func (t *trial) reportTo(ctx context.Context, p *rules.Policy, key string, record accesslog.Record) error {
	l := t.byPolicy[p]
	t.requests[0] = l.request
	t.requests[0].Key, t.requests[0].Cost, t.requests[0].ChargeAlways = key, 1, true
	if !t.setValue(&t.requests[0], p, record) {
		l.reports.Unsaid++
		return nil
	}
	t.log.Decide(ctx, t.requests[:], t.results[:])
	if err := t.results[0].Err; err != nil {
		return err
	}
	t.countReport(l, key)
	return nil
}

// withDerived returns the policies, each with its parts for further keys.
func withDerived(policies []*rules.Policy, selector *rules.Selector) []*rules.Policy {
	var all []*rules.Policy
	for _, p := range policies {
		all = append(append(all, p), selector.DerivedOf(p)...)
	}
	return all
}

// valuesOf returns the values of a record, as a caller would send them.
func (t *trial) valuesOf(record accesslog.Record) map[string]string {
	switch {
	case t.values != nil:
		return t.values(record)
	case record.Account != "":
		return map[string]string{"account": record.Account}
	}
	return nil
}

// scopeOf returns the scope of a record, "" for none: that which the caller would have given it, or that of
// the request itself.
func (t *trial) scopeOf(record accesslog.Record) string {
	about := t.attributesOf(record)
	return about.InScope(t.scopes.Of(&record, about)).Scope()
}

// requestOf returns all that the caller says of a record, nil for nothing.
func (t *trial) requestOf(record accesslog.Record) *conditions.Request {
	return t.attributesOf(record).WithValues(t.valuesOf(record)).InScope(t.scopeOf(record))
}

// attributesOf returns what a record says of its request, with what a node would find by itself, except
// for how a bot was verified: that is not known of the past.
func (t *trial) attributesOf(record accesslog.Record) *conditions.Request {
	about := conditions.NewRequest(record.Path, record.Method, record.Agent, record.Host)
	if !t.selector.AsksFound() {
		return about
	}
	return bots.FoundOf(about, record.Key)
}

// setValue completes a request that asks p by the value that distinct rules count. It reports
// false if the record does not have that value.
func (t *trial) setValue(q *timestamplog.Request, p *rules.Policy, record accesslog.Record) bool {
	if p.Rules.Distinct() == "" {
		return true
	}
	value := p.Rules.ValueOf(record.Key, t.attributesOf(record), t.valuesOf(record))
	q.Cost, q.Value = 1, hashOf(value)
	return value != ""
}

// firstZero returns the count of the first rule that always refuses.
func (l *triedPolicy) firstZero() *RuleCount {
	for i, r := range l.policy.Rules {
		if r.Limit == 0 {
			return &l.counts[i]
		}
	}
	return nil
}

// learns reports whether policies count what is known by the answers of the whole site.
func (t *trial) learns() bool {
	return slices.ContainsFunc([]string{answers.Probe, answers.Browsed, answers.LoginFailed}, t.selector.CountsOutcome)
}

// isExempt reports whether p does not apply to a record because it is a crawler's.
func (t *trial) isExempt(p *rules.Policy, record accesslog.Record) bool {
	return p.Outcome == conditions.NotFound && t.isCrawler(record)
}

func (t *trial) isCrawler(record accesslog.Record) bool {
	return slices.ContainsFunc(t.crawlers, func(c keys.Pattern) bool { return c.Matches(record.Key) })
}

// chargeEvidence charges what the request of a record shows, before the record is answered.
func (t *trial) chargeEvidence(ctx context.Context, key string, record accesslog.Record) error {
	charges := t.selector.AppendEvidence(nil, t.subject(record.Key), t.requestOf(record))
	if t.isCrawler(record) {
		charges = rules.WithoutLinks(charges)
	}
	return t.chargeAll(ctx, charges, key, record, false)
}

// chargeAll charges evidence to the key and the further keys of its policies.
func (t *trial) chargeAll(ctx context.Context, charges []rules.Charge, key string, record accesslog.Record, isReport bool) (err error) {
	for _, charge := range charges {
		if charge.Policy.Mode != rules.Enforce {
			continue
		}
		isOwn := false // whether the key itself is charged, once for each item that is taken back
		unsaid := t.selector.EachCharged([]rules.Charge{charge}, record.Key, t.attributesOf(record), t.valuesOf(record), hashOf, func(c rules.Charged) {
			isOwn = isOwn || c.Derived == nil
			if err == nil {
				err = t.charge(ctx, c, key, isReport)
			}
		})
		if isOwn {
			t.countEvidence(charge, key)
		}
		if unsaid != "" {
			t.byPolicy[charge.Policy].reports.Unsaid++
		}
	}
	return err
}

func (t *trial) charge(ctx context.Context, c rules.Charged, key string, isReport bool) error {
	if c.Derived != nil {
		key = c.Derived.String()
	}
	l, q := t.byPolicy[c.Policy], &t.requests[0]
	*q = l.request
	q.Key, q.Cost, q.Value, q.ChargeAlways = key, c.Amount(), uint64(c.Tag), true
	t.log.Decide(ctx, t.requests[:], t.results[:])
	if err := t.results[0].Err; err != nil || !isReport {
		return err
	}
	t.countReport(l, key)
	return nil
}

// countReport counts a report that the log has answered.
func (t *trial) countReport(l *triedPolicy, key string) {
	if t.results[0].Allowed {
		l.reports.Charged++
		return
	}
	l.reports.Full++
	t.isReportFull = true
	t.countOffence(l, key)
}

func hashOf(value string) uint64 { return max(1, keyhash.Hash{}.Sum64(value)) }
