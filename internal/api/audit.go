package api

import (
	"context"
	"encoding/csv"
	"io"
	"iter"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/escape"
)

// auditParams are the query parameters that select audit entries.
var auditParams = []string{"from", "to", "actor", "action", "object", "object_id", "search"}

func auditFilter(q *query) (audit.Filter, error) {
	f := audit.Filter{
		From: q.time("from"), To: q.time("to"), Actor: q.line("actor"), Action: q.line("action"),
		Object: q.line("object"), ObjectID: q.line("object_id"), Search: q.line("search"),
	}
	if q.err == nil && !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To) {
		q.fail("to", "must lie after from")
	}
	return f, q.err
}

func (s *Server) listAudit(c *Call) error {
	q := c.query(append([]string{"cursor", "limit"}, auditParams...)...)
	f, err := auditFilter(q)
	f.Cursor, f.Limit = q.line("cursor"), q.limit()
	if err == nil {
		err = q.err
	}
	if err != nil {
		return err
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	page, err := s.Audit.FindEntries(ctx, f)
	if err != nil {
		return err
	}
	out := v1.Page[v1.AuditEntry]{Items: []v1.AuditEntry{}, NextCursor: v1.NullString(page.Next)}
	for _, e := range page.Entries {
		out.Items = append(out.Items, v1.FromEntry(e))
	}
	return sendJSON(c, http.StatusOK, out)
}

func (s *Server) getAuditEntry(c *Call) error {
	id, err := c.entryID()
	if err != nil {
		return err
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	e, err := s.Audit.FindEntryByID(ctx, id)
	if err != nil {
		return err
	}
	return sendJSON(c, http.StatusOK, v1.FromEntry(e))
}

func (s *Server) exportAudit(c *Call) error {
	q := c.query(append([]string{"format"}, auditParams...)...)
	format := q.oneOf("format", "json", "csv")
	f, err := auditFilter(q)
	if err != nil {
		return err
	}
	return ExportAudit(c, s.Audit, f, format)
}

// ExportAudit answers with the entries that f selects as a file, in the format
// "csv" or, for anything else, "json".
func ExportAudit(c *Call, from audit.Store, f audit.Filter, format string) error {
	if format == "csv" {
		return stream(c, "text/csv; charset=utf-8", "audit.csv", func(ctx context.Context, w io.Writer) error {
			return writeAuditCSV(w, from.EachEntry(ctx, f))
		})
	}
	return stream(c, "application/json", "audit.json", func(ctx context.Context, w io.Writer) error {
		return writeAuditJSON(w, from.EachEntry(ctx, f))
	})
}

func writeAuditJSON(w io.Writer, entries iter.Seq2[*audit.Entry, error]) error {
	separator := "["
	for e, err := range entries {
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, separator+"\n"); err != nil {
			return err
		}
		if err := json.MarshalWrite(w, v1.FromEntry(e)); err != nil {
			return err
		}
		separator = ","
	}
	if separator == "[" { // nothing was selected
		_, err := io.WriteString(w, "[]\n")
		return err
	}
	_, err := io.WriteString(w, "\n]\n")
	return err
}

func writeAuditCSV(w io.Writer, entries iter.Seq2[*audit.Entry, error]) error {
	out := csv.NewWriter(w)
	err := out.Write([]string{"id", "at", "actor_kind", "actor", "address", "action", "object", "object_id", "summary", "before", "after"})
	if err != nil {
		return err
	}
	for e, err := range entries {
		if err != nil {
			return err
		}
		cells := []string{
			strconv.FormatInt(e.ID, 10), v1.At(e.At).String(), string(e.Actor.Kind), e.Actor.Name, e.Actor.Address,
			e.Action, e.Object, e.ObjectID, e.Summary, string(e.Before), string(e.After),
		}
		for i := range cells {
			cells[i] = escape.CSV(cells[i])
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
