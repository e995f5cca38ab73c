package adminui

import (
	"net/url"
	"strconv"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/profiles"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/offences"
)

// activeKeysPage lists the keys that were checked, also those that were never refused.
type activeKeysPage struct {
	site.MonitorPage
	Active offences.ActiveKeys
	First  int    // number of the first row shown, from 1
	Next   string // the address of the next page, "" on the last
	// FieldErrors are those of the filter. With one, no keys are read.
	FieldErrors form.FieldErrors
}

// Last returns the number of the last row shown.
func (p *activeKeysPage) Last() int { return p.First + len(p.Active.Rows) - 1 }

// Filtered reports whether the list shows only some keys.
func (p *activeKeysPage) Filtered() bool {
	return p.Query.Get("search") != "" || p.Query.Get("pattern") != "" || p.Query.Get("policy") != "" || p.Query.Get("refused") != ""
}

// activeKeysHandler lists the keys that were checked.
type activeKeysHandler struct {
	*site.Site
	detection *admin.Detection // nil if traffic is not counted
}

func (h *activeKeysHandler) routes() []httpserver.Route {
	return []httpserver.Route{h.Get(site.ActiveKeysPath, identity.Read, h.showActiveKeys)}
}

func (h *activeKeysHandler) showActiveKeys(c *httpserver.Call) error {
	if h.detection == nil {
		return admin.ErrNotCounted
	}
	w, err := h.NewMonitorPage(c, "Keys", profiles.Path, "search", "pattern", "policy", "refused", "cursor", "at")
	if err != nil {
		return err
	}
	w.Path = site.ActiveKeysPath
	page := &activeKeysPage{MonitorPage: w, First: 1, FieldErrors: form.FieldErrors{}}
	q := offences.ActiveQuery{From: page.Range.From, To: page.Range.To, Cursor: page.Query.Get("cursor"), Limit: site.RowsPerPage}
	filter, err := admin.ParseOffenderFilter(h.Catalog, url.Values(page.Query))
	refused := page.Query.Get("refused")
	if err == nil && refused != "" && refused != "never" {
		err = fault.Field("refused", "must be never")
	}
	if err == nil {
		q.NeverRefused = refused == "never"
		q.Search, q.Pattern, q.Policy = filter.Search, filter.Pattern, filter.Policy
		page.Active, err = h.detection.ActiveKeys(c.Context(), q)
	}
	if err := page.FieldErrors.Add(err); err != nil {
		return err
	}
	if at, err := strconv.Atoi(page.Query.Get("at")); err == nil && at > 0 && q.Cursor != "" {
		page.First, page.Refresh = at, 0
	}
	if page.Active.Next != "" {
		page.Next = page.With("cursor", page.Active.Next, "at", strconv.Itoa(page.First+len(page.Active.Rows)))
	}
	return h.RenderLive(c, "active-keys", page)
}
