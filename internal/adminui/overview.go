package adminui

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/chart"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/presets"
	"github.com/stint-dev/stint/internal/supervise"
)

// overviewPage shows whether there is an attack, on whom, since when, and what to do.
type overviewPage struct {
	site.MonitorPage
	Attack   *offences.Attack
	Question *presets.Question // what is protected, nil once that is known
	// Unconnected means that only the example of the first steps was checked.
	Unconnected bool
	Checks      int64 // in the time range
	Health      []Part
	Chart       *chart.Area
	Sum         offences.Interval // sums of the time range
	Offenders   []offenderRow
	Report      *offences.OffenderReport
	Proposals   []*proposalView
	Pauses      []offences.EscalationPause
	Blocks      []newBlock
	NewBlocks   int
	Rules       []refusingRule
	Limited     int64 // in the time range, by all rules
	// SourcePolicy is the policy that limits the source of the attack, "" for none.
	SourcePolicy string
	// AttackPaths are the paths that most of what is refused since the attack began asks for.
	AttackPaths   []breakdown.Group
	AttackRefused int64 // with a path or without
	// FromMemory means that the database did not answer, and only what is in memory is shown.
	FromMemory bool
}

// newBlock is a new automatic block.
type newBlock struct {
	*blocks.Entry
	KeyLink string // of the page of the one key that the pattern selects, "" for none
}

// refusingRule is one of the rules that refuse most.
type refusingRule struct {
	offences.RuleRow
	PolicyName string
	Width      string // of its bar, in percent
}

const (
	overviewOffenders = 13
	overviewBlocks    = 6
	overviewRules     = 8
	recentBlocks      = 24 * time.Hour
)

// overviewHandler serves the overview.
type overviewHandler struct {
	*site.Site
	detection *admin.Detection // nil if offences are not counted
	blocks    *admin.Entries
	parts     func(context.Context) []Part // nil shows the parts of the readiness
	firstRun  *firstRunHandler
	toasts    *toasts
}

func (h *overviewHandler) routes() []httpserver.Route {
	return []httpserver.Route{h.InMenu(site.Monitor, 1, "Overview", h.Get("/", identity.Read, h.show))}
}

func (h *overviewHandler) show(c *httpserver.Call) error {
	if h.detection == nil {
		return h.firstRun.show(c)
	}
	if h.firstRun.neverChecked(c) {
		return h.firstRun.show(c)
	}
	w, err := h.NewMonitorPage(c, "Overview", "/", "done", "ids")
	if err != nil {
		return err
	}
	page := &overviewPage{MonitorPage: w}
	ctx := c.Context()
	page.Toast, err = h.toasts.find(ctx, &page.MonitorPage)
	if err = h.Tolerate(&page.Frame, err); err != nil {
		return err
	}
	page.Health, page.Question = h.health(ctx), presets.Ask(h.Catalog.Selector())
	page.Unconnected = h.firstRun.hasChecked(c) && !h.firstRun.isConnected(ctx)
	err = together(ctx, page, h.addTraffic, h.addTopOffenders, h.addProposals, h.addPauses, h.addNewBlocks, h.addRules)
	if page.FromMemory = err != nil; page.FromMemory {
		if err = h.Tolerate(&page.Frame, err); err != nil {
			return err
		}
		found, err := h.Catalog.Blocks().Find(newBlocks(page))
		if err != nil {
			return err
		}
		h.takeNewBlocks(page, &found)
	}
	return h.Site.RenderLive(c, "overview", page)
}

// together fills in the parts of a page concurrently, each its own fields, and returns the
// first error.
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

// addTraffic draws the chart and finds out whether there is an attack.
func (h *overviewHandler) addTraffic(ctx context.Context, page *overviewPage) error {
	var err error
	if page.Attack, err = h.detection.Attack(ctx); err != nil {
		return err
	}
	if source := page.Attack.Source; source != nil {
		page.SourcePolicy = h.PolicyName(source.Policy)
	}
	if page.Attack.IsActive() {
		asked, err := h.detection.Requested(ctx, admin.RequestedQuery{From: page.Attack.Since, To: page.Now, By: []string{"path"}, Decision: "refused", Limit: attackPaths})
		if err != nil {
			return err
		}
		page.AttackRefused = asked.Total.Refused()
		for _, g := range asked.Breakdowns[0].Groups {
			if g.Value != "" && g.Refused() > 0 {
				page.AttackPaths = append(page.AttackPaths, g)
			}
		}
	}
	s, step := page.Range, chart.Step(page.Range.Length())
	traffic, err := h.detection.TrafficCounts(ctx, 0, s.From, s.To, step)
	if err != nil {
		return err
	}
	intervals := offences.Intervals(traffic.Points, traffic.From, s.To, traffic.Step)
	page.Chart = chart.DrawArea(intervals, s, traffic.Step)
	page.Sum = offences.Sum(intervals)
	page.Checks = page.Sum.Allowed + page.Sum.Refused()
	page.Chart.Sentence = page.chartSentence()
	events, _, err := h.detection.EscalationEvents(ctx, offences.EscalationFilter{From: s.From, To: s.To, Limit: 200})
	if err != nil {
		return err
	}
	page.Chart.AddSquares(events)
	return h.brush(ctx, page)
}

// brush selects the attack in the chart, so that one click zooms to it.
func (h *overviewHandler) brush(ctx context.Context, p *overviewPage) error {
	since := p.Attack.Since
	if since.IsZero() || !since.After(p.Range.From.Add(p.Range.Length()/20)) || p.Range.To.Sub(since) < 2*time.Minute || p.Range.Last == 0 {
		return nil
	}
	counted, err := h.detection.TrafficCounts(ctx, 0, since, p.Range.To, time.Minute)
	if err != nil {
		return err
	}
	sum := offences.Sum(offences.Intervals(counted.Points, since, p.Range.To, counted.Step))
	p.Chart.Mark(since, format.Sentence{format.Plain("Begins "), format.Clock(since).WithZone()})
	p.Chart.SelectTime(since, p.Range.To, sum, site.WithRange("/", format.TimeRange{From: since, To: p.Range.To}))
	return nil
}

func (p *overviewPage) chartSentence() string {
	text := "In " + p.Range.Name().String() + ", of " + format.Compact(p.Checks) + " checks " + format.Compact(p.Sum.Allowed) + " were allowed, " +
		format.Compact(p.Sum.Limited) + " limited by a rule"
	if p.Sum.Challenged > 0 {
		text += ", " + format.Compact(p.Sum.Challenged) + " challenged"
	}
	text += " and " + format.Compact(p.Sum.Blocked) + " blocked."
	if !p.Attack.Since.IsZero() {
		text += " An attack began at " + format.Clock(p.Attack.Since).WithZone().Text + "."
	}
	return text
}

func (h *overviewHandler) addTopOffenders(ctx context.Context, page *overviewPage) (err error) {
	page.Report, err = h.detection.Offenders(ctx, offences.Query{
		From: page.Range.From, To: page.Range.To, Limit: overviewOffenders, Points: chart.SparklinePoints,
	})
	if err != nil {
		return err
	}
	page.Offenders = offenderRows(h.Site, page.Report, page.Range)
	return nil
}

func (h *overviewHandler) addPauses(ctx context.Context, page *overviewPage) (err error) {
	page.Pauses, err = h.detection.EscalationPauses(ctx)
	return err
}

func (h *overviewHandler) addProposals(ctx context.Context, page *overviewPage) error {
	open, _, err := h.detection.Proposals.Find(ctx, offences.OpenProposals, "", 20)
	for _, p := range open {
		page.Proposals = append(page.Proposals, viewProposal(p))
	}
	return err
}

func (h *overviewHandler) addNewBlocks(ctx context.Context, page *overviewPage) error {
	found, err := h.blocks.Find(ctx, newBlocks(page))
	if err != nil {
		return err
	}
	h.takeNewBlocks(page, &found)
	return nil
}

// newBlocks selects the newest automatic blocks.
func newBlocks(page *overviewPage) blocks.Filter {
	return blocks.Filter{Kind: blocks.Block, Source: blocks.Automatic, Limit: overviewBlocks, At: page.Now, Uncounted: true}
}

// takeNewBlocks shows the recent ones of what newBlocks selected.
func (h *overviewHandler) takeNewBlocks(p *overviewPage, found *paging.Page[*blocks.Entry]) {
	p.Blocks, p.NewBlocks = nil, max(len(found.Items), h.Catalog.Blocks().CountBySource(p.Now)[blocks.Automatic])
	for _, b := range found.Items {
		if p.Now.Sub(b.Created.Time()) < max(recentBlocks, p.Range.Length()) {
			p.Blocks = append(p.Blocks, newBlock{b, h.LinkOfPattern(b.Pattern)})
		}
	}
}

func (h *overviewHandler) addRules(ctx context.Context, page *overviewPage) error {
	rows, err := h.detection.Rules(ctx, page.Range.From, page.Range.To)
	if err != nil {
		return err
	}
	var most int64
	for _, r := range rows {
		if r.Kind != offences.Limited {
			continue
		}
		page.Limited += r.Refused()
		most = max(most, r.Refused())
		if len(page.Rules) < overviewRules {
			page.Rules = append(page.Rules, refusingRule{RuleRow: r, PolicyName: h.PolicyName(r.Policy)})
		}
	}
	for i := range page.Rules {
		page.Rules[i].Width = chart.Percent(float64(page.Rules[i].Refused()) / float64(max(1, most)))
	}
	return nil
}

// Headline returns the first sentence of the page.
func (p *overviewPage) Headline() format.Sentence {
	now, baseline := p.Attack.Now, p.Attack.Baseline
	switch {
	case !p.Attack.Since.IsZero():
		text := ""
		if ago := p.Now.Sub(p.Attack.Since); ago >= time.Minute {
			text = ", " + minutesAgo(ago) + " ago"
		}
		text += "."
		if p.Attack.HasBaseline {
			text += " Normal is " + format.PerSecond(baseline.Refused()) + "."
		}
		return format.Sentence{format.Plain("Refusing " + requests(now.Refused()) + " a second since "),
			format.Short(p.Attack.Since, p.Now).WithZone(), format.Plain(text)}
	case now.Refused() > 0:
		return format.Sentence{format.Plain("No attack. Refusing " + requests(now.Refused()) + " a second.")}
	case now.Allowed > 0:
		return format.Sentence{format.Plain("No request is being refused.")}
	case p.Checks > 0:
		return format.Sentence{format.Plain("No checks at the moment.")}
	}
	return slices.Concat(format.Sentence{format.Plain("No checks in ")}, p.Range.Name(), format.Sentence{format.Plain(".")})
}

func requests(perSec float64) string {
	text := format.PerSecond(perSec)
	if text == "1" {
		return "1 request"
	}
	return text + " requests"
}

func minutesAgo(d time.Duration) string {
	if d >= time.Hour {
		return phrase.Duration(d.Truncate(time.Minute))
	}
	return phrase.Count(int64(d/time.Minute), "minute")
}

// BaselineAllowed compares the present allowed requests with the baseline.
func (p *overviewPage) BaselineAllowed() string {
	return p.comparison(p.Attack.Now.Allowed, p.Attack.Baseline.Allowed)
}

// BaselineLimited compares the limited requests.
func (p *overviewPage) BaselineLimited() string {
	return p.comparison(p.Attack.Now.Limited, p.Attack.Baseline.Limited)
}

// BaselineBlocked compares the blocked requests.
func (p *overviewPage) BaselineBlocked() string {
	return p.comparison(p.Attack.Now.Blocked, p.Attack.Baseline.Blocked)
}

// attackPaths is how many paths of an attack the overview names.
const attackPaths = 3

// AttackLink returns the address of what was refused since the attack began, of one path or, for "",
// of all.
func (p *overviewPage) AttackLink(path string) string {
	is := ""
	if path != "" {
		is = breakdown.Filter{Value: path}.String()
	}
	return site.WithRange(trafficPath, format.TimeRange{From: p.Attack.Since.UTC().Truncate(time.Minute), To: p.Now.UTC().Truncate(time.Minute).Add(time.Minute)}, "decision", "refused", "is", is)
}

// AttackRatio formats the part of what is refused since the attack began.
func (p *overviewPage) AttackRatio(n int64) string { return phrase.Ratio(n, p.AttackRefused) }

func (p *overviewPage) comparison(now, baseline float64) string {
	switch {
	case !p.Attack.HasBaseline:
		return ""
	case now <= 1.3*baseline+0.05 && now >= 0.7*baseline-0.05:
		return "normal"
	}
	return "normally " + format.PerSecond(baseline)
}

// RatioOf formats a ratio of what rules refused.
func (p *overviewPage) RatioOf(n int64) string { return phrase.Ratio(n, p.Limited) }

// Rate formats a rate for the page.
func (p *overviewPage) Rate(f float64) string { return format.PerSecond(f) }

// SourceRatio formats the source's ratio of the refusals.
func (p *overviewPage) SourceRatio() string { return format.WholePercent(p.Attack.Source.Ratio) }

// SourceLink returns the address of the source: of its key, or of the offenders in its range.
func (p *overviewPage) SourceLink() string {
	from := p.Attack.Source
	if from.Key != "" {
		return p.KeyLink(from.Key)
	}
	return p.Link("/offenders", "pattern", from.Pattern.String())
}

// SourceBlockLink returns the address of the form that blocks the source.
func (p *overviewPage) SourceBlockLink() string {
	reason := format.WholePercent(p.Attack.Source.Ratio) + " of what was refused since " + p.Attack.Since.UTC().Format("2 Jan, 15:04 UTC")
	return p.BlockLink(p.Attack.Source.Pattern.String(), reason)
}

// SourceSize describes how many keys the source can have: "256 addresses".
func (p *overviewPage) SourceSize() string { return format.PatternSize(p.Attack.Source.Pattern) }

// Part is the state of a part of a node or of its environment.
type Part struct {
	Name string // "Node a", "Redis", "Postgres", "Jobs"
	// Trouble is the problem in a word or two: "slow", "unreachable"; "" for none.
	Trouble string
	// Text describes the state and, if there is a problem, what still works: "Counts arrive 6 s
	// late. Checks go on as usual."
	Text string
}

// health returns the parts of the health strip.
func (h *overviewHandler) health(ctx context.Context) []Part {
	if h.parts != nil {
		return h.parts(ctx)
	}
	parts := []Part{{Name: "Node " + h.Node, Text: "answers checks"}}
	if h.Ready == nil {
		return parts
	}
	for _, p := range h.Ready(ctx).Parts {
		part := Part{Name: capitalName(p.Name), Text: p.Detail}
		if !p.OK {
			part.Trouble = "fails"
		}
		parts = append(parts, part)
	}
	return parts
}

var partTitles = map[string]string{"log": "Timestamp log", "database": "Database", "policies": "Policies", "listeners": "Listeners", "eviction": "Eviction", "memory": "Memory"}

func capitalName(name string) string {
	if title, known := partTitles[name]; known {
		return title
	}
	return name
}
