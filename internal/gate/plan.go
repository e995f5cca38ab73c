package gate

import (
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// call is one call of the gate: what it asks the log, in which order, and until when. Its memory
// is reused. Checks that are decided each on their own are planned by plan and asked in three steps:
//
//  1. The requests of first, each on its own: those of plain checks with their shadow policies,
//     and those of the policies with an outcome of the checks in afterOutcomes.
//  2. The own policies of the checks in afterOutcomes, which depend on the answers of step 1.
//  3. The checks in together: the log decides all requests of one check as one.
//
// Several checks that are decided as one are one set of requests, as a check in together is.
type call struct {
	gate *Gate
	// charges are those for evidence, which are asked before everything else.
	charges       batch
	first         batch
	afterOutcomes []int // indexes of checks
	together      []int // indexes of checks
	// until is the deadline for waiting for the log, zero until the log is first asked.
	until time.Time
	// limited is a context for that deadline, kept for reuse; nil if there is none.
	limited *lazyDeadline
}

// begin returns a call, which end returns to the pool.
func (g *Gate) begin() *call {
	c := g.calls.Get().(*call)
	c.first.signer = presentSigner(g)
	c.charges.signer = c.first.signer
	return c
}

func (c *call) end() {
	c.first.empty()
	c.charges.empty()
	c.afterOutcomes, c.together = c.afterOutcomes[:0], c.together[:0]
	c.until = time.Time{}
	c.gate.calls.Put(c)
}

// plan adds a prepared decision, which has index i in those of the call.
func (c *call) plan(i int, d *Decision) {
	switch {
	case d.asksOutcomesFirst():
		c.afterOutcomes = append(c.afterOutcomes, i)
		for j := range d.Additional {
			c.first.addEnforcing(&d.Additional[j])
		}
	case d.Additional != nil:
		c.together = append(c.together, i)
	default:
		c.first.addEnforcing(d)
		if d.Shadow != nil {
			c.first.add(d, d.Shadow.Policy, true)
		}
	}
}

// asksOutcomesFirst reports whether the policies with an outcome are asked before the key's own,
// instead of together with it. The check charges them nothing, so both orders charge the same,
// and the log answers single requests three times as fast as requests that it must decide as one.
// A report that arrives between the two calls may be counted as if it came after the check.
func (d *Decision) asksOutcomesFirst() bool {
	if d.Additional == nil || d.Outcome != Allowed || d.Check.MaxWait > 0 || d.Check.ChargeAlways {
		return false
	}
	for i := range d.Additional {
		if p := d.Additional[i].Policy; p != nil && !p.IsReported() {
			return false
		}
	}
	return true
}

// batch is requests that the log is asked in one call, with what each is for.
type batch struct {
	requests []timestamplog.Request
	asked    []asked
	results  []timestamplog.Result // of requests, once they were asked
	signer   *signer               // hashes the values that rules count
}

// asked says which policy of which decision a request to the log is for.
type asked struct {
	decision *Decision
	policy   *rules.Policy
	shadow   bool
}

func (b *batch) empty() {
	clear(b.requests)
	clear(b.results)
	clear(b.asked)
	b.requests, b.results, b.asked = b.requests[:0], b.results[:0], b.asked[:0]
}

// addEnforcing adds the requests of d's enforcing policies that are not decided yet.
func (b *batch) addEnforcing(d *Decision) {
	if d.Exemption == nil && d.Outcome == Allowed && limits(d.Policy) {
		b.add(d, d.Policy, false)
	}
	for i := range d.Additional {
		b.addEnforcing(&d.Additional[i])
	}
}

// addShadows adds the requests of d's shadow policies that are not decided yet.
func (b *batch) addShadows(d *Decision) {
	if d.Shadow != nil && d.Shadow.Outcome == Allowed {
		b.add(d, d.Shadow.Policy, true)
	}
	for i := range d.Additional {
		b.addShadows(&d.Additional[i])
	}
}

// addOwn adds the requests of d's own policy and of its shadow policies. The policies with an
// outcome must have answered: if one refuses, the own policy is only asked what it would say.
func (b *batch) addOwn(d *Decision) {
	refused := gravest(d.Additional) != Allowed
	if limits(d.Policy) {
		b.add(d, d.Policy, false)
		b.last().Peek = d.Check.Peek || refused
	}
	if !refused {
		b.addShadows(d)
	}
}

// add adds the request that asks p, the enforcing or shadow policy of d.
func (b *batch) add(d *Decision, p *rules.Policy, shadow bool) {
	a := asked{d, p, shadow}
	_, answer := a.answer()
	b.requests = append(b.requests, timestamplog.RequestOf(p, answer.countedKey(&d.Check).String(), d.Check.costUnder(p)))
	b.asked = append(b.asked, a)
	r := b.last()
	r.Peek, r.Detail, r.ID, r.IsNewID, r.ChargeAlways = d.Check.Peek, d.Check.Detail, d.Check.ID, d.Check.isNewID, d.Check.ChargeAlways
	if p.IsReported() {
		r.Cost, r.ID, r.ChargeAlways, r.Uncharged = 1, "", false, true
	}
	chargesValue := p.Rules.Distinct() != "" && !p.IsReported()
	if chargesValue {
		b.nameValue(r, p.Rules.ValueOf(d.Check.Key, d.Check.Request, nil))
	}
	if !p.Options.CountRefused && !p.TakesHolds() && !chargesValue && (p.Derived == nil || !shadow) { // no reservation is possible there; a shadow policy then decides at once
		r.MaxWait = d.Check.MaxWait.Milliseconds()
	}
	if p.TakesHolds() {
		b.hold(r, d, p)
	}
}

func (b *batch) last() *timestamplog.Request { return &b.requests[len(b.requests)-1] }

// take adds request i of another batch.
func (b *batch) take(from *batch, i int) {
	b.requests, b.asked = append(b.requests, from.requests[i]), append(b.asked, from.asked[i])
}

// split divides b into the requests for which is returns true and the others.
func (b *batch) split(is func(r *timestamplog.Request, a asked) bool) (those, others batch) {
	those.signer, others.signer = b.signer, b.signer
	for i := range b.requests {
		into := &others
		if is(&b.requests[i], b.asked[i]) {
			into = &those
		}
		into.take(b, i)
	}
	return those, others
}

// nameValue makes r charge a value, or, if value is "", only ask whether a new value would be
// allowed.
func (b *batch) nameValue(r *timestamplog.Request, value string) {
	if value == "" {
		r.ID, r.ChargeAlways, r.Uncharged = "", false, true
		return
	}
	r.Value = b.signer.valueOf(value)
}

// refuseWaits makes the uncharged requests of b be refused instead of having to wait: each is
// asked on its own, so nothing would be reserved for the time for which it would be allowed.
func (b *batch) refuseWaits() {
	for i := range b.requests {
		if r := &b.requests[i]; r.Uncharged {
			r.MaxWait = 0
		}
	}
}

// peek makes peeks of all requests.
func (b *batch) peek() {
	for i := range b.requests {
		b.requests[i].Peek = true
	}
}

// fill passes the log's results on to the decisions.
func (b *batch) fill() {
	for i := range b.results {
		b.asked[i].fill(&b.results[i])
	}
}

// allows reports whether no request was refused.
func (b *batch) allows() bool {
	return !slices.ContainsFunc(b.asked, func(a asked) bool { outcome, _ := a.answer(); return *outcome != Allowed })
}

// chargesAlways reports whether the checks of b report usage after the fact; all of them do, or none.
func (b *batch) chargesAlways() bool { return b.asked[0].decision.Check.ChargeAlways }

// isOfOneCheck reports whether all requests belong to one check, some of them about further keys.
func (b *batch) isOfOneCheck() bool {
	return !slices.ContainsFunc(b.asked, func(a asked) bool { return a.decision.Check.Key != b.asked[0].decision.Check.Key })
}

// answer returns the fields of the decision that the request fills in.
func (a asked) answer() (*Outcome, *Answer) {
	if a.shadow {
		return &a.decision.Shadow.Outcome, &a.decision.Shadow.Answer
	}
	return &a.decision.Outcome, &a.decision.Answer
}

// isFurther reports whether the request is about a further key, or a pass.
func (a asked) isFurther() bool {
	_, answer := a.answer()
	return answer.Derived != nil
}

func (a asked) chargesFurther() bool { return a.isFurther() && !a.policy.IsReported() }

// fill sets the outcome and the answer from the log's result.
func (a asked) fill(r *timestamplog.Result) {
	outcome, answer := a.answer()
	if *outcome = Allowed; !r.Allowed {
		*outcome = refusedBy(a.policy, answer.countedKey(&a.decision.Check))
	}
	answer.fill(r)
	if !a.shadow {
		answer.endIn(a.decision.ownLeft)
	}
	if r.Allowed && !a.decision.Check.Peek && a.decision.Degraded == "" && !a.policy.IsReported() {
		a.reserve(answer, r)
	}
	if hold := a.decision.holdFor(a.policy); hold > 0 && r.Allowed && !a.decision.Check.Peek && a.decision.Degraded == "" {
		answer.HeldUntil = time.UnixMilli(r.ReservedAt).Add(hold)
	}
}

// reserve makes what was charged a reservation, if it is for a time ahead or may be cancelled.
func (a asked) reserve(answer *Answer, r *timestamplog.Result) {
	cost := a.decision.Check.costUnder(a.policy)
	if r.Replayed {
		cost = r.ReplayedCost
	}
	// Of a larger cost that was charged before the log knows only so much.
	isKnown := !r.Replayed || cost < timestamplog.MaxCost
	if a.decision.Check.Cancellable && a.policy.CanCancel() && isKnown && a.decision.holdFor(a.policy) == 0 {
		answer.counts = min(a.policy.Rules.LongestWindow(), time.Duration(timestamplog.MaxCounts)*time.Millisecond)
	}
	if answer.Delay > 0 || answer.counts > 0 {
		answer.ReservedAt, answer.reservedCost = time.UnixMilli(r.ReservedAt), cost
	}
}

// fill sets a from the log's result.
func (a *Answer) fill(r *timestamplog.Result) {
	*a = Answer{Derived: a.Derived, At: time.UnixMilli(r.Now), Rule: r.Rule, States: r.States, Replayed: r.Replayed, TooManyHolds: r.TooManyHolds}
	if r.Allowed {
		a.Delay = time.Duration(max(0, r.ReservedAt-r.Now)) * time.Millisecond
		return
	}
	if a.Never = r.RetryAt == timestamplog.Never; !a.Never {
		a.RetryAt = time.UnixMilli(r.RetryAt)
	}
	if r.Boundary != 0 {
		a.Boundary = time.UnixMilli(r.Boundary)
	}
}
