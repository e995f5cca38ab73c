package operations

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/stint-dev/stint/internal/admin"
	use "github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/auditfile"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// auditHandler serves the audit log and undoes recorded changes.
type auditHandler struct {
	audit *use.Audit
	undo  *admin.Undo
}

func (h *auditHandler) routes() []openapi.Route {
	return []openapi.Route{
		routes.OnAdmin(http.MethodGet, wire.PathAudit, identity.Read, h.listAudit, opListAudit),
		routes.OnAdmin(http.MethodGet, wire.PathAudit+"/export", identity.Read, h.exportAudit, opExportAudit),
		routes.OnAdmin(http.MethodGet, wire.PathAudit+"/verify", identity.Read, h.verifyAudit, opVerifyAudit),
		routes.OnAdmin(http.MethodGet, wire.PathAudit+"/:id", identity.Read, h.getAuditEntry, opGetAudit),
		routes.OnAdmin(http.MethodPost, wire.PathAudit+"/:id/undo", identity.Operate, h.undoEntry, opUndo),
	}
}

var (
	auditQuery = []openapi.Param{
		{Name: "from", Doc: "RFC 3339; entries from this instant on."},
		{Name: "to", Doc: "RFC 3339; entries before this instant."},
		{Name: "actor", Doc: "Only changes by the actor with this name."},
		{Name: "action", Doc: "An action such as block.end, or the part before the dot."},
		{Name: "object", Doc: "Only changes of this kind of thing."},
		{Name: "object_id", Doc: "Only changes of the thing with this id."},
		{Name: "search", Doc: "Only entries whose summary or object id contains this text, case-insensitive."},
	}
	opListAudit   = &openapi.Operation{ID: "listAudit", Tag: "audit", Summary: "List changes, the newest first.", Query: append([]openapi.Param{routes.Cursor, routes.Limit}, auditQuery...), Answers: routes.OK("A page of them.", wire.Page[wire.AuditEntry]{})}
	opGetAudit    = &openapi.Operation{ID: "getAuditEntry", Tag: "audit", Summary: "Show a change.", Answers: routes.OK("The change.", wire.AuditEntry{})}
	opVerifyAudit = &openapi.Operation{
		ID: "verifyAudit", Tag: "audit", Summary: "Verify that no record of the audit was changed, added or removed.",
		Query:    []openapi.Param{{Name: "head", Doc: "A head that a verification returned before and that was kept elsewhere: is it still in the chain?"}},
		Conflict: true,
		Answers:  routes.OK("What the verification found.", wire.AuditVerification{}),
	}
	opExportAudit = &openapi.Operation{
		ID: "exportAudit", Tag: "audit", Summary: "Export changes as JSON or CSV.",
		Query:   append([]openapi.Param{{Name: "format", Doc: "json if omitted.", Enum: []string{"json", "csv"}}}, auditQuery...),
		Answers: []openapi.Answer{{Status: http.StatusOK, Doc: "The changes.", Body: []wire.AuditEntry{}, Types: []string{"text/csv"}, Headers: routes.File}},
	}
	opUndo = &openapi.Operation{
		ID: "undoEntry", Tag: "audit", Summary: "Undo a change by a new change.",
		Body: wire.UndoRequest{}, BodyOptional: true,
		Answers: []openapi.Answer{{Status: http.StatusCreated, Doc: "The new change.", Body: wire.AuditEntry{}}},
	}
)

// auditParams are the query parameters that select audit entries.
var auditParams = []string{"from", "to", "actor", "action", "object", "object_id", "search"}

func auditFilter(q *httpserver.Query) (audit.Filter, error) {
	f := audit.Filter{
		From: q.Time("from"), To: q.Time("to"), Actor: q.Line("actor"), Action: q.Line("action"),
		Object: q.Line("object"), ObjectID: q.Line("object_id"), Search: q.Line("search"),
	}
	if q.Err() == nil && !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To) {
		q.Fail("to", "must be after from")
	}
	return f, q.Err()
}

func (h *auditHandler) listAudit(c *httpserver.Call) error {
	q := c.ParseQuery(append([]string{"cursor", "limit"}, auditParams...)...)
	f, err := auditFilter(q)
	f.Cursor, f.Limit = q.Line("cursor"), q.Limit()
	if err == nil {
		err = q.Err()
	}
	if err != nil {
		return err
	}
	page, err := h.audit.Find(c.Context(), f)
	if err != nil {
		return err
	}
	out := wire.Page[wire.AuditEntry]{Items: []wire.AuditEntry{}, NextCursor: wire.NullString(page.Next)}
	for _, e := range page.Records {
		out.Items = append(out.Items, auditfile.Entry(e))
	}
	return c.SendJSON(http.StatusOK, out)
}

func (h *auditHandler) getAuditEntry(c *httpserver.Call) error {
	id, err := entryID(c)
	if err != nil {
		return err
	}
	e, err := h.audit.ByID(c.Context(), id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, auditfile.Entry(e))
}

func (h *auditHandler) exportAudit(c *httpserver.Call) error {
	q := c.ParseQuery(append([]string{"format"}, auditParams...)...)
	format := q.OneOf("format", "json", "csv")
	f, err := auditFilter(q)
	if err != nil {
		return err
	}
	return httpserver.Stream(c, auditfile.MediaType(format), auditfile.Name(format), func(ctx context.Context, w io.Writer) error {
		return auditfile.Write(w, format, h.audit.Each(ctx, f))
	})
}

// verifyAudit verifies the chain. A node runs one verification at a time.
func (h *auditHandler) verifyAudit(c *httpserver.Call) error {
	q := c.ParseQuery("head")
	if q.Err() != nil {
		return q.Err()
	}
	var kept audit.Link
	if q.Given("head") {
		var err error
		if kept, err = audit.ParseHead(q.Line("head")); err != nil {
			return err
		}
	}
	if q.Err() != nil {
		return q.Err()
	}
	v, err := h.audit.Verify(c.Context(), kept)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, fromVerification(v))
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

// entryID reads the id of an audit entry from the path.
func entryID(c *httpserver.Call) (int64, error) {
	text, err := c.PathParam("id")
	if err != nil {
		return 0, err
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, fault.New(fault.NotFound, "There is no audit entry of that id; ids are whole numbers.")
	}
	return id, nil
}

// undoEntry undoes a change. The route requires the access for blocks; undoing a change of a
// policy requires more.
func (h *auditHandler) undoEntry(c *httpserver.Call) error {
	id, err := entryID(c)
	if err != nil {
		return err
	}
	var request wire.UndoRequest
	if err := c.DecodeOptional(&request); err != nil {
		return err
	}
	made, err := h.undo.Undo(c.Context(), routes.CallerOf(c), id, request.Confirm)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusCreated, auditfile.Entry(made))
}
