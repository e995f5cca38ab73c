package operations

import (
	"bytes"
	"net/http"

	use "github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// reportHandler serves the daily and weekly reports.
type reportHandler struct {
	reports *use.Reports
}

func (h *reportHandler) routes() []openapi.Route {
	return []openapi.Route{
		routes.OnAdmin(http.MethodGet, wire.PathReports, identity.Read, h.listReports, opListReports),
		routes.OnAdmin(http.MethodPost, wire.PathReports, identity.Operate, h.writeReport, opWriteReport),
		routes.OnAdmin(http.MethodGet, wire.PathReports+"/:id", identity.Read, h.getReport, opGetReport),
	}
}

var (
	opListReports = &openapi.Operation{
		ID: "listReports", Tag: "reports", Summary: "List the daily and weekly reports.",
		Query:   []openapi.Param{{Name: "kind", Doc: "Only reports of this kind.", Enum: []string{"daily", "weekly"}}, routes.Cursor, routes.Limit},
		Answers: routes.OK("The reports, the newest period first.", wire.Page[wire.Report]{}),
	}
	opWriteReport = &openapi.Operation{
		ID: "writeReport", Tag: "reports", Summary: "Create the report of the last whole day or week now.", Body: wire.ReportRequest{},
		Answers: []openapi.Answer{{Status: http.StatusCreated, Doc: "The report that was created.", Body: wire.Report{}}},
	}
	opGetReport = &openapi.Operation{
		ID: "getReport", Tag: "reports", Summary: "Show a report as JSON, CSV or a page that can be mailed or printed; the id today is the report of today so far.",
		Query:   []openapi.Param{{Name: "format", Doc: "json if omitted.", Enum: []string{"json", "csv", "html"}}},
		Answers: []openapi.Answer{{Status: http.StatusOK, Doc: "The report.", Types: []string{"application/json", "text/csv", "text/html"}}},
	}
)

func (h *reportHandler) listReports(c *httpserver.Call) error {
	q := c.ParseQuery("kind", "cursor", "limit")
	kind, cursor, limit := q.OneOf("kind", "daily", "weekly"), q.Raw("cursor"), q.Limit()
	if q.Err() != nil {
		return q.Err()
	}
	page, next, err := h.reports.List(c.Context(), kind, cursor, limit)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, routes.CursorPage(page, next, fromReport))
}

// writeReport creates the report of the last complete day or week immediately.
func (h *reportHandler) writeReport(c *httpserver.Call) error {
	var request wire.ReportRequest
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	d, err := h.reports.Create(c.Context(), routes.CallerOf(c), request.Kind)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusCreated, fromReport(d))
}

// reportFormats are the formats of a report and their media types.
var reportFormats = map[string]string{
	use.ReportJSON: "application/json", use.ReportCSV: "text/csv; charset=utf-8", use.ReportHTML: "text/html; charset=utf-8",
}

func (h *reportHandler) getReport(c *httpserver.Call) error {
	q := c.ParseQuery("format")
	format := q.OneOf("format", "json", "csv", "html")
	if q.Err() != nil {
		return q.Err()
	}
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	d, err := h.reports.Get(c.Context(), id)
	if err != nil {
		return err
	}
	if format == "" {
		format = use.ReportJSON
	}
	var out bytes.Buffer
	if err := h.reports.Write(&out, d, format); err != nil {
		return err
	}
	if format == use.ReportHTML {
		// Its charts have inline styles; the report runs no scripts.
		c.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	}
	c.Set("Content-Type", reportFormats[format])
	return c.Send(out.Bytes())
}

// fromReport returns the metadata of a report as the API shows it.
func fromReport(d *use.Report) wire.Report {
	attention := d.Attention
	if attention == nil {
		attention = []string{}
	}
	return wire.Report{
		ID: d.ID, Kind: string(d.Kind), From: wire.At(d.From), To: wire.At(d.To), CreatedAt: wire.At(d.Created),
		Allowed: d.Totals.Allowed, Refused: d.Totals.Refused(), Offenders: d.Totals.Offenders, Attention: attention,
	}
}
