package operations

import (
	"context"
	"io"
	"strconv"

	"github.com/stint-dev/stint/internal/admin"
	use "github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/auditfile"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// auditHandler serves the audit log and undoes recorded changes.
type auditHandler struct {
	audit *use.Audit
	undo  *admin.Undo
}

func (h *auditHandler) routes() []openapi.Route {
	return []openapi.Route{
		routes.Answers(wire.ListAudit, h.listAudit),
		routes.Writes(wire.ExportAudit, openapi.Answer{Body: []wire.AuditEntry{}, Types: []string{"text/csv"}, Headers: routes.File}, h.exportAudit),
		routes.Answers(wire.VerifyAudit, h.verifyAudit),
		routes.Answers(wire.GetAuditEntry, h.getAuditEntry),
		routes.Answers(wire.UndoEntry, h.undoEntry),
	}
}

func auditFilter(f wire.AuditFilter) (audit.Filter, error) {
	if !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To.Time) {
		return audit.Filter{}, fault.Field("to", "must be after from")
	}
	return audit.Filter{
		From: f.From.Time, To: f.To.Time, Actor: f.Actor, Action: f.Action, Object: f.Object, ObjectID: f.ObjectID, Search: f.Search,
	}, nil
}

func (h *auditHandler) listAudit(c *httpserver.Call, in wire.AuditList) (page wire.Page[wire.AuditEntry], err error) {
	f, err := auditFilter(in.AuditFilter)
	if err != nil {
		return page, err
	}
	f.Cursor, f.Limit = in.Cursor, in.Limit
	found, err := h.audit.Find(c.Context(), f)
	return wire.NewPage(found.Records, found.Next, auditfile.Entry), err
}

func (h *auditHandler) getAuditEntry(c *httpserver.Call, in wire.ByID) (wire.AuditEntry, error) {
	id, err := entryID(in.ID)
	if err != nil {
		return wire.AuditEntry{}, err
	}
	return shown(h.audit.ByID(c.Context(), id))
}

func (h *auditHandler) exportAudit(c *httpserver.Call, in wire.AuditExport) error {
	f, err := auditFilter(in.AuditFilter)
	if err != nil {
		return err
	}
	return httpserver.Stream(c, auditfile.MediaType(in.Format), auditfile.Name(in.Format), func(ctx context.Context, w io.Writer) error {
		return auditfile.Write(w, in.Format, h.audit.Each(ctx, f))
	})
}

// verifyAudit verifies the chain. A node runs one verification at a time.
func (h *auditHandler) verifyAudit(c *httpserver.Call, in wire.AuditVerify) (wire.AuditVerification, error) {
	var kept audit.Link
	if in.Head != "" {
		var err error
		if kept, err = audit.ParseHead(in.Head); err != nil {
			return wire.AuditVerification{}, err
		}
	}
	v, err := h.audit.Verify(c.Context(), kept)
	return fromVerification(v), err
}

// fromVerification returns a verification as the API shows it.
func fromVerification(v audit.Verification) wire.AuditVerification {
	out := wire.AuditVerification{
		Intact: v.Intact, Problem: wire.NullString(v.Problem), Records: v.Records, Uncovered: v.Uncovered, Pending: v.Pending,
		FirstAt: wire.At(v.First), Kept: wire.NullString(v.Kept),
	}
	if v.ProblemID != 0 {
		out.ProblemID = &v.ProblemID
	}
	if v.Anchor.Hash != (audit.Hash{}) {
		out.RemovedThrough = &v.Anchor.ID
	}
	if v.Head.Hash != (audit.Hash{}) {
		out.Head = wire.NullString(v.Head.String())
	}
	return out
}

// entryID reads the id of an audit entry.
func entryID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, fault.New(fault.NotFound, "There is no audit entry of that id; ids are whole numbers.")
	}
	return id, nil
}

// shown returns an entry as the API shows it.
func shown(e *audit.Record, err error) (wire.AuditEntry, error) {
	if err != nil {
		return wire.AuditEntry{}, err
	}
	return auditfile.Entry(e), nil
}

// undoEntry undoes a change. The route requires the access for blocks; undoing a change of a
// policy requires more.
func (h *auditHandler) undoEntry(c *httpserver.Call, in wire.UndoRequest) (wire.AuditEntry, error) {
	id, err := entryID(in.ID)
	if err != nil {
		return wire.AuditEntry{}, err
	}
	return shown(h.undo.Undo(c.Context(), routes.CallerOf(c), id, in.Confirm))
}
