package adminui

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/chart"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/policies"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/wire"
)

// trafficPath is the path of the page.
const trafficPath = "/traffic"

// trafficPage shows what is requested, by each dimension, with filters.
type trafficPage struct {
	site.MonitorPage
	Filters   []trafficFilter
	Chart     *chart.Area
	Sum       offences.Interval
	Requested *admin.Requested
	Parts     []breakdownPart
	Clients   []clientRow // by allowed requests
	Offenders []clientRow
	// PolicyLink is the address of a new policy with the filters as its conditions, "" if there are
	// none, or if they cannot all be conditions. NoPolicy says which cannot, WiderPolicy of which the
	// conditions select other values too.
	PolicyLink            string
	RefuseLink            string // as PolicyLink, of a policy that refuses all of them
	NoPolicy, WiderPolicy []string
	// FieldErrors are those of the filters. With one, nothing is read.
	FieldErrors form.FieldErrors
}

// shownValue returns a value of a dimension as all pages show it.
func shownValue(dimension, value string) string {
	if dimension == "rule" {
		return format.RuleText(value)
	}
	return value
}

// trafficFilter is a filter and the address of the page without it.
type trafficFilter struct{ Label, Value, None, Without string }

// breakdownPart is what was requested by one dimension.
type breakdownPart struct {
	Name, Label string
	None        string // what a row without a value is
	Rows        []breakdownRow
	Unnamed     int64
	Overcount   int64
	Export      string
}

type breakdownRow struct {
	Value                string // "" for what is not known
	Text                 string // Value as it is shown
	Requests             int64  // of the selected decision
	Refused              string // ratio of its checks, whatever is selected
	Width, Share         string // of all selected requests
	OnlyLink, ExceptLink string
}

type clientRow struct {
	Key       string
	Requests  int64
	BlockLink string
}

const (
	trafficValues  = 10
	trafficClients = 10
)

// Decisions are the choices of what is ranked.
func (p *trafficPage) Decisions() []trafficFilter {
	chips := []trafficFilter{}
	for _, d := range []struct{ value, label string }{{"", "All"}, {"allowed", "Allowed"}, {"refused", "Refused"}} {
		chips = append(chips, trafficFilter{Label: d.label, Value: d.value, Without: p.With("decision", d.value)})
	}
	return chips
}

// Rate formats checks per second.
func (p *trafficPage) Rate(n int64) string { return format.PerSecond(p.Sum.Rate(n)) }

// Counted is the head of the column of what is ranked.
func (p *trafficPage) Counted() string {
	return cmp.Or(format.Capital(p.Query.Get("decision")), "Requests")
}

type trafficHandler struct {
	*site.Site
	detection *admin.Detection // nil if traffic is not counted
}

func (h *trafficHandler) routes() []httpserver.Route {
	return []httpserver.Route{h.InMenu(site.Monitor, 2, "Traffic", h.Get(trafficPath, identity.Read, h.showTraffic))}
}

func (h *trafficHandler) showTraffic(c *httpserver.Call) error {
	if h.detection == nil {
		return admin.ErrNotCounted
	}
	w, err := h.NewMonitorPage(c, "Traffic", trafficPath, "is", "not", "decision")
	if err != nil {
		return err
	}
	page := &trafficPage{MonitorPage: w, FieldErrors: form.FieldErrors{}}
	if err := page.FieldErrors.Add(h.fill(c.Context(), page)); err != nil {
		return err
	}
	return h.RenderLive(c, "traffic", page)
}

func (h *trafficHandler) fill(ctx context.Context, page *trafficPage) error {
	s, step := page.Range, chart.Step(page.Range.Length())
	q := admin.RequestedQuery{From: s.From, To: s.To, Is: page.Query.Get("is"), Not: page.Query.Get("not"), Decision: page.Query.Get("decision"), By: breakdown.Names(), Limit: trafficValues}
	if q.Is+q.Not != "" { // the chart is of the tables, of which few minutes are read
		if q.Step = step; step > time.Minute {
			q.Step = max(step, time.Hour)
		}
	}
	var err error
	if page.Requested, err = h.detection.Requested(ctx, q); err != nil {
		return err
	}
	r := page.Requested
	points, from, read := []offences.TrafficPoint{}, r.From, r.Step
	if len(r.Filters) == 0 { // all checks, also those of the last second
		counted, err := h.detection.TrafficCounts(ctx, 0, s.From, s.To, step)
		if err != nil {
			return err
		}
		points, from, read = counted.Points, counted.From, counted.Step
	} else {
		for _, p := range r.Result.Points {
			points = append(points, offences.TrafficPoint{At: p.At, Counts: offences.Counts{Allowed: p.Allowed, Limited: p.Limited, Challenged: p.Challenged, Blocked: p.Blocked}})
		}
	}
	intervals := offences.Intervals(points, from, s.To, read)
	page.Chart, page.Sum = chart.DrawArea(intervals, s, read), offences.Sum(intervals)
	page.Chart.Sentence = "In " + s.Name().String() + " " + format.Compact(page.Sum.Allowed) + " of the selected checks were allowed, " +
		format.Compact(page.Sum.Limited) + " limited by a rule and " + format.Compact(page.Sum.Blocked) + " blocked."
	page.addFilters(r.Filters)
	for _, b := range r.Breakdowns {
		page.addPart(b)
	}
	page.Clients = page.clientRows(r.Clients)
	page.Offenders = page.clientRows(r.Offenders)
	page.addPolicy(r.Filters)
	return nil
}

// withFilters returns the address of the page with other filters, "" if the page does not take as many.
func (p *trafficPage) withFilters(all breakdown.Filters) string {
	is, not := all.Texts()
	if len(all) > breakdown.MaxFilters || !site.FitsQuery(is) || !site.FitsQuery(not) {
		return ""
	}
	return p.With("is", is, "not", not)
}

func (p *trafficPage) addFilters(all breakdown.Filters) {
	for i, f := range all {
		chip := trafficFilter{Label: breakdown.Dimensions[f.Dimension].Label + " is", Value: shownValue(breakdown.Dimensions[f.Dimension].Name, f.Value), None: noneOf(breakdown.Dimensions[f.Dimension].None), Without: p.withFilters(slices.Delete(slices.Clone(all), i, i+1))}
		if f.Not {
			chip.Label += " not"
		}
		if f.IsPrefix {
			chip.Value += "*"
		}
		p.Filters = append(p.Filters, chip)
	}
}

// noneOf returns what is shown instead of an empty value.
func noneOf(text string) string { return cmp.Or(text, "not known") }

func (p *trafficPage) addPart(b breakdown.Breakdown) {
	d := breakdown.Dimensions[b.Dimension]
	if !slices.ContainsFunc(b.Groups, func(g breakdown.Group) bool { return g.Value != "" }) {
		return // nobody says it
	}
	decision := p.Query.Get("decision")
	total := p.Requested.Total.Of(decision)
	unnamed := b.Unnamed.Of(decision)
	part := breakdownPart{Name: d.Name, Label: d.Label, None: noneOf(d.None), Unnamed: unnamed, Overcount: min(b.Overcount, unnamed), Export: p.export(d.Name)}
	for _, g := range b.Groups {
		n := g.Of(decision)
		row := breakdownRow{Value: g.Value, Text: shownValue(d.Name, g.Value), Requests: n, Refused: phrase.Ratio(g.Refused(), g.Checks()), Share: phrase.Ratio(n, total), Width: "0%"}
		if total > 0 {
			row.Width = chart.Percent(float64(n) / float64(total))
		}
		is := breakdown.Filter{Dimension: b.Dimension, Value: g.Value}
		not := is
		not.Not = true
		others := slices.DeleteFunc(slices.Clone(p.Requested.Filters), func(f breakdown.Filter) bool { return f == is || f == not })
		row.OnlyLink = p.withFilters(append(slices.DeleteFunc(slices.Clone(others), func(f breakdown.Filter) bool { return f.Dimension == b.Dimension && !f.Not }), is))
		row.ExceptLink = p.withFilters(append(others, not))
		part.Rows = append(part.Rows, row)
	}
	p.Parts = append(p.Parts, part)
}

// export returns the address of all values of a dimension as CSV.
func (p *trafficPage) export(dimension string) string {
	values := url.Values{"format": {"csv"}, "from": {p.Range.From.Format(time.RFC3339)}, "to": {p.Range.To.Format(time.RFC3339)}}
	for name, all := range p.Query {
		values[name] = all
	}
	return wire.PathTraffic + "/by/" + dimension + "/export?" + values.Encode()
}

func (p *trafficPage) clientRows(all []breakdown.Client) (rows []clientRow) {
	reason := "seen on the page Traffic"
	if is, not := p.Requested.Filters.Texts(); is+not != "" {
		reason = format.ClipLine("most requests with "+strings.Trim(is+" not "+not, " "), 200)
	}
	for _, c := range all[:min(len(all), trafficClients)] {
		row := clientRow{Key: c.Key, Requests: c.Count}
		if pattern := site.PatternText(c.Key); pattern != "" {
			row.BlockLink = p.BlockLink(pattern, reason)
		}
		rows = append(rows, row)
	}
	return rows
}

// addPolicy finds the new policy whose conditions are the filters.
func (p *trafficPage) addPolicy(all breakdown.Filters) {
	when, left, wider := all.Conditions()
	if len(left) > 0 {
		p.NoPolicy = left.Labels()
	} else if len(when) > 0 {
		p.PolicyLink, p.WiderPolicy = policies.NewPath(when), wider.Labels()
		p.RefuseLink = policies.RefusingPath(when, all, p.Range)
	}
}
