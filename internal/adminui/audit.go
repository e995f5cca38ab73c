package adminui

import (
	"bytes"
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/api"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
)

const auditPageSize = 50

type auditPage struct {
	Frame
	Query   query
	Entries []*audit.Entry
	Open    int64 // the entry whose changes are shown
	Changes []jsonChange
	Next    string
	Filters bool
	Objects []string
}

// jsonChange is one member that an entry's before and after differ in.
type jsonChange struct{ Path, Was, Now string }

// auditObjects are what entries are about.
var auditObjects = []string{"policy", "block", "exemption", "token", "user"}

func (u *UI) auditRoutes() []api.Route {
	return []api.Route{u.get("/audit", identity.Read, u.showAudit)}
}

func (u *UI) showAudit(c *api.Call) error {
	q, err := readQuery(c, "q", "actor", "object", "object_id", "action", "from", "to", "cursor", "open")
	if err != nil {
		return err
	}
	f := audit.Filter{
		Actor: q.Get("actor"), Action: q.Get("action"), Object: q.Get("object"), ObjectID: q.Get("object_id"),
		Search: q.Get("q"), Cursor: q.Get("cursor"), Limit: auditPageSize,
	}
	if f.From, err = day(q, "from"); err != nil {
		return err
	}
	if f.To, err = day(q, "to"); err != nil {
		return err
	}
	if !f.To.IsZero() {
		f.To = f.To.AddDate(0, 0, 1) // the day that is named counts
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	found, err := u.Audit.FindEntries(ctx, f)
	if err != nil {
		return err
	}
	page := auditPage{Frame: u.frame(c, "Audit", "/audit"), Query: q, Entries: found.Entries, Objects: auditObjects}
	if found.Next != "" {
		page.Next = q.path("/audit", "cursor", found.Next, "open", "")
	}
	for _, name := range []string{"q", "actor", "object", "object_id", "action", "from", "to"} {
		page.Filters = page.Filters || q.Get(name) != ""
	}
	if page.Open, _ = strconv.ParseInt(q.Get("open"), 10, 64); page.Open > 0 {
		for _, e := range page.Entries {
			if e.ID == page.Open {
				page.Changes = jsonChanges(e.Before, e.After)
			}
		}
	}
	return u.render(c, http.StatusOK, "audit", page)
}

func day(q query, name string) (time.Time, error) {
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

// OpenPath returns the address that shows an entry's changes, or hides them.
func (p auditPage) OpenPath(e *audit.Entry) string {
	if p.Open == e.ID {
		return p.Query.path("/audit", "open", "")
	}
	return p.Query.path("/audit", "open", strconv.FormatInt(e.ID, 10)) + "#entry-" + strconv.FormatInt(e.ID, 10)
}

// jsonChanges returns the members in which two JSON documents differ, in the
// order of their names; nil documents have none.
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

// flatten returns the members of a JSON document by their path; a document that
// cannot be read is one text.
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
