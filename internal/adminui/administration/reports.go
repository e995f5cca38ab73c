package administration

import (
	"net/http"
	"time"

	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/adminui/chart"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/phrase"
)

// reportsPage lists the daily and weekly reports.
type reportsPage struct {
	site.MonitorPage
	Documents []*operations.Report
}

// reportPage shows one report.
type reportPage struct {
	site.MonitorPage
	*operations.Report
	Chart *chart.Area
	Rows  []reportFigure
}

// reportFigure is one total, with that of the period before.
type reportFigure struct {
	Name   string
	Value  int64
	Before *int64
}

// reportsHandler lists and shows reports.
type reportsHandler struct {
	*site.Site
	reports *operations.Reports
}

func init() {
	add(func(s *site.Site, d Deps) handler { return &reportsHandler{Site: s, reports: d.Reports} }, "report")
}

func (h *reportsHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.InMenu(site.Monitor, 6, "Reports", h.Get("/reports", identity.Read, h.showReports)),
		h.Get("/reports/:id", identity.Read, h.showReport),
	}
}

func (h *reportsHandler) showReports(c *httpserver.Call) error {
	w, err := h.NewMonitorPage(c, "Reports", "/reports", "kind")
	if err != nil {
		return err
	}
	page := &reportsPage{MonitorPage: w}
	ctx := c.Context()
	if page.Documents, _, err = h.reports.List(ctx, w.Query.Get("kind"), "", 100); err != nil {
		return err
	}
	return h.Render(c, http.StatusOK, "reports", page)
}

func (h *reportsHandler) showReport(c *httpserver.Call) error {
	w, err := h.NewMonitorPage(c, "Report", "/reports")
	if err != nil {
		return err
	}
	ctx := c.Context()
	page := &reportPage{MonitorPage: w}
	if page.Report, err = h.reports.Get(ctx, c.Params("id")); err != nil {
		return err
	}
	page.Title = page.Name()
	page.draw()
	page.count()
	return h.Render(c, http.StatusOK, "report", page)
}

// reportName returns the title of a report.
func reportName(d *operations.Report) string {
	if d.ID == operations.TodaysReport {
		return "Today so far"
	}
	if operations.IsWeekly(d) {
		return "Week from " + d.From.Format("Mon 2 Jan 2006")
	}
	return d.From.Format("Mon 2 Jan 2006")
}

// Name returns the title of this report.
func (p *reportPage) Name() string { return reportName(p.Report) }

// NameOf returns the title of a report.
func (p *reportsPage) NameOf(d *operations.Report) string { return reportName(d) }

func (p *reportPage) draw() {
	if len(p.Traffic) < 2 {
		return
	}
	step := p.Traffic[1].At.Sub(p.Traffic[0].At)
	s := format.TimeRange{From: p.From.UTC(), To: p.To.UTC()}
	traffic := make([]offences.TrafficPoint, len(p.Traffic))
	for i, t := range p.Traffic {
		traffic[i].At, traffic[i].Allowed, traffic[i].Limited, traffic[i].Challenged, traffic[i].Blocked = t.At, t.Allowed, t.Limited, t.Challenged, t.Blocked
	}
	p.Chart = chart.DrawArea(offences.Intervals(traffic, s.From, s.To, step), s, step)
	p.Chart.Sentence = "Of " + format.Compact(p.Totals.Allowed+p.Totals.Refused()) + " checks " + format.Compact(p.Totals.Refused()) + " were refused."
}

func (p *reportPage) count() {
	figures := func(t *operations.ReportTotals) []int64 {
		return []int64{t.Allowed, t.Limited, t.Blocked, t.Challenged, t.Unavailable, t.Offenders, t.Keys}
	}
	now := figures(&p.Totals)
	for i, name := range []string{"Allowed", "Limited by a rule", "Blocked", "Challenged", "Errors", "Keys with offences", "Keys seen, estimated"} {
		f := reportFigure{Name: name, Value: now[i]}
		if p.Before != nil {
			f.Before = &figures(p.Before)[i]
		}
		p.Rows = append(p.Rows, f)
	}
}

// Change describes the difference from the period before.
func (f reportFigure) Change() string {
	if f.Before == nil {
		return ""
	}
	switch before := *f.Before; {
	case before == f.Value:
		return "as before"
	case before == 0:
		return "none before"
	default:
		return phrase.Number(before) + " before"
	}
}

// SpanLink returns the address of the offenders in the report's period.
func (p *reportPage) SpanLink() string {
	return site.WithRange("/offenders", format.TimeRange{From: p.From.UTC(), To: p.To.UTC().Truncate(time.Minute)})
}
