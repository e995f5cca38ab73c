package adminui

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

const viewsPath = "/offenders/views"

// viewLink is a saved view next to the quick filters.
type viewLink struct {
	offences.SavedView
	Address string
	Current bool // the page shows this view
}

// ViewQuery returns the page's filters as the query of a saved view, with the parameters of GET
// /v1/offenders.
func (p *offendersPageData) ViewQuery() string {
	values := url.Values{}
	for name, all := range p.Query {
		values[name] = all
	}
	for _, own := range []string{"cursor", "at", "done", "ids", "columns"} {
		values.Del(own)
	}
	if p.Range.Last > 0 {
		values.Set("last", rules.FormatDuration(p.Range.Last))
	} else {
		values.Set("from", p.Range.From.Format(time.RFC3339))
		values.Set("to", p.Range.To.Format(time.RFC3339))
	}
	return values.Encode()
}

// ManageViews returns the address of the page of the saved views.
func (p *offendersPageData) ManageViews() string {
	return viewsPath + "?" + url.Values{"query": {p.ViewQuery()}}.Encode()
}

// addViews adds the saved views to the page.
func (p *offendersPageData) addViews(ctx context.Context, views *admin.Views) error {
	all, err := views.List(ctx)
	if err != nil {
		return err
	}
	shown, _ := views.Canonical(p.ViewQuery()) // "" equals no view
	for _, v := range all {
		p.Views = append(p.Views, viewLink{SavedView: v, Address: viewAddress(v.Query, p.Query.Get("columns")), Current: v.Query == shown})
	}
	return nil
}

// viewValues returns the query of a view, with the page's names for the ends of its time range.
func viewValues(query string) url.Values {
	values, err := url.ParseQuery(query)
	if err != nil {
		return url.Values{} // cannot happen for a saved view
	}
	for api, page := range map[string]string{"from": "since", "to": "until"} {
		if value := values.Get(api); value != "" {
			values.Set(page, value)
			values.Del(api)
		}
	}
	return values
}

// viewAddress returns the address that shows a view with the present columns.
func viewAddress(query, columns string) string {
	values := viewValues(query)
	if columns != "" {
		values.Set("columns", columns)
	}
	return "/offenders?" + values.Encode()
}

// viewsPage lists the saved views.
type viewsPage struct {
	site.Frame
	Views []viewRow
	// Query is what the form saves, "" for nothing; Shows describes it.
	Query string
	Shows []format.Sentence
	Name  string // as typed
	// Edited is the id of the view whose name is invalid, "" for the form of a new view.
	Edited      string
	FieldErrors form.FieldErrors
}

// viewRow is one saved view.
type viewRow struct {
	offences.SavedView
	Address string
	Shows   []format.Sentence
}

// viewsHandler lists and changes the saved views of the offenders.
type viewsHandler struct {
	*site.Site
	views *admin.Views
}

func (h *viewsHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.Get(viewsPath, identity.Read, h.showViews),
		h.Post(viewsPath, identity.Operate, h.saveView),
		h.Post(viewsPath+"/:id", identity.Operate, h.changeView),
		h.Post(viewsPath+"/:id/delete", identity.Operate, h.deleteView),
	}
}

func (h *viewsHandler) showViews(c *httpserver.Call) error {
	page := &viewsPage{Query: c.Query("query")}
	if canonical, err := h.views.Canonical(page.Query); err == nil && page.Query != "" {
		page.Query = canonical
	} else {
		page.Query = "" // it cannot be saved
	}
	return h.renderViews(c, http.StatusOK, page)
}

func (h *viewsHandler) renderViews(c *httpserver.Call, status int, page *viewsPage) error {
	page.Frame = h.NewFrame(c, "Saved views", "/offenders")
	all, err := h.views.List(c.Context())
	if err != nil {
		return err
	}
	for _, v := range all {
		page.Views = append(page.Views, viewRow{v, viewAddress(v.Query, ""), describeView(v.Query, page.Now)})
	}
	if page.Query != "" {
		page.Shows = describeView(page.Query, page.Now)
	}
	return h.Render(c, status, "views", page)
}

// describeView describes a view: its filters, order and time range.
func describeView(query string, now time.Time) []format.Sentence {
	values := viewValues(query)
	var all []format.Sentence
	for _, chip := range filterChips(&site.MonitorPage{Query: site.Query(values)}) {
		all = append(all, format.Sentence{format.Plain(chip.Name + " " + chip.Value)})
	}
	if state := values.Get("state"); state != "" {
		all = append(all, format.Sentence{format.Plain("Status " + state)})
	}
	if order := map[string]string{"last": "newest first", "first": "new ones first", "key": "by key"}[values.Get("sort")]; order != "" {
		all = append(all, format.Sentence{format.Plain(order)})
	}
	shown, err := format.ParseTimeRange(values.Get("last"), values.Get("since"), values.Get("until"), now)
	if err == nil {
		all = append(all, shown.Name())
	}
	return all
}

func (h *viewsHandler) saveView(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	page := &viewsPage{Query: values.Get("query"), Name: values.Get("name"), FieldErrors: form.FieldErrors{}}
	made, err := h.views.Save(c.Context(), site.CallerOf(c), page.Name, page.Query)
	if err != nil {
		if err = page.FieldErrors.Add(err); err != nil {
			return err
		}
		return h.renderViews(c, site.StatusInvalidForm, page)
	}
	return h.ReturnTo(c, viewAddress(made.Query, ""), "viewsaved", nil)
}

// changeView renames a view, or replaces its query by that of the form.
func (h *viewsHandler) changeView(c *httpserver.Call) error {
	id, err := site.PathParam(c, "id")
	if err != nil {
		return err
	}
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	var name, query *string
	for field, to := range map[string]**string{"name": &name, "query": &query} {
		if values.Has(field) {
			value := strings.TrimSpace(values.Get(field))
			*to = &value
		}
	}
	if _, err := h.views.Change(c.Context(), site.CallerOf(c), id, name, query); err != nil {
		page := &viewsPage{Name: values.Get("name"), Edited: id, FieldErrors: form.FieldErrors{}}
		if err = page.FieldErrors.Add(err); err != nil {
			return err
		}
		return h.renderViews(c, site.StatusInvalidForm, page)
	}
	return h.Redirect(c, viewsPath)
}

func (h *viewsHandler) deleteView(c *httpserver.Call) error {
	id, err := site.PathParam(c, "id")
	if err != nil {
		return err
	}
	if err := h.views.Delete(c.Context(), site.CallerOf(c), id); err != nil {
		return err
	}
	return h.Redirect(c, viewsPath)
}
