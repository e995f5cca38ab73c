package api

import (
	"bytes"
	"net/http"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/reports"
	"github.com/stint-dev/stint/internal/wire"
)

func (s *API) listReports(c *httpserver.Call) error {
	q := c.ParseQuery("kind", "limit")
	kind, limit := q.OneOf("kind", string(reports.Daily), string(reports.Weekly)), q.Limit()
	if q.Err() != nil {
		return q.Err()
	}
	if limit == 0 {
		limit = 100
	}
	ctx := c.Context()
	all, err := s.Reports.Store.FindDocuments(ctx, reports.Kind(kind), limit)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wholePage(all, fromReport))
}

// writeReport makes the report of the last whole day or week now.
func (s *API) writeReport(c *httpserver.Call) error {
	var request wire.ReportRequest
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	kind := reports.Kind(request.Kind)
	if kind != reports.Daily && kind != reports.Weekly {
		return fault.Field("kind", "must be daily or weekly")
	}
	ctx := c.Context()
	d, err := s.Reports.Build(ctx, kind, s.Now())
	if err != nil {
		return err
	}
	if err := s.Recorder.AddRecord(ctx, audit.Record{
		Actor: c.Actor(), Action: "report.write", Object: "report", ObjectID: d.ID,
		Summary: "Wrote the " + request.Kind + " report of " + d.From.Format(time.DateOnly) + ".",
	}); err != nil {
		return err
	}
	return c.SendJSON(http.StatusCreated, fromReport(d))
}

// reportFormats are the forms of a document and their media types.
var reportFormats = map[string]string{
	"json": "application/json", "csv": "text/csv; charset=utf-8", "html": "text/html; charset=utf-8",
}

func (s *API) getReport(c *httpserver.Call) error {
	q := c.ParseQuery("format")
	format := q.OneOf("format", "json", "csv", "html")
	if q.Err() != nil {
		return q.Err()
	}
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	ctx := c.Context()
	d, err := s.Reports.Store.FindDocumentByID(ctx, id)
	if err != nil {
		return err
	}
	if format == "" {
		format = "json"
	}
	var out bytes.Buffer
	switch format {
	case "csv":
		err = reports.WriteCSV(&out, d)
	case "html":
		err = reports.WriteHTML(&out, d)
		// Its charts are styled inline; nothing in it is run.
		c.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	default:
		err = reports.WriteJSON(&out, d)
	}
	if err != nil {
		return err
	}
	c.Set("Content-Type", reportFormats[format])
	return c.Send(out.Bytes())
}
