package api

import (
	"bytes"
	"net/http"
	"time"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/reports"
)

func (s *Server) listReports(c *Call) error {
	q := c.query("kind", "limit")
	kind, limit := q.oneOf("kind", string(reports.Daily), string(reports.Weekly)), q.limit()
	if q.err != nil {
		return q.err
	}
	if limit == 0 {
		limit = 100
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	all, err := s.Reports.Store.FindDocuments(ctx, reports.Kind(kind), limit)
	if err != nil {
		return err
	}
	return sendJSON(c, http.StatusOK, wholePage(all, v1.FromReport))
}

// writeReport makes the report of the last whole day or week now.
func (s *Server) writeReport(c *Call) error {
	var request v1.ReportRequest
	if err := decodeJSON(c, &request); err != nil {
		return err
	}
	kind := reports.Kind(request.Kind)
	if kind != reports.Daily && kind != reports.Weekly {
		return fault.Field("kind", "must be daily or weekly")
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	d, err := s.Reports.Build(ctx, kind, s.Now())
	if err != nil {
		return err
	}
	if err := s.Recorder.RecordEntry(ctx, audit.Entry{
		Actor: c.Actor(), Action: "report.write", Object: "report", ObjectID: d.ID,
		Summary: "Wrote the " + request.Kind + " report of " + d.From.Format(time.DateOnly) + ".",
	}); err != nil {
		return err
	}
	return sendJSON(c, http.StatusCreated, v1.FromReport(d))
}

// reportFormats are the forms of a document and their media types.
var reportFormats = map[string]string{
	"json": "application/json", "csv": "text/csv; charset=utf-8", "html": "text/html; charset=utf-8",
}

func (s *Server) getReport(c *Call) error {
	q := c.query("format")
	format := q.oneOf("format", "json", "csv", "html")
	if q.err != nil {
		return q.err
	}
	id, err := c.param("id")
	if err != nil {
		return err
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
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
