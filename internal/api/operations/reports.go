package operations

import (
	"bytes"
	"cmp"

	use "github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// reportHandler serves the daily and weekly reports.
type reportHandler struct {
	reports *use.Reports
}

func (h *reportHandler) routes() []openapi.Route {
	return []openapi.Route{
		routes.Answers(wire.ListReports, func(c *httpserver.Call, in wire.ReportList) (wire.Page[wire.Report], error) {
			page, next, err := h.reports.List(c.Context(), in.Kind, in.Cursor, in.Limit)
			return wire.NewPage(page, next, fromReport), err
		}),
		routes.Answers(wire.WriteReport, func(c *httpserver.Call, in wire.ReportRequest) (wire.Report, error) {
			d, err := h.reports.Create(c.Context(), routes.CallerOf(c), in.Kind)
			if err != nil {
				return wire.Report{}, err
			}
			return fromReport(d), nil
		}),
		routes.Writes(wire.GetReport, openapi.Answer{Types: []string{"application/json", "text/csv", "text/html"}}, h.getReport),
	}
}

// reportFormats are the formats of a report and their media types.
var reportFormats = map[string]string{
	use.ReportJSON: "application/json", use.ReportCSV: "text/csv; charset=utf-8", use.ReportHTML: "text/html; charset=utf-8",
}

func (h *reportHandler) getReport(c *httpserver.Call, in wire.ReportByID) error {
	format := cmp.Or(in.Format, use.ReportJSON)
	d, err := h.reports.Get(c.Context(), in.ID)
	if err != nil {
		return err
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
