package gate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keyhash"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/proxies"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// View is the node's copy of policies, entries and settings.
type View interface {
	Loaded() bool              // false until the node knows its policies: checks are errors until then
	Selector() *rules.Selector // the policies
	Blocks() *blocks.Set       // the blocks and exemptions
	Settings() catalog.Settings
	Profiles() *profiles.Set // the plans and own limits of keys
}

// Options are the settings of a Gate.
type Options struct {
	View View
	// Log decides against the rules.
	Log timestamplog.Log
	// Local is the log in memory that replaces Log during an outage. nil means that Log is itself
	// in memory and has no outages.
	Local timestamplog.Log
	// Deadline bounds how long a check waits for Log, however often it asks it. In a batch that
	// needs several calls, it bounds each call. Zero means DefaultDeadline. Checks have no
	// deadline if Local is nil.
	Deadline time.Duration
	// DeadlineOfAll makes Deadline bound a batch as a whole.
	DeadlineOfAll bool
	Recorder      Recorder         // nil means Discard
	Reports       ReportRecorder   // nil means Discard
	Now           func() time.Time // nil means time.Now
	// Bots identifies bots; nil verifies none. Those that its Verifier has verified are exempt from
	// policies with the outcome conditions.NotFound.
	Bots *bots.Directory
	// InAttack reports whether an attack goes on, in which the rows of lists apply that are for attacks
	// only; nil means never.
	InAttack func() bool
	// Unsaid is called with a warning once a policy has applied to many requests that did not say a
	// value that it needs; nil for none.
	Unsaid func(warning string)
	// Crowds are the internal addresses that many people share; their requests are no evidence against
	// any of them. Gates of one node share them. nil means that the gate has its own.
	Crowds *proxies.Crowds
}

// DefaultDeadline is how long a check waits for the log before the policy's
// on_failure answers.
const DefaultDeadline = 100 * time.Millisecond

// Gate answers checks. It is safe for concurrent use.
type Gate struct {
	view     View
	log      timestamplog.Log
	local    timestamplog.Log
	deadline time.Duration
	ofAll    bool // whether the deadline applies to a batch as a whole
	recorder Recorder
	reports  ReportRecorder
	now      func() time.Time
	calls    sync.Pool // of *call
	signers  keyhash.PerSecret[*signer]
	timers   timerPool
	// sentences are what sayEvidence says of keys.
	sentences sentences
	bots      *bots.Directory
	crawlers  *bots.Verifier // of bots
	unsaid    func(warning string)
	inAttack  func() bool
	crowds    *proxies.Crowds
}

// New returns a gate.
func New(o Options) *Gate {
	g := &Gate{view: o.View, log: o.Log, local: o.Local, deadline: o.Deadline, ofAll: o.DeadlineOfAll, recorder: o.Recorder, reports: o.Reports, now: o.Now, bots: o.Bots, unsaid: o.Unsaid, inAttack: o.InAttack, crowds: o.Crowds}
	if g.bots == nil {
		g.bots = &bots.Directory{}
	}
	g.crawlers = g.bots.Verifier
	if g.deadline <= 0 {
		g.deadline = DefaultDeadline
	}
	if g.recorder == nil {
		g.recorder = Discard{}
	}
	if g.reports == nil {
		g.reports = Discard{}
	}
	if g.now == nil {
		g.now = time.Now
	}
	if g.crowds == nil {
		g.crowds = &proxies.Crowds{}
	}
	if g.inAttack == nil {
		g.inAttack = func() bool { return false }
	}
	if g.unsaid == nil {
		g.unsaid = func(string) {}
	}
	g.calls.New = func() any { return &call{gate: g} }
	return g
}

// Decide answers checks in order, each on its own. decisions and errs must be as long as checks,
// and the memory of the decisions' States and Additional is reused. An error is a *fault.Error: the check is
// invalid (an unknown policy, a cost above the smallest limit), or the node has not loaded its
// policies yet.
func (g *Gate) Decide(ctx context.Context, checks []Check, decisions []Decision, errs []error) {
	g.DecideAt(ctx, g.now(), checks, decisions, errs)
}

// DecideAt is Decide for a caller that has just read the node's clock.
func (g *Gate) DecideAt(ctx context.Context, now time.Time, checks []Check, decisions []Decision, errs []error) {
	if !g.view.Loaded() {
		for i := range checks {
			errs[i] = errNotLoaded
		}
		return
	}
	c := g.begin()
	defer c.end()
	selector, set := g.view.Selector(), g.view.Blocks()
	for i := range checks {
		d := &decisions[i]
		d.begin(&checks[i], now)
		d.Check.ensureID()
		g.identify(&d.Check, selector, useOf(&d.Check, g.isRefusedUnread(&d.Check, set, now)))
		if errs[i] = g.prepare(d, selector, set); errs[i] == nil {
			errs[i] = prepareHold(decisions[i : i+1])
		}
		if errs[i] == nil {
			c.planEvidence(d, selector, set)
			c.plan(i, d)
		}
	}
	c.ask(ctx, &c.charges)
	c.run(ctx, decisions, errs)
	signer := c.first.signer
	for i := range checks {
		if errs[i] == nil {
			c.sayEvidence(ctx, &decisions[i])
			g.finish(&decisions[i], signer)
		}
		if d := &decisions[i]; errs[i] == nil && !d.ReservedAt.IsZero() {
			d.Handle = signer.handle(d.Check.ID, reservationsOf(d))
		}
		if d := &decisions[i]; errs[i] == nil && d.Check.holdID != "" && d.Outcome == Allowed {
			d.Hold = signer.holdOf(decisions[i : i+1])
		}
	}
}

// begin sets d to the answer to c if nothing refuses it. It sets the fields one by one because a
// Decision is large and would be copied.
func (d *Decision) begin(c *Check, now time.Time) {
	d.Reset()
	d.room, d.States = d.States, nil
	d.Check, d.Outcome = *c, Allowed
	d.At, d.Rule = now, -1
}

// Check answers one check; see Decide.
func (g *Gate) Check(ctx context.Context, c Check) (Decision, error) {
	var (
		decision [1]Decision
		err      [1]error
	)
	g.Decide(ctx, []Check{c}, decision[:], err[:])
	return decision[0], err[0]
}

// prepare selects the policies of d, and decides it if that needs no log.
func (g *Gate) prepare(d *Decision, selector *rules.Selector, set *blocks.Set) error {
	member := memberOf(g.view, d.Check.Key, selector)
	if !d.Check.Peek {
		g.noteAgent(d.Check.Key, d.Check.Request, d.At)
	}
	who := g.subject(d.Check.Key, member, d.At)
	own, err := ownOf(&d.Check, selector, who, member, d.At)
	if err != nil {
		return err
	}
	var passed *rules.Policy
	if d.Check.isPassed(own.enforcing) {
		passed, own.enforcing, own.limit = own.enforcing, nil, nil
	}
	d.Policy, d.OwnLimit, d.ownLeft = own.enforcing, own.limit, own.limit.Left(d.At)
	d.Check.setCost(d.Policy)
	match := d.Check.matchIn(set, d.At)
	d.Exemption, d.Block = match.Exemption, match.Block
	if shadow := set.Shadow(); shadow != nil && match.Exemption == nil {
		d.ListShadow = d.Check.matchIn(shadow, d.At).Block
	}
	if match.Exemption != nil {
		return nil
	}
	if match.Challenges() && (!d.Check.Pass.IsZero() || d.Check.Key.IsPass()) {
		d.Block = nil
	}
	if d.Block == nil {
		d.Block = d.Check.blockOfPass(set, d.At)
	}
	if b := d.Block; b != nil {
		d.Outcome, d.RetryAt, d.Never = blockedBy(b), b.Expires, b.Expires.IsZero()
		return nil
	}
	if only := set.ForAttacks(); only != nil && g.inAttack() {
		if d.Block = d.Check.matchIn(only, d.At).Block; d.Block != nil {
			d.Outcome, d.RetryAt = Blocked, d.At.Add(attackRetry)
			return nil
		}
	}
	if err := d.checkAskable(); err != nil {
		return err
	}
	if !d.Check.Peek {
		g.notice(selector.Notice(who, d.Check.Request, nil, ""))
	}
	if limits(own.shadow) {
		d.Shadow = &Shadow{Outcome: Allowed, Policy: own.shadow, Answer: Answer{At: d.At, Rule: -1}}
	}
	if !mayAskMore(selector, d.Check.Request) && d.Check.Pass.IsZero() {
		return nil
	}
	return d.addAdditional(&applying{own, selector, set, g.crawlers, who, d.At, !d.Check.Pass.IsZero(), passed})
}

// attackRetry is after how long a check is worth another try that is refused because of an attack, whose
// end is not known.
const attackRetry = time.Minute

// blockedBy returns the outcome of a check that a block refuses.
func blockedBy(b *blocks.Entry) Outcome {
	if b.Action == blocks.Challenge {
		return Challenged
	}
	return Blocked
}

// blockOfPass returns the block that refuses the pass of the check, nil for none. What challenges does
// not: the client has solved a challenge.
func (c *Check) blockOfPass(set *blocks.Set, at time.Time) *blocks.Entry {
	if c.Pass.IsZero() {
		return nil
	}
	if match := set.MatchIn(c.Pass, c.Request.Scope(), at); match.Refuses() && !match.Challenges() {
		return match.Block
	}
	return nil
}

// isPassed reports whether p would challenge the check if it refused it, but for its pass.
func (c *Check) isPassed(p *rules.Policy) bool {
	return p != nil && p.OnLimit == rules.ChallengeOnLimit && p.Mode == rules.Enforce && !c.Pass.IsZero()
}

// subject returns who is checked.
func (g *Gate) subject(k keys.Key, member *profiles.Member, now time.Time) rules.Subject {
	who := profiles.Subject(k, member)
	who.IsCrowd = g.crowds.Has(k, now)
	return who
}

// noteAgent notes the browser of a request, which may be nil, of k.
func (g *Gate) noteAgent(k keys.Key, r *conditions.Request, now time.Time) {
	if r != nil {
		g.crowds.Note(k, r.Value(conditions.Agent), now)
	}
}

func (g *Gate) notice(warning string) {
	if warning != "" {
		g.unsaid(warning)
	}
}

// checkAskable returns an error if d's policy can never grant the cost or the wait. A policy that
// reports charge is only asked whether it has room for one more report.
func (d *Decision) checkAskable() error {
	if !limits(d.Policy) || d.Policy.IsReported() {
		return nil
	}
	switch largest := d.Policy.LargestCost(); {
	case d.Check.Cost <= largest || d.Check.ChargeAlways:
	case d.OwnLimit != nil:
		return fault.Field("cost", "%d cannot be allowed while the key has a limit of its own: the most that this allows is %d", d.Check.Cost, largest)
	default:
		return fault.Field("cost", "%d can never be allowed: the smallest limit of policy %s is %d", d.Check.Cost, d.Policy.Name, largest)
	}
	if d.Check.Clipped && d.Check.ChargeAlways {
		d.Check.Cost = min(d.Check.Cost, d.maxCost())
	}
	if largest := d.maxCost(); d.Check.Cost > largest {
		return fault.Field("cost", "must be a whole number from 1 to %d under policy %s; more is accepted with a unit, as in \"1M tokens/1d\"%s", largest, d.Policy.Name, orCharge(d))
	}
	if d.Check.Hold > 0 && d.Check.MaxWait > 0 {
		return fault.Field("hold", "cannot be combined with max_wait")
	}
	if d.Check.Cancellable && !d.IsAdditional && !d.Policy.CanCancel() { // a client chooses what additional policies apply
		return fault.Field("cancellable", "cannot be granted: the policy %s does not keep what each check was charged; that needs the algorithm timestamp_log, sorted_set_log or %s, "+
			"and neither distinct rules nor count_refused", d.Policy.Name, algorithms.AmountLog)
	}
	if d.Check.MaxWait > 0 && d.Policy.TakesHolds() {
		return fault.Field("max_wait", "cannot be granted: the policy %s counts by %s, under which nothing is reserved; hold the amount, or take a counter such as %s", d.Policy.Name, algorithms.AmountLog, algorithms.LeakyBucket)
	}
	if d.Check.MaxWait > 0 && d.Policy.Rules.Distinct() != "" {
		return fault.Field("max_wait", "cannot be granted: the policy %s counts different values, for which nothing is reserved", d.Policy.Name)
	}
	if d.Check.MaxWait > 0 && d.Policy.Options.CountRefused {
		return fault.Field("max_wait", "cannot be granted: the policy %s counts refused requests too, so no reservation can be kept", d.Policy.Name)
	}
	return nil
}

// setCost sets the cost of a check that says none to that of p, which may be nil.
func (c *Check) setCost(p *rules.Policy) {
	if c.Cost == 0 || c.costUnsaid {
		c.Cost, c.costUnsaid = p.CostOf(0), true
	}
}

// costUnder returns the cost of the check under p: its own, or that of p if it says none.
func (c *Check) costUnder(p *rules.Policy) int {
	if c.costUnsaid {
		return p.CostOf(0)
	}
	return c.Cost
}

// maxCost returns the largest cost that a check may have under d's policy.
func (d *Decision) maxCost() int {
	switch {
	case d.Policy.CountsAmounts():
		return algorithms.MaxAmount
	case d.Check.ChargeAlways:
		return timestamplog.MaxUsage
	}
	return timestamplog.MaxCost
}

// orCharge names the other way to charge more.
func orCharge(d *Decision) string {
	if d.Check.ChargeAlways {
		return ""
	}
	return fmt.Sprintf(", and up to %d with charge %q", timestamplog.MaxUsage, "always")
}

func limits(p *rules.Policy) bool {
	return p != nil && p.Mode != rules.Off && len(p.Rules) > 0
}

// finish gives a refusal its ID and records the decision.
func (g *Gate) finish(d *Decision, signer *signer) {
	if d.Outcome == Limited || d.Outcome == Blocked || d.Outcome == Challenged {
		d.ID = signer.ID(policyID(d.Policy), d.CountedKey().String(), d.At)
	}
	if d.Shadow != nil && (d.Shadow.Outcome == Limited || d.Shadow.Outcome == Challenged) {
		d.Shadow.ID = signer.ID(d.Shadow.Policy.ID, d.Shadow.countedKey(&d.Check).String(), d.Shadow.At)
	}
	if !d.Check.Peek {
		g.recorder.Record(d)
	}
	for i := range d.Additional {
		g.finish(&d.Additional[i], signer)
	}
}

func policyID(p *rules.Policy) int64 {
	if p == nil {
		return 0
	}
	return p.ID
}
