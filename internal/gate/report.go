package gate

import (
	"cmp"
	"context"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

// MaxReportAge is the maximum age of a report. A report counts at the time at which it arrives,
// so an older one would be counted in the wrong window.
const MaxReportAge = 10 * time.Minute

// Report is the outcome of a request of a key, whether or not it was checked.
type Report struct {
	Key     keys.Key
	Outcome string // valid; see conditions.CheckOutcome
	// Request describes the request, nil for no description. Policies with conditions count the
	// report only if Request meets them.
	Request *conditions.Request
	// Values are further values of the request by name. Distinct rules count the different ones.
	// A value with the name of an attribute of Request takes precedence over the attribute.
	Values map[string]string
	// At is when it happened, zero for now.
	At     time.Time
	Detail bool   // fill in what each rule has left
	Source string // the reporter, for display; never trusted
	Meta   map[string]string
	// ID names the report, "" for none. A report that is sent again within
	// timestamplog.IDLifetime after it was charged is not charged again. At most
	// timestamplog.MaxID bytes.
	ID string
}

// Reported is the answer to a Report.
type Reported struct {
	Report Report
	At     time.Time // when it arrived, by the clock of the log that counted it
	// Exemption is why nothing was counted, nil for none.
	Exemption *blocks.Entry
	// Block is why nothing was counted, nil for none: Stint refused the request, and not the site.
	Block *blocks.Entry
	// Crawler is the operator of the verified crawler that sent the request, if nothing was
	// counted because the outcome is conditions.NotFound; "" for none.
	Crawler string
	// IsLate reports that nothing was counted because the report is older than
	// MaxReportAge.
	IsLate bool
	// IsCounted reports that at least one policy that is not off counts the outcome, for this key
	// or others.
	IsCounted bool
	// IsShared means that nothing was counted because many people share the address; see
	// proxies.AboutShared.
	IsShared bool
	// Unsaid is the name of a value that a policy would have counted but that is missing in the
	// report, "" for none.
	Unsaid string
	// Policies are the policies that count the outcome for this key and request, by id.
	Policies []PolicyReport
	// Degraded describes the outage during which the report arrived, "" for none.
	Degraded string
}

// ReportResult is what one policy did with a report.
type ReportResult string

// Results of a report under one policy.
const (
	Charged  ReportResult = "charged"
	Full     ReportResult = "full"     // there was no room: nothing was charged, which is an offence
	Replayed ReportResult = "replayed" // its ID was charged before
	Lost     ReportResult = "lost"     // during an outage of the log, under on_failure allow or deny
)

// PolicyReport is what one policy did with a report.
type PolicyReport struct {
	// Policy is the policy, or its part that limits the further key Answer.Derived.
	Policy *rules.Policy
	// Item is the evidence that the policy charges for, nil for a policy that counts one outcome.
	Item   *rules.Evidence
	tag    algorithms.Tag // of the charge
	Result ReportResult
	ID     offences.RefusalID // opens the record of the offence, zero for none
	Answer
}

// Report counts reports in order under the policies with their outcome. Each report charges what
// fits, and none is refused. Each answer says whether checks of the key are refused from now on.
// answers must be as long as reports. The error is a *fault.Error: the node has not loaded its
// policies yet.
func (g *Gate) Report(ctx context.Context, reports []Report, answers []Reported) error {
	if !g.view.Loaded() {
		return errNotLoaded
	}
	c := g.begin()
	defer c.end()
	selector, set, now := g.view.Selector(), g.view.Blocks(), g.now()
	var decisions [][]Decision // one for each policy of each report
	for i := range reports {
		a := &answers[i]
		*a = Reported{Report: reports[i], At: now}
		g.noteAgent(a.Report.Key, a.Report.Request, now)
		who := g.subject(a.Report.Key, memberOf(g.view, a.Report.Key, selector), now)
		a.IsShared = who.IsShared()
		about := Check{Key: a.Report.Key, Request: a.Report.Request}
		g.identify(&about, selector, bots.Use{IsReport: true})
		match := about.matchIn(set, now)
		a.Report.Request, a.Exemption = about.Request, match.Exemption
		if a.Exemption == nil && !match.Challenges() {
			a.Block = match.Block
		}
		a.prepare(selector, set, g.crawlers, who, about.bot, c.first.signer)
		g.notice(selector.Notice(who, a.Report.Request, a.Report.Values, a.Report.Outcome))
		decisions = append(decisions, a.decisions(now))
		for j := range decisions[i] {
			c.first.addReport(&decisions[i][j], a, &a.Policies[j])
		}
	}
	c.ask(ctx, &c.first)
	signer := c.first.signer
	for i := range answers {
		for j := range decisions[i] {
			g.finishReport(&answers[i], j, &decisions[i][j], signer)
		}
		g.reports.RecordReport(&answers[i])
	}
	return nil
}

// prepare selects the policies that count a report, unless it is exempt.
func (a *Reported) prepare(selector *rules.Selector, set *blocks.Set, verifier *bots.Verifier, who rules.Subject, bot bots.Identity, signer *signer) {
	a.IsCounted = selector.CountsOutcome(a.Report.Outcome)
	if a.Exemption != nil || a.Block != nil {
		return
	}
	if a.IsLate = !a.Report.At.IsZero() && a.At.Sub(a.Report.At) > MaxReportAge; a.IsLate {
		return
	}
	if a.IsCounted && a.Report.Outcome == conditions.NotFound {
		verifier.Notice(a.Report.Key)
		if a.Crawler = verifier.OperatorOf(a.Report.Key); a.Crawler == "" && bot.IsCrawler() {
			a.Crawler = bot.Agent.Operator.Name
		}
		if a.Crawler != "" {
			return
		}
	}
	eachReported(&a.Report, bot, selector, who, func(p *rules.Policy, counted *keys.Key) {
		if p.HasEvidence() {
			a.addEvidence(p, counted, selector, set, signer)
		} else {
			a.Unsaid = cmp.Or(a.Report.eachCharged(p, counted, selector, set, a.At, a.add), a.Unsaid)
		}
	})
}

// IsOfRequest reports whether the report is about a request that the site itself has answered recently:
// Stint did not block it, and the report is not late.
func (a *Reported) IsOfRequest() bool { return a.Block == nil && !a.IsLate }

// eachReported calls do for each policy with evidence, and each that counts the outcome, which a report of
// who, or of a bot, may charge: with the key of the bot that it counts, nil for that of the report.
func eachReported(r *Report, bot bots.Identity, selector *rules.Selector, who rules.Subject, do func(p *rules.Policy, counted *keys.Key)) {
	counts := func(p *rules.Policy) bool {
		return limits(p) && (p.HasEvidence() || p.Outcome == r.Outcome && (p.When.IsZero() || r.Request != nil && p.When.Meets(r.Request)))
	}
	var room [8]*rules.Policy
	for _, p := range selector.AppendReported(room[:0], who) {
		if counts(p) {
			do(p, nil)
		}
	}
	counted := botKeys(bot, selector)
	for i := range counted {
		for _, p := range selector.Reported() {
			if counts(p) && isForBot(p, counted[i]) {
				do(p, &counted[i])
			}
		}
	}
}

// eachCharged calls do for each log that a report charges under p, which counts its outcome: that of the
// key, and those of the further keys. It returns the name of a value that the rules count and that the
// report does not contain, "" for none.
func (r *Report) eachCharged(p *rules.Policy, counted *keys.Key, selector *rules.Selector, set *blocks.Set, at time.Time, do func(p *rules.Policy, derived *keys.Key)) (unsaid string) {
	charge := func(p *rules.Policy, derived *keys.Key) {
		if p.Rules.CanCount(r.Key, r.Request, r.Values) {
			do(p, derived)
		} else {
			unsaid = p.Rules.Distinct()
		}
	}
	charge(p, counted)
	for _, part := range selector.DerivedOf(p) {
		if key, found := part.Derived.KeyOf(r.Key, r.Request, r.Values); found && set.Match(key, at).Exemption == nil {
			charge(part, &key)
		}
	}
	return unsaid
}

// addEvidence adds the charges of a policy with evidence.
func (a *Reported) addEvidence(p *rules.Policy, counted *keys.Key, selector *rules.Selector, set *blocks.Set, signer *signer) {
	r := &a.Report
	charges := p.AppendReportedEvidence(nil, counted, r.Outcome, r.Request)
	unsaid := selector.EachCharged(charges, r.Key, r.Request, r.Values, signer.valueOf, func(charged rules.Charged) {
		if charged.Derived == nil || set.Match(*charged.Derived, a.At).Exemption == nil {
			a.Policies = append(a.Policies, PolicyReport{Policy: charged.Policy, Item: charged.Item, tag: charged.Tag, Answer: Answer{Derived: charged.Derived}})
		}
	})
	a.Unsaid = cmp.Or(unsaid, a.Unsaid)
}

// add adds a policy, or its part for a further key.
func (a *Reported) add(p *rules.Policy, derived *keys.Key) {
	a.Policies = append(a.Policies, PolicyReport{Policy: p, Answer: Answer{Derived: derived}})
}

// decisions returns a decision for each policy, to be filled in by the log.
func (a *Reported) decisions(now time.Time) []Decision {
	if len(a.Policies) == 0 {
		return nil
	}
	r := &a.Report
	check := Check{Key: r.Key, Cost: 1, Detail: r.Detail, Source: r.Source, Meta: r.Meta, Request: r.Request, ChargeAlways: true, ID: r.ID}
	all := make([]Decision, len(a.Policies))
	for i, p := range a.Policies {
		d := &all[i]
		d.begin(&check, now)
		d.IsAdditional, d.Reported, d.Derived = true, r.Outcome, p.Derived
		if p.Policy.Mode == rules.Shadow {
			d.Shadow = &Shadow{Outcome: Allowed, Policy: p.Policy, Answer: d.Answer}
		} else {
			d.Policy = p.Policy
		}
	}
	return all
}

// addReport adds the request that charges a report.
func (b *batch) addReport(d *Decision, a *Reported, under *PolicyReport) {
	p, shadow := d.Policy, false
	if p == nil {
		p, shadow = d.Shadow.Policy, true
	}
	b.add(d, p, shadow)
	r := b.last()
	if under.Item != nil {
		chargeFor(r, under.Item, under.tag, a.Report.ID)
		return
	}
	b.chargeReport(p, &a.Report, a.Report.ID)
}

// chargeReport makes the last request charge a report under p, once for an id.
func (b *batch) chargeReport(p *rules.Policy, of *Report, id string) {
	r := b.last()
	r.ID, r.ChargeAlways, r.Uncharged, r.MaxWait = id, true, false, 0
	if p.Rules.Distinct() != "" {
		b.nameValue(r, p.Rules.ValueOf(of.Key, of.Request, of.Values))
	}
}

// finishReport stores what the policy of d decided in the answer, and records it.
func (g *Gate) finishReport(a *Reported, i int, d *Decision, signer *signer) {
	p := &a.Policies[i]
	outcome := d.Outcome
	p.Answer = d.Answer
	if d.Shadow != nil {
		outcome, p.Answer = d.Shadow.Outcome, d.Shadow.Answer
	}
	wasAsked := d.Degraded == "" || p.Policy.OnFailure == rules.FailLocal
	switch {
	case !wasAsked || outcome == Unavailable:
		p.Result = Lost
	case p.Replayed:
		p.Result = Replayed
	case outcome == Limited || outcome == Challenged:
		p.Result = Full
	default:
		p.Result = Charged
	}
	if a.Degraded == "" {
		a.Degraded = d.Degraded
	}
	a.At = latest(a.At, p.At)
	if p.Result != Charged && p.Result != Full || p.Item != nil && p.Item.Points < 0 {
		return
	}
	g.finish(d, signer)
	if p.ID = d.ID; d.Shadow != nil {
		p.ID = d.Shadow.ID
	}
}

// IsFull reports whether the policy refuses checks after the report. It needs
// Report.Detail.
func (p *PolicyReport) IsFull() bool {
	for _, s := range p.States {
		if s.RetryAfterMS > 0 && p.Item == nil || s.Remaining == 0 {
			return true
		}
	}
	return p.Result == Full
}
