package adminui

import (
	"context"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/offenders"
	"github.com/stint-dev/stint/internal/supervise"
)

// overviewPage says what happens, to whom, since when, and what to press.
type overviewPage struct {
	watch
	Pulse     *pulse
	Health    []Part
	Chart     *areas
	Sum       areaPoint // of the span
	Offenders []offenderRow
	Report    *offenders.Report
	Proposals []*proposalView
	Blocks    []*blocks.Block // new automatic ones
	NewBlocks int
	Rules     []refusingRule
	Limited   int64 // of the span, by all rules
}

// refusingRule is one rule among those that refuse most.
type refusingRule struct {
	offenders.RuleRow
	PolicyName string
	Width      string // of its bar, percent
}

const (
	overviewOffenders = 13
	overviewBlocks    = 6
	overviewRules     = 8
	sparkPoints       = 30
	recentBlocks      = 24 * time.Hour
)

// overviewHandler answers the page of the overview.
type overviewHandler struct {
	*site
	offenders *offenders.Service // nil where offences are not counted
	blocks    blocks.Store
	parts     func(context.Context) []Part // nil shows what readiness says
	firstRun  *firstRunHandler
	entries   *UI
}

func (h *overviewHandler) routes() []httpserver.Route {
	return []httpserver.Route{h.get("/", identity.Read, h.show)}
}

func (h *overviewHandler) show(c *httpserver.Call) error {
	if h.offenders == nil {
		return h.firstRun.show(c)
	}
	if h.firstRun.neverChecked(c) {
		return h.firstRun.show(c)
	}
	w, err := h.watching(c, "Overview", "/", "done", "ids")
	if err != nil {
		return err
	}
	page := &overviewPage{watch: w}
	ctx := c.Context()
	if page.Toast, err = h.entries.actToast(ctx, &page.watch); err != nil {
		return err
	}
	page.Health = h.health(ctx)
	err = together(ctx, page, h.addTraffic, h.addTopOffenders, h.addProposals, h.addNewBlocks, h.addRules)
	if err != nil {
		return err
	}
	return h.site.show(c, "overview", page)
}

// together fills in the parts of a page side by side, each its own fields, and
// returns the first error.
func together[P any](ctx context.Context, page P, parts ...func(context.Context, P) error) error {
	errs := make([]error, len(parts))
	var all sync.WaitGroup
	for i, part := range parts {
		all.Go(func() {
			errs[i] = supervise.Call("page part", func() error { return part(ctx, page) })
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// addTraffic draws the chart and takes the pulse.
func (h *overviewHandler) addTraffic(ctx context.Context, page *overviewPage) error {
	now := page.Now
	recent := span{From: now.Add(-minutesOf), To: now}
	traffic, err := h.offenders.Traffic(ctx, 0, recent.From, now, time.Minute)
	if err != nil {
		return err
	}
	minutes := areaPoints(traffic, recent, time.Minute)
	s, step := page.Span, stepOf(page.Span.Length())
	if s.From.Before(recent.From) || s.Last == 0 {
		if traffic, err = h.offenders.Traffic(ctx, 0, s.From, s.To, step); err != nil {
			return err
		}
	}
	points := areaPoints(traffic, s, step)
	page.Chart = drawAreas(points, s, step)
	page.Sum = sumPoints(points)
	if page.Pulse, err = h.findPulse(ctx, minutes, now); err != nil {
		return err
	}
	page.Pulse.Checks = page.Sum.Allowed + page.Sum.refused()
	page.Chart.Sentence = page.chartSentence()
	events, err := h.offenders.Store.EscalationEvents(ctx, offences.EscalationFilter{From: s.From, To: s.To, Limit: 200})
	if err != nil {
		return err
	}
	page.Chart.addSquares(events)
	page.brush()
	return nil
}

// brush selects what is unusual, so that one press zooms into it.
func (p *overviewPage) brush() {
	since := p.Pulse.Since
	if since.IsZero() || !since.After(p.Span.From.Add(p.Span.Length()/20)) || p.Span.To.Sub(since) < 2*time.Minute || p.Span.Last == 0 {
		return
	}
	p.Chart.mark(since, "Begins "+since.Format("15:04"))
	p.Chart.Brush = p.selection(since, p.Span.To)
}

// selection returns what a part of the chart holds.
func (p *overviewPage) selection(from, to time.Time) *areaBrush {
	var sum areaPoint
	for i := range p.Chart.Points {
		if at := p.Chart.Points[i].At; !at.Before(from) && at.Before(to) {
			sum.add(&p.Chart.Points[i])
		}
	}
	x, end := p.Chart.share(from), p.Chart.share(to)
	return &areaBrush{
		From: from, To: to, X: percent(x), Width: percent(end - x), EndX: percent(end), Rest: percent(1 - end),
		Sentence: from.Format("15:04") + " to " + to.Format("15:04") + ", " + duration(to.Sub(from)) + " selected: " +
			compact(sum.refused()) + " refused, " + share(sum.refused(), sum.Allowed+sum.refused()) + " of checks",
		Address: spanned("/", span{From: from, To: to}),
	}
}

func (p *overviewPage) chartSentence() string {
	text := "In " + p.Span.Name() + ", of " + compact(p.Pulse.Checks) + " checks " + compact(p.Sum.Allowed) + " were allowed, " +
		compact(p.Sum.Limited) + " limited by a rule and " + compact(p.Sum.Blocked) + " blocked."
	if !p.Pulse.Since.IsZero() {
		text += " Refusals rose beyond what is usual at " + p.Pulse.Since.Format("15:04") + "."
	}
	return text
}

func (h *overviewHandler) addTopOffenders(ctx context.Context, page *overviewPage) (err error) {
	page.Report, err = h.offenders.Report(ctx, offences.Query{
		From: page.Span.From, To: page.Span.To, Limit: overviewOffenders, Points: sparkPoints,
	})
	if err != nil {
		return err
	}
	page.Offenders = h.offenderRows(page.Report, page.Span)
	return nil
}

func (h *overviewHandler) addProposals(ctx context.Context, page *overviewPage) error {
	open, err := h.offenders.Store.FindProposals(ctx, true, 20)
	for _, p := range open {
		page.Proposals = append(page.Proposals, viewProposal(p))
	}
	return err
}

func (h *overviewHandler) addNewBlocks(ctx context.Context, page *overviewPage) error {
	found, err := h.blocks.FindBlocks(ctx, blocks.Filter{Source: blocks.Automatic, Limit: overviewBlocks, At: page.Now})
	if err != nil {
		return err
	}
	for _, b := range found.Items {
		if page.Now.Sub(b.Created) < max(recentBlocks, page.Span.Length()) {
			page.Blocks = append(page.Blocks, b)
		}
	}
	page.NewBlocks = found.Total
	return nil
}

func (h *overviewHandler) addRules(ctx context.Context, page *overviewPage) error {
	rows, err := h.offenders.RulesReport(ctx, page.Span.From, page.Span.To)
	if err != nil {
		return err
	}
	var most int64
	for _, r := range rows {
		if r.Kind != offences.Limited {
			continue
		}
		page.Limited += r.Refused
		most = max(most, r.Refused)
		if len(page.Rules) < overviewRules {
			page.Rules = append(page.Rules, refusingRule{RuleRow: r, PolicyName: h.policyName(r.Policy)})
		}
	}
	for i := range page.Rules {
		page.Rules[i].Width = percent(float64(page.Rules[i].Refused) / float64(max(1, most)))
	}
	return nil
}

// Headline returns the sentence at the head.
func (p *overviewPage) Headline() string {
	now, usual := p.Pulse.Now, p.Pulse.Usual
	switch {
	case !p.Pulse.Since.IsZero():
		text := "Refusing " + requests(now.Refused()) + " a second since " + shortTime(p.Pulse.Since, p.Now)
		if ago := p.Now.Sub(p.Pulse.Since); ago >= time.Minute {
			text += ", " + minutesAgo(ago) + " ago"
		}
		if p.Pulse.Known {
			return text + ". The usual is " + perSecond(usual.Refused()) + "."
		}
		return text + "."
	case now.Refused() > 0:
		return "Nothing unusual. Refusing " + requests(now.Refused()) + " a second."
	case now.Allowed > 0:
		return "Nothing is refused now."
	case p.Pulse.Checks > 0:
		return "No checks at the moment."
	}
	return "No checks in " + p.Span.Name() + "."
}

func requests(perSec float64) string {
	text := perSecond(perSec)
	if text == "1" {
		return "1 request"
	}
	return text + " requests"
}

func minutesAgo(d time.Duration) string {
	if d >= time.Hour {
		return duration(d.Truncate(time.Minute))
	}
	return plural(int64(d/time.Minute), "minute")
}

// UsualAllowed, UsualLimited and UsualBlocked stand beside the figures.
func (p *overviewPage) UsualAllowed() string {
	return p.usual(p.Pulse.Now.Allowed, p.Pulse.Usual.Allowed)
}

// UsualLimited is of the requests that a rule refuses.
func (p *overviewPage) UsualLimited() string {
	return p.usual(p.Pulse.Now.Limited, p.Pulse.Usual.Limited)
}

// UsualBlocked is of the blocked ones.
func (p *overviewPage) UsualBlocked() string {
	return p.usual(p.Pulse.Now.Blocked, p.Pulse.Usual.Blocked)
}

func (p *overviewPage) usual(now, usual float64) string {
	switch {
	case !p.Pulse.Known:
		return ""
	case now <= 1.3*usual+0.05 && now >= 0.7*usual-0.05:
		return "as usual"
	}
	return "usual " + perSecond(usual)
}

// ShareOf writes the share of what rules refused.
func (p *overviewPage) ShareOf(n int64) string { return share(n, p.Limited) }

// Rate writes a rate for the page.
func (p *overviewPage) Rate(f float64) string { return perSecond(f) }

// CulpritShare writes what share of the refusals the culprit has.
func (p *overviewPage) CulpritShare() string { return wholePercent(p.Pulse.From.Share) }

// CulpritLink leads to what explains the culprit: its key, or the offenders
// within its range.
func (p *overviewPage) CulpritLink() string {
	from := p.Pulse.From
	if from.Keys == 0 {
		return p.KeyLink(keyOfPattern(from.Pattern))
	}
	return p.Link("/offenders", "pattern", from.Pattern.String())
}

// CulpritBlockLink leads to the form that blocks the culprit.
func (p *overviewPage) CulpritBlockLink() string {
	reason := wholePercent(p.Pulse.From.Share) + " of what was refused since " + p.Pulse.Since.Format("2 Jan, 15:04")
	return spanned("/blocks/new", p.Span, "pattern", p.Pulse.From.Pattern.String(), "reason", reason)
}
