package adminui

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/paging"
)

type entriesPage struct {
	site.Frame
	*kindTexts
	Query   site.Query
	Items   []*entryRow
	Sources []sourceCount // blocks only
	List    *site.List
	Refused int64 // refused by all blocks in the last hour
	Counted bool  // refused requests are counted
	Filters bool  // any filter is set
	// OnlyEnded means that the database did not answer and only ended entries were requested, which
	// are not in memory.
	OnlyEnded bool
}

// Columns returns how many columns the table has.
func (p *entriesPage) Columns() int {
	n := 6
	for _, shown := range []bool{p.May("operate"), p.Blocks, p.Counted} {
		if shown {
			n++
		}
	}
	return n
}

// Export returns the URL of the list as CSV.
func (p *entriesPage) Export() string {
	return p.Query.Path(p.Path+"/export", "cursor", "", "from", "", "edit", "", "open", "")
}

type sourceCount struct {
	Name    string
	Address string
	Count   int
	Counted bool
	Current bool
}

var entryParams = []string{"q", "source", "state", "author", "order", "within", "literal", "cursor", "from", "edit", "open", "done", "ids"}

func (h *entriesHandler) showEntries(c *httpserver.Call, s *kindTexts) error {
	q, err := site.ReadQuery(c, entryParams...)
	if err != nil {
		return err
	}
	return h.renderEntries(c, http.StatusOK, s, q, nil)
}

// renderEntries shows the list. If open is not nil, it shows the form of that row.
func (h *entriesHandler) renderEntries(c *httpserver.Call, status int, s *kindTexts, q site.Query, open *edit) error {
	ctx := c.Context()
	f, err := h.entryFilter(s.Kind, q)
	if err != nil {
		return err
	}
	page := &entriesPage{Frame: h.NewFrame(c, s.Head, s.Path), kindTexts: s, List: &site.List{Query: q, Base: s.Path}}
	if page.Toast, err = h.entriesToast(ctx, &page.Frame, s, q); h.Tolerate(&page.Frame, err) != nil {
		return err
	}
	delete(q, "done")
	delete(q, "ids")
	page.Query = q
	if s.Blocks {
		page.Sources = h.sources(s, f, q)
	}
	found, err := h.find(ctx, page, f)
	if err != nil {
		return err
	}
	items := found.Items
	if open != nil {
		if items, err = h.addOpenEntry(ctx, items, s.Kind, open.ID); err != nil {
			return err
		}
	}
	page.List.SetRows(len(items), found.Total, found.Next)
	page.List.Over = found.Over
	page.Filters = f.Search != "" || f.Author != "" || f.Source != "" || !f.Within.IsZero() || f.State != ""
	var refused map[string]int64
	if s.Blocks {
		refused, page.Refused, err = h.refusedByBlocks(ctx)
		page.Counted = h.detection != nil && err == nil
		if err = h.Tolerate(&page.Frame, err); err != nil {
			return err
		}
	}
	shares, err := h.sharesOf(c.Context(), items)
	if err = h.Tolerate(&page.Frame, err); err != nil {
		return err
	}
	for _, e := range items {
		i := h.rowOf(e, refused)
		if all := shares[e.ID]; len(all) > 1 {
			i.Others = all[1:]
		}
		page.Items = append(page.Items, i)
		switch {
		case open != nil && open.ID == i.ID:
			i.Edit = open
		case open == nil && q.Get("edit") == i.ID && i.Active && page.May("operate"):
			i.Edit = editOf(e)
		}
	}
	page.Items = foldEntries(page.Items, q.Get("open"))
	return h.Render(c, status, "entries", page)
}

// sharesOf returns the shares of entries, by id.
func (h *entriesHandler) sharesOf(ctx context.Context, items []*blocks.Entry) (map[string][]blocks.Share, error) {
	ids := make([]string, len(items))
	for i, e := range items {
		ids[i] = e.ID
	}
	return h.entries.Shares(ctx, ids...)
}

// find returns the entries of the page. During an outage of the database they are the first of
// those in memory, which has no ended ones.
func (h *entriesHandler) find(ctx context.Context, page *entriesPage, f blocks.Filter) (paging.Page[*blocks.Entry], error) {
	found, err := h.entries.Find(ctx, f)
	if err == nil || h.Tolerate(&page.Frame, err) != nil {
		return found, err
	}
	page.List.FromMemory, page.OnlyEnded = true, f.State == "ended"
	if page.OnlyEnded {
		return paging.Page[*blocks.Entry]{}, nil
	}
	found, err = h.Catalog.Blocks().Find(f)
	found.Next = "" // the page says that it shows the first
	return found, err
}

// addOpenEntry returns the entries of a page of the list. If the edited entry is on another
// page, it comes first.
func (h *entriesHandler) addOpenEntry(ctx context.Context, items []*blocks.Entry, kind blocks.Kind, id string) ([]*blocks.Entry, error) {
	if slices.ContainsFunc(items, func(e *blocks.Entry) bool { return e.ID == id }) {
		return items, nil
	}
	e, err := h.entries.ByID(ctx, kind, id)
	if err != nil {
		return nil, err
	}
	return append([]*blocks.Entry{e}, items...), nil
}

func (h *entriesHandler) entryFilter(kind blocks.Kind, q site.Query) (blocks.Filter, error) {
	f := blocks.Filter{
		Kind: kind, State: q.Get("state"), Source: blocks.Source(q.Get("source")), Author: q.Get("author"), Search: q.Get("q"),
		Order: blocks.Order(q.Get("order")), Cursor: q.Get("cursor"), Limit: site.RowsPerPage, At: h.Now(),
	}
	if q.Get("within") == "" {
		return f, nil
	}
	var err error
	if f.Within, err = h.ReadEntryPattern("within", q.Get("within"), q.Get("literal") == "yes"); err != nil {
		return f, err
	}
	return f, nil
}

// sources returns the sources of blocks. It counts each source only if no other filter is set:
// counting with filters would take longer than the list itself.
func (h *entriesHandler) sources(s *kindTexts, f blocks.Filter, q site.Query) []sourceCount {
	all := []sourceCount{{Name: "All"}, {Name: "Manual"}, {Name: "Automatic"}, {Name: "Imported"}, {Name: "Lists"}}
	counted := f.State == "" && f.Search == "" && f.Author == "" && f.Within.IsZero()
	counts := map[blocks.Source]int{}
	if counted {
		for source, n := range h.Catalog.Blocks().CountBySource(h.Now()) {
			counts[source] = n
			if source != blocks.Listed {
				counts[""] += n
			}
		}
	}
	for i, source := range []blocks.Source{"", blocks.Manual, blocks.Automatic, blocks.Imported, blocks.Listed} {
		all[i].Count, all[i].Counted, all[i].Current = counts[source], counted, f.Source == source
		all[i].Address = q.Path(s.Path, "source", string(source), "cursor", "", "from", "", "edit", "")
	}
	return all
}

// refusedByBlocks returns how many requests each block refused in the last hour, by its id, and
// their sum.
func (h *entriesHandler) refusedByBlocks(ctx context.Context) (map[string]int64, int64, error) {
	if h.detection == nil {
		return nil, 0, nil
	}
	rows, err := h.detection.Rules(ctx, h.Now().Add(-time.Hour), h.Now())
	if err != nil {
		return nil, 0, err
	}
	by, sum := map[string]int64{}, int64(0)
	for _, row := range rows {
		if row.Kind == offences.Blocked {
			by[row.RefusedBy] += row.Refused()
			sum += row.Refused()
		}
	}
	return by, sum, nil
}

func (h *entriesHandler) exportEntries(c *httpserver.Call, s *kindTexts) error {
	q, err := site.ReadQuery(c, entryParams...)
	if err != nil {
		return err
	}
	f, err := h.entryFilter(s.Kind, q)
	if err != nil {
		return err
	}
	f.Cursor = ""
	return httpserver.Stream(c, "text/csv; charset=utf-8", strings.TrimPrefix(s.Path, "/")+".csv", func(ctx context.Context, w io.Writer) error {
		return h.entries.Export(ctx, w, f, admin.BlocksCSV)
	})
}
