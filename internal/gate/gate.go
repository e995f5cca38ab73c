package gate

import (
	"context"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/crawlers"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keyhash"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// View is the node's copy of policies, entries and settings.
type View interface {
	Loaded() bool
	Selector() *rules.Selector
	Blocks() *blocks.Set
	Settings() catalog.Settings
	Profiles() *profiles.Set
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
	// Crawlers are exempt from policies with the outcome conditions.NotFound; nil for none.
	Crawlers *crawlers.Verifier
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
	scratch  sync.Pool
	signers  keyhash.PerSecret[*signer]
	timers   timerPool
	crawlers *crawlers.Verifier
}

// New returns a gate.
func New(o Options) *Gate {
	g := &Gate{view: o.View, log: o.Log, local: o.Local, deadline: o.Deadline, ofAll: o.DeadlineOfAll, recorder: o.Recorder, reports: o.Reports, now: o.Now, crawlers: o.Crawlers}
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
	g.scratch.New = func() any { return &scratch{gate: g} }
	return g
}

// scratch is the working memory of one call.
type scratch struct {
	gate     *Gate // nil for one that holds only some requests of another
	requests []timestamplog.Request
	results  []timestamplog.Result
	asked    []asked
	combined []int // indexes of the checks that several policies decide as one
	preceded []int // indexes of the checks whose policies with an outcome are asked first
	// isApart reports that the checks are to be decided as one although they are asked about apart, so
	// that no refusal of theirs is counted; see Log.DecideAll.
	isApart bool
	// until is the deadline for waiting for the log, zero until the log is first asked.
	until time.Time
	// limited is a context for that deadline, kept for reuse; nil if there is none.
	limited *lazyDeadline
}

// asked says which policy of which decision a request to the log is for.
type asked struct {
	decision *Decision
	policy   *rules.Policy
	shadow   bool
}

// Decide answers checks in order, each on its own. decisions and errs must be as long as checks,
// and the memory of the decisions' States is reused. An error is a *fault.Error: the check is
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
	s := g.scratch.Get().(*scratch)
	defer s.release()
	selector, set := g.view.Selector(), g.view.Blocks()
	for i := range checks {
		d := &decisions[i]
		d.begin(&checks[i], now)
		d.Check.ensureID()
		if errs[i] = g.prepare(d, selector, set); errs[i] == nil {
			s.queueCheck(i, d)
		}
	}
	s.askQueued(ctx, g, decisions, errs)
	signer := presentSigner(g)
	for i := range checks {
		if errs[i] == nil {
			g.finish(&decisions[i], signer)
		}
		if d := &decisions[i]; errs[i] == nil && !d.ReservedAt.IsZero() {
			d.Handle = signer.handle(d.Check.ID, reservationsOf(d))
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
	who := profiles.Subject(d.Check.Key, member)
	own, err := ownOf(&d.Check, selector, who, member, d.At)
	if err != nil {
		return err
	}
	d.Policy, d.OwnLimit, d.ownLeft = own.enforcing, own.limit, own.limit.Left(d.At)
	match := d.Check.matchIn(set, d.At)
	d.Exemption, d.Block = match.Exemption, match.Block
	switch {
	case match.Exemption != nil:
		return nil
	case match.Block != nil:
		d.Outcome = Blocked
		d.RetryAt, d.Never = match.Block.Expires, match.Block.Expires.IsZero()
		return nil
	}
	if err := d.checkAskable(); err != nil {
		return err
	}
	if limits(own.shadow) {
		d.Shadow = &Shadow{Outcome: Allowed, Policy: own.shadow, Answer: Answer{At: d.At, Rule: -1}}
	}
	if !mayAskMore(selector, d.Check.Request) {
		return nil
	}
	return d.addAdditional(&applying{own, selector, set, g.crawlers, who, d.At})
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
	if d.Check.MaxWait > 0 && d.Policy.Rules.Distinct() != "" {
		return fault.Field("max_wait", "cannot be granted: the policy %s counts different values, for which nothing is reserved", d.Policy.Name)
	}
	if d.Check.MaxWait > 0 && d.Policy.Options.CountRefused {
		return fault.Field("max_wait", "cannot be granted: the policy %s counts refused requests too, so no reservation can be kept", d.Policy.Name)
	}
	return nil
}

// queueEnforcing queues the requests of d's enforcing policies that are not decided yet.
func (s *scratch) queueEnforcing(d *Decision) {
	if d.Exemption == nil && d.Outcome == Allowed && limits(d.Policy) {
		s.queueRequest(d, d.Policy, false)
	}
	for i := range d.Additional {
		s.queueEnforcing(&d.Additional[i])
	}
}

func limits(p *rules.Policy) bool {
	return p != nil && p.Mode != rules.Off && len(p.Rules) > 0
}

// queueRequest queues the request that asks p, the enforcing or shadow policy of d.
func (s *scratch) queueRequest(d *Decision, p *rules.Policy, shadow bool) {
	a := asked{d, p, shadow}
	_, answer := a.answer()
	s.requests = append(s.requests, timestamplog.RequestOf(p, answer.countedKey(&d.Check).String(), d.Check.Cost))
	r := &s.requests[len(s.requests)-1]
	r.Peek, r.Detail, r.ID, r.ChargeAlways = d.Check.Peek, d.Check.Detail, d.Check.ID, d.Check.ChargeAlways
	if p.IsReported() {
		r.Cost, r.ID, r.ChargeAlways, r.Uncharged = 1, "", false, true
	}
	if s.isApart && !shadow && !d.Check.ChargeAlways {
		r.Options.CountRefused = false
	}
	chargesValue := p.Rules.Distinct() != "" && !p.IsReported()
	if chargesValue {
		s.nameValue(r, p.Rules.ValueOf(d.Check.Request, nil))
	}
	if !p.Options.CountRefused && !chargesValue && (p.Derived == nil || !shadow) { // no reservation is possible there; a shadow policy then decides at once
		r.MaxWait = d.Check.MaxWait.Milliseconds()
	}
	s.asked = append(s.asked, a)
}

// nameValue makes r charge a value, or, if value is "", only ask whether a new value would be
// allowed.
func (s *scratch) nameValue(r *timestamplog.Request, value string) {
	if value == "" {
		r.ID, r.ChargeAlways, r.Uncharged = "", false, true
		return
	}
	r.Value = presentSigner(s.gate).valueOf(value)
}

// refuseWaits makes the uncharged requests of s be refused instead of having to wait: each is
// asked on its own, so nothing would be reserved for the time for which it would be allowed.
func (s *scratch) refuseWaits() {
	for i := range s.requests {
		if r := &s.requests[i]; r.Uncharged {
			r.MaxWait = 0
		}
	}
}

// askLog fills in the log's results, or what each policy answers without the log.
func (g *Gate) askLog(ctx context.Context, s *scratch) {
	if len(s.requests) == 0 {
		return
	}
	s.startAsking()
	if g.local == nil {
		g.log.Decide(ctx, s.requests, s.results)
	} else {
		s.decideRemotely(ctx, g)
	}
	for i := range s.results {
		if s.results[i].Err != nil {
			g.fail(ctx, s, i)
			continue
		}
		s.asked[i].fill(&s.results[i])
	}
}

// startAsking prepares the requests for Log.Decide, and memory for the results.
func (s *scratch) startAsking() {
	s.results = append(s.results[:0], make([]timestamplog.Result, len(s.requests))...)
	for i, a := range s.asked {
		if s.requests[i].Detail && !a.shadow {
			s.results[i].States = a.decision.room
		}
	}
}

// fill sets the outcome and the answer from the log's result.
func (a asked) fill(r *timestamplog.Result) {
	outcome, answer := a.answer()
	if *outcome = Allowed; !r.Allowed {
		*outcome = Limited
	}
	answer.fill(r)
	if !a.shadow {
		answer.endIn(a.decision.ownLeft)
	}
	if answer.Delay > 0 && !a.decision.Check.Peek && a.decision.Degraded == "" && !a.policy.IsReported() {
		answer.ReservedAt, answer.reservedCost = time.UnixMilli(r.ReservedAt), a.decision.Check.Cost
		if r.Replayed {
			answer.reservedCost = r.ReplayedCost
		}
	}
}

// fill sets a from the log's result.
func (a *Answer) fill(r *timestamplog.Result) {
	*a = Answer{Derived: a.Derived, At: time.UnixMilli(r.Now), Rule: r.Rule, States: r.States, Replayed: r.Replayed}
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

// answer returns the fields of the decision that the request fills in.
func (a asked) answer() (*Outcome, *Answer) {
	if a.shadow {
		return &a.decision.Shadow.Outcome, &a.decision.Shadow.Answer
	}
	return &a.decision.Outcome, &a.decision.Answer
}

// finish gives a refusal its ID and records the decision.
func (g *Gate) finish(d *Decision, signer *signer) {
	if d.Outcome == Limited || d.Outcome == Blocked {
		d.ID = signer.ID(policyID(d.Policy), d.CountedKey().String(), d.At)
	}
	if d.Shadow != nil && d.Shadow.Outcome == Limited {
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

func (s *scratch) release() {
	clear(s.requests)
	clear(s.results)
	clear(s.asked)
	s.requests, s.results, s.asked = s.requests[:0], s.results[:0], s.asked[:0]
	s.combined, s.preceded, s.isApart = s.combined[:0], s.preceded[:0], false
	s.until = time.Time{}
	s.gate.scratch.Put(s)
}
