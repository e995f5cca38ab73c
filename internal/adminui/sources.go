package adminui

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/sources"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

const sourcesPath = "/blocks/sources"

type sourcesPage struct {
	site.Frame
	Sources     []wire.BlockSource
	Catalogue   []wire.KnownList
	Form        wire.BlockSourceRequest // the header is never sent back
	Every       string                  // of the form
	FieldErrors form.FieldErrors
	Remove      string // the name of the source whose removal is to be confirmed
}

// Uses are what the rows of a source may do.
func (sourcesPage) Uses() []form.Choice {
	return form.Choices(string(blocks.AsBlock), "Block", string(blocks.AsChallenge), "Challenge", string(blocks.AsExempt), "Exempt", string(blocks.AsShadow), "Shadow: refuse nothing, and count",
		string(blocks.AsAttack), "Block only while an attack goes on")
}

// Offered returns the lists of the catalogue that are not added yet.
func (p sourcesPage) Offered() (all []wire.KnownList) {
	return slices.DeleteFunc(slices.Clone(p.Catalogue), func(k wire.KnownList) bool { return k.Added })
}

// Percent writes a ratio.
func (sourcesPage) Percent(ratio *float64) string {
	return strconv.FormatFloat(*ratio*100, 'f', 2, 64) + "%"
}

// sourcesHandler shows, adds, pulls and removes the lists that are pulled.
type sourcesHandler struct {
	*site.Site
	sources *sources.Sources
}

func (h *sourcesHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.Get(sourcesPath, identity.Read, h.showSources),
		h.Post(sourcesPath, identity.Admin, h.addSource),
		h.Post(sourcesPath+"/:name/pull", identity.Operate, h.act("pulled", h.sources.Pull)),
		h.Post(sourcesPath+"/:name/agree", identity.Operate, h.act("agreed", h.sources.Agree)),
		h.Post(sourcesPath+"/:name/remove", identity.Admin, h.removeSource),
	}
}

var sourceToasts = map[string]string{
	"added": "The source is added.", "pulled": "The source was asked for its list.", "agreed": "The pull is in force, unless the list has changed again.",
	"removed": "The source is removed, and its rows have ended.",
}

func (h *sourcesHandler) showSources(c *httpserver.Call) error {
	q, err := site.ReadQuery(c, "done", "remove")
	if err != nil {
		return err
	}
	return h.render(c, http.StatusOK, sourcesPage{Remove: q.Get("remove"), Form: wire.BlockSourceRequest{As: string(blocks.AsShadow)}, FieldErrors: form.FieldErrors{}})
}

func (h *sourcesHandler) render(c *httpserver.Call, status int, page sourcesPage) error {
	page.Frame = h.NewFrame(c, "Sources", blockTexts.Path)
	page.Toast = site.DoneToast(c, sourceToasts)
	ctx, by := c.Context(), site.CallerOf(c)
	all, err := h.sources.List(ctx, by, wire.None{})
	if err != nil {
		return err
	}
	known, err := h.sources.Catalogue(ctx, by, wire.None{})
	if err != nil {
		return err
	}
	page.Sources, page.Catalogue, page.Form.Header = all.Items, known.Items, ""
	return h.Render(c, status, "sources", page)
}

func (h *sourcesHandler) addSource(c *httpserver.Call) error {
	field := func(name string) string { return strings.TrimSpace(form.Values(c).Get(name)) }
	page := sourcesPage{FieldErrors: form.FieldErrors{}, Every: field("every"), Form: wire.BlockSourceRequest{
		Name: field("name"), URL: field("url"), As: field("as"), Column: field("column"), Header: field("header_secret"),
	}}
	again := func(status int) error { return h.render(c, status, page) }
	if page.Every != "" {
		every, err := rules.ParseDuration(page.Every)
		if err != nil {
			return page.FieldErrors.Again(fault.Field("every", "%s", err), again)
		}
		page.Form.Every = wire.Duration(every)
	}
	if _, err := h.sources.Add(c.Context(), site.CallerOf(c), page.Form); err != nil {
		return page.FieldErrors.Again(err, again)
	}
	return h.Redirect(c, sourcesPath+"?done=added")
}

// act returns a handler that does something with a source.
func (h *sourcesHandler) act(done string, do func(ctx context.Context, by admin.Caller, in wire.ByName) (wire.BlockSource, error)) httpserver.Handler {
	return func(c *httpserver.Call) error {
		if _, err := do(c.Context(), site.CallerOf(c), wire.ByName{Name: c.Params("name")}); err != nil {
			return err
		}
		return h.Redirect(c, sourcesPath+"?done="+done)
	}
}

func (h *sourcesHandler) removeSource(c *httpserver.Call) error {
	if _, err := h.sources.Remove(c.Context(), site.CallerOf(c), wire.ByName{Name: c.Params("name")}); err != nil {
		return err
	}
	return h.Redirect(c, sourcesPath+"?done=removed")
}
