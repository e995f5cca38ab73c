package adminui

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/adminui/administration"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/auditfile"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

const auditPageSize = 50

type auditPage struct {
	site.Frame
	Query   site.Query
	Entries []auditRow
	Open    int64 // the entry whose changes are expanded
	Changes []jsonChange
	Pager   pager
	Filters bool
	Objects []string
	// Undo are the entries that can be undone, as far as the page shows.
	Undo map[int64]bool
}

// auditRow is a record, or several of one cause that differ in their time only.
type auditRow struct {
	*audit.Record
	Times int
	Since time.Time // the time of the oldest
}

// foldAudit returns the rows of records, newest first. Records behind each other fold if they say the same of
// the same actor, and show no changes.
func foldAudit(records []*audit.Record) (rows []auditRow) {
	for _, r := range records {
		if n := len(rows); n > 0 {
			last := &rows[n-1]
			if last.Actor == r.Actor && last.Action == r.Action && last.Summary == r.Summary && last.Object == r.Object && last.ObjectID == r.ObjectID &&
				len(r.Before)+len(r.After)+len(last.Before)+len(last.After) == 0 {
				last.Times, last.Since = last.Times+1, r.At
				continue
			}
		}
		rows = append(rows, auditRow{r, 1, r.At})
	}
	return rows
}

// jsonChange is one member that differs between an entry's before and after.
type jsonChange struct{ Path, Was, Now string }

// auditObjects are the kinds of objects of entries, and auditGroups.
var auditObjects = slices.Sorted(slices.Values(append([]string{
	"policy", "block", "exemption", "source", "proposal", "escalation", "key", "note", "profile", "view", "backup", "database", "audit",
}, administration.AuditKinds()...)))

// auditGroups are the actions of entries that are about objects of another kind: logins, logouts
// and failed logins about users, escalations about policies.
var auditGroups = map[string]string{"login": "session", "escalation": "escalation"}

// auditHandler shows the audit and undoes changes.
type auditHandler struct {
	*site.Site
	audit *operations.Audit
	undo  *admin.Undo // nil if undo is disabled
}

func (h *auditHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.InMenu(site.Administration, 5, "Audit", h.Get("/audit", identity.Read, h.showAudit)),
		h.Get("/audit/export", identity.Read, h.exportAudit),
		h.Post("/audit/undo", identity.Operate, h.undoEntry),
	}
}

// auditFilters are the query parameters that select entries.
var auditFilters = []string{"q", "actor", "object", "object_id", "action", "from", "to"}

func auditFilter(q site.Query) (f audit.Filter, err error) {
	f = audit.Filter{
		Actor: q.Get("actor"), Action: q.Get("action"), Object: q.Get("object"), ObjectID: q.Get("object_id"), Search: q.Get("q"),
	}
	if action, is := auditGroups[f.Object]; is {
		f.Object, f.Action = "", cmp.Or(f.Action, action)
	}
	if f.From, err = day(q, "from"); err != nil {
		return f, err
	}
	if f.To, err = day(q, "to"); err == nil && !f.To.IsZero() {
		f.To = f.To.AddDate(0, 0, 1) // include the named day
	}
	return f, err
}

func (h *auditHandler) showAudit(c *httpserver.Call) error {
	q, err := site.ReadQuery(c, append([]string{"cursor", "open", "done"}, auditFilters...)...)
	if err != nil {
		return err
	}
	f, err := auditFilter(q)
	if err != nil {
		return err
	}
	f.Cursor, f.Limit = q.Get("cursor"), auditPageSize
	ctx := c.Context()
	page := auditPage{Frame: h.NewFrame(c, "Audit", "/audit"), Query: q, Objects: auditObjects}
	if page.Toast, err = h.undoneToast(ctx, q.Get("done")); err != nil {
		return err
	}
	delete(q, "done")
	page.Here = q.Path("/audit")
	found, err := h.audit.Find(ctx, f)
	if err != nil {
		return err
	}
	page.Entries = foldAudit(found.Records)
	if h.undo != nil {
		page.Undo = undoable(site.CallerOf(c), found.Records)
	}
	if found.Next != "" {
		page.Pager.Older = q.Path("/audit", "cursor", found.Next, "open", "")
	}
	if f.Cursor != "" {
		page.Pager.Newest = q.Without("cursor", "/audit")
	}
	page.Filters = slices.ContainsFunc(auditFilters, func(name string) bool { return q.Get(name) != "" })
	if page.Open, _ = strconv.ParseInt(q.Get("open"), 10, 64); page.Open > 0 {
		for _, e := range page.Entries {
			if e.ID == page.Open {
				page.Changes = jsonChanges(e.Before, e.After)
			}
		}
	}
	return h.Render(c, http.StatusOK, "audit", page)
}

// Export returns the URL of the filtered entries as a file.
func (p auditPage) Export(format string) string {
	return p.Query.Path("/audit/export", "cursor", "", "open", "", "format", format)
}

func (h *auditHandler) exportAudit(c *httpserver.Call) error {
	q, err := site.ReadQuery(c, append([]string{"format"}, auditFilters...)...)
	if err != nil {
		return err
	}
	f, err := auditFilter(q)
	if err != nil {
		return err
	}
	format := q.Get("format")
	return httpserver.Stream(c, auditfile.MediaType(format), auditfile.Name(format), func(ctx context.Context, w io.Writer) error {
		return auditfile.Write(w, format, h.audit.Each(ctx, f))
	})
}

// undoneChanges are the kinds of changes that can be undone.
var undoneChanges = []string{
	"block.add", "block.extend", "block.update", "block.replace", "block.end", "block.restore", "block.import",
	"exemption.add", "exemption.extend", "exemption.update", "exemption.replace", "exemption.end", "exemption.restore", "exemption.import",
	"policy.create", "policy.replace", "policy.delete", "policy.rename",
	"profile.set", "profile.delete", "profile.limit", "profile.end_limit", "profile.restore", "profile.import",
}

// undoable returns which of the entries, sorted newest first, the user may undo: the latest one
// of each object, since later changes build on earlier ones.
func undoable(caller admin.Caller, entries []*audit.Record) map[int64]bool {
	type thing struct{ object, id string }
	seen, may := map[thing]bool{}, map[int64]bool{}
	for _, e := range entries {
		about := thing{e.Object, e.ObjectID}
		if !seen[about] && slices.Contains(undoneChanges, e.Action) && !isFinalImport(e) && caller.MayUndo(e) {
			may[e.ID] = true
		}
		seen[about] = true
	}
	return may
}

// isFinalImport reports whether a record is of an import that extended or replaced something,
// whose former state is not kept.
func isFinalImport(e *audit.Record) bool {
	if !strings.HasSuffix(e.Action, ".import") {
		return false
	}
	var did struct {
		Extended int `json:"extended"`
		Replaced int `json:"replaced"`
	}
	return json.Unmarshal(e.After, &did) == nil && did.Extended+did.Replaced > 0
}

func (h *auditHandler) undoEntry(c *httpserver.Call) error {
	values := form.Values(c)
	id, err := strconv.ParseInt(values.Get("id"), 10, 64)
	if err != nil || h.undo == nil {
		return fault.New(fault.NotFound, "There is no such record, or it cannot be undone.")
	}
	made, err := h.undo.Undo(c.Context(), site.CallerOf(c), id, values.Get("confirm"))
	if err != nil {
		return h.askUndo(c, id, values.Get("confirm"), err)
	}
	if back := values.Get("back"); back != "" {
		return h.ReturnTo(c, back, "undone", nil)
	}
	return h.Redirect(c, "/audit?done="+strconv.FormatInt(made.ID, 10))
}

// undoneToast describes what a recent entry has undone.
func (h *auditHandler) undoneToast(ctx context.Context, id string) (*site.Toast, error) {
	made, err := strconv.ParseInt(id, 10, 64)
	if err != nil { // the id is not one of ours
		return nil, nil //nolint:nilerr // a made-up id in the URL is not an error
	}
	e, err := h.audit.ByID(ctx, made)
	if fault.Is(err, fault.NotFound) || err == nil && h.Now().Sub(e.At) > toastTime {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &site.Toast{Text: "Undone. " + e.Summary}, nil
}

func day(q site.Query, name string) (time.Time, error) {
	text := q.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return t, fault.Field(name, "must be a day such as 2026-11-20")
	}
	return t, nil
}

// OpenPath returns the address that expands or collapses an entry's changes.
func (p auditPage) OpenPath(e *audit.Record) string {
	if p.Open == e.ID {
		return p.Query.Path("/audit", "open", "")
	}
	return p.Query.Path("/audit", "open", strconv.FormatInt(e.ID, 10)) + "#entry-" + strconv.FormatInt(e.ID, 10)
}

// jsonChanges returns the members that differ between two JSON documents, sorted by name; a nil
// document has none.
func jsonChanges(before, after []byte) []jsonChange {
	was, now := flatten(before), flatten(after)
	var all []jsonChange
	for path, text := range was {
		if now[path] != text {
			all = append(all, jsonChange{path, text, now[path]})
		}
	}
	for path, text := range now {
		if _, known := was[path]; !known {
			all = append(all, jsonChange{Path: path, Now: text})
		}
	}
	slices.SortFunc(all, func(a, b jsonChange) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// flatten returns the members of a JSON document by path. An unreadable document is one text.
func flatten(document []byte) map[string]string {
	all := map[string]string{}
	if len(bytes.TrimSpace(document)) == 0 {
		return all
	}
	var value any
	if err := json.Unmarshal(document, &value); err != nil {
		all[""] = string(document)
		return all
	}
	flattenInto(all, "", value)
	return all
}

func flattenInto(all map[string]string, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if path != "" {
				name = path + "." + name
			}
			flattenInto(all, name, member)
		}
	case []any:
		text := ""
		for i, element := range v {
			if i > 0 {
				text += "  "
			}
			text += jsonText(element)
		}
		all[path] = text
	default:
		all[path] = jsonText(v)
	}
}

func jsonText(value any) string {
	switch v := value.(type) {
	case nil:
		return "none"
	case string:
		return v
	}
	text, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return "?"
	}
	return string(text)
}
