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
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/offences"
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
	// none that a policy knows.
	PolicyLink string
	// FieldErrors are those of the filters. With one, nothing is read.
	FieldErrors form.FieldErrors
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
	Text                 string // "" for what is not known
	Requests, Refused    int64
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

// RefusedRatio formats the refused part of requests.
func (p *trafficPage) RefusedRatio(r breakdownRow) string { return format.Ratio(r.Refused, r.Requests) }

type trafficHandler struct {
	*site.Site
	detection *admin.Detection // nil if traffic is not counted
}

func (h *trafficHandler) routes() []httpserver.Route {
	return []httpserver.Route{h.Get(trafficPath, identity.Read, h.showTraffic)}
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
	q := admin.RequestedQuery{From: s.From, To: s.To, Is: page.Query.Get("is"), Not: page.Query.Get("not"), Decision: page.Query.Get("decision"), By: breakdown.Names(), Step: step, Limit: trafficValues}
	var err error
	if page.Requested, err = h.detection.Requested(ctx, q); err != nil {
		return err
	}
	r := page.Requested
	points, read := []offences.TrafficPoint{}, r.Step
	if len(r.Filters) == 0 { // all checks, also those of the last second
		counted, err := h.detection.TrafficCounts(ctx, 0, s.From, s.To, step)
		if err != nil {
			return err
		}
		points, read = counted.Points, counted.Step
	} else {
		for _, p := range r.Result.Points {
			points = append(points, offences.TrafficPoint{At: p.At, Counts: offences.Counts{Allowed: p.Allowed, Limited: p.Limited, Challenged: p.Challenged, Blocked: p.Blocked}})
		}
	}
	intervals := offences.Intervals(points, s.From, s.To, read)
	page.Chart, page.Sum = chart.DrawArea(intervals, s, read), offences.Sum(intervals)
	page.Chart.Sentence = "In " + s.Name().String() + " " + format.Compact(page.Sum.Allowed) + " of the selected checks were allowed, " +
		format.Compact(page.Sum.Limited) + " limited by a rule and " + format.Compact(page.Sum.Blocked) + " blocked."
	page.addFilters(r.Filters)
	for _, b := range r.Breakdowns {
		page.addPart(b)
	}
	page.Clients = page.clientRows(r.Clients)
	page.Offenders = page.clientRows(r.Offenders)
	page.PolicyLink = policyLink(r.Filters)
	return nil
}

// filterTexts returns the parameters is and not of filters.
func filterTexts(all breakdown.Filters) (is, not string) {
	var texts [2][]string
	for _, f := range all {
		at := 0
		if f.Not {
			at = 1
		}
		texts[at] = append(texts[at], f.String())
	}
	return strings.Join(texts[0], ","), strings.Join(texts[1], ",")
}

// withFilters returns the address of the page with other filters.
func (p *trafficPage) withFilters(all breakdown.Filters) string {
	is, not := filterTexts(all)
	return p.With("is", is, "not", not)
}

func (p *trafficPage) addFilters(all breakdown.Filters) {
	for i, f := range all {
		chip := trafficFilter{Label: breakdown.Dimensions[f.Dimension].Label + " is", Value: f.Value, None: noneOf(breakdown.Dimensions[f.Dimension].None), Without: p.withFilters(slices.Delete(slices.Clone(all), i, i+1))}
		if f.Not {
			chip.Label += " not"
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
	part := breakdownPart{Name: d.Name, Label: d.Label, None: noneOf(d.None), Unnamed: b.Unnamed.Of(decision), Overcount: b.Overcount, Export: p.export(d.Name)}
	for _, g := range b.Groups {
		n := g.Of(decision)
		row := breakdownRow{Text: g.Value, Requests: n, Refused: min(n, g.Refused()), Share: format.Ratio(n, total), Width: "0%"}
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
	if is, not := filterTexts(p.Requested.Filters); is+not != "" {
		reason = format.ClipLine("most requests with "+strings.Trim(is+" not "+not, " "), 200)
	}
	for _, c := range all[:min(len(all), trafficClients)] {
		rows = append(rows, clientRow{c.Key, c.Count, site.WithRange("/blocks/new", p.Range, "pattern", c.Key, "reason", reason)})
	}
	return rows
}

// policyLink returns the address of a new policy whose conditions are the filters, "" if none of them
// is one.
func policyLink(all breakdown.Filters) string {
	values := url.Values{}
	for _, f := range all {
		name, pattern := breakdown.Dimensions[f.Dimension].Name, strings.ReplaceAll(f.Value, "{id}", "*")
		if at := strings.Index(pattern, "/…"); at >= 0 {
			pattern = pattern[:at] + "/*"
		}
		switch {
		case pattern == "":
			continue
		case name == "agent":
			pattern = "*" + strings.Trim(pattern, "*") + "*"
		case name != "path" && name != "host" && name != "method":
			continue
		}
		if f.Not {
			pattern = "not " + pattern
		}
		field := "when_" + name
		values.Set(field, strings.TrimSpace(values.Get(field)+"\n"+pattern))
	}
	if len(values) == 0 {
		return ""
	}
	return "/new-policy?" + values.Encode()
}
