package api

import (
	"context"
	"io"
	"net/http"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/auditfile"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// auditParams are the query parameters that select audit entries.
var auditParams = []string{"from", "to", "actor", "action", "object", "object_id", "search"}

func auditFilter(q *httpserver.Query) (audit.Filter, error) {
	f := audit.Filter{
		From: q.Time("from"), To: q.Time("to"), Actor: q.Line("actor"), Action: q.Line("action"),
		Object: q.Line("object"), ObjectID: q.Line("object_id"), Search: q.Line("search"),
	}
	if q.Err() == nil && !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To) {
		q.Fail("to", "must lie after from")
	}
	return f, q.Err()
}

func (s *API) listAudit(c *httpserver.Call) error {
	q := c.ParseQuery(append([]string{"cursor", "limit"}, auditParams...)...)
	f, err := auditFilter(q)
	f.Cursor, f.Limit = q.Line("cursor"), q.Limit()
	if err == nil {
		err = q.Err()
	}
	if err != nil {
		return err
	}
	ctx := c.Context()
	page, err := s.Audit.FindRecords(ctx, f)
	if err != nil {
		return err
	}
	out := wire.Page[wire.AuditEntry]{Items: []wire.AuditEntry{}, NextCursor: wire.NullString(page.Next)}
	for _, e := range page.Records {
		out.Items = append(out.Items, auditfile.Entry(e))
	}
	return c.SendJSON(http.StatusOK, out)
}

func (s *API) getAuditEntry(c *httpserver.Call) error {
	id, err := entryID(c)
	if err != nil {
		return err
	}
	ctx := c.Context()
	e, err := s.Audit.FindRecordByID(ctx, id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, auditfile.Entry(e))
}

func (s *API) exportAudit(c *httpserver.Call) error {
	q := c.ParseQuery(append([]string{"format"}, auditParams...)...)
	format := q.OneOf("format", "json", "csv")
	f, err := auditFilter(q)
	if err != nil {
		return err
	}
	return httpserver.Stream(c, auditfile.MediaType(format), auditfile.Name(format), func(ctx context.Context, w io.Writer) error {
		return auditfile.Write(w, format, s.Audit.EachRecord(ctx, f))
	})
}
