package administration

import (
	"net/http"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

type sitesPage struct {
	site.Frame
	Learns      bool
	Sites       []wire.Site
	FieldErrors form.FieldErrors // of the form of the site Host
	Host        string
}

// Lines returns patterns one a line, for a field.
func (sitesPage) Lines(patterns []string) string { return strings.Join(patterns, "\n") }

// sitesHandler shows and corrects what was learned of sites.
type sitesHandler struct {
	*site.Site
	sites *operations.Sites
}

func init() {
	add(func(s *site.Site, d Deps) handler { return &sitesHandler{Site: s, sites: d.Sites} }, "site")
}

func (h *sitesHandler) routes() []httpserver.Route {
	return []httpserver.Route{h.InMenu(site.Administration, 2, "Sites", h.Get("/sites", identity.Read, h.showSites)), h.Post("/sites", identity.Operate, h.correctSite)}
}

func (h *sitesHandler) showSites(c *httpserver.Call) error {
	q, err := site.ReadQuery(c, "done")
	if err != nil {
		return err
	}
	page, err := h.newSitesPage(c)
	if err != nil {
		return err
	}
	if q.Get("done") != "" {
		page.Toast = &site.Toast{Text: "Corrected on this node, and on the others within a minute."}
	}
	return h.Render(c, http.StatusOK, "sites", page)
}

func (h *sitesHandler) newSitesPage(c *httpserver.Call) (sitesPage, error) {
	all, err := h.sites.List(c.Context(), site.CallerOf(c), wire.None{})
	return sitesPage{Frame: h.NewFrame(c, "Sites", "/sites"), Learns: h.sites.Learns(), Sites: all.Items, FieldErrors: form.FieldErrors{}}, err
}

func (h *sitesHandler) correctSite(c *httpserver.Call) error {
	values := form.Values(c)
	r := wire.SiteRequest{Host: values.Get("host"), OwnPaths: append([]string{}, strings.Fields(values.Get("own_paths"))...), Forget: values.Get("forget") != ""}
	if _, wrong := h.sites.Correct(c.Context(), site.CallerOf(c), r); wrong != nil {
		page, err := h.newSitesPage(c)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(page.Sites, func(s wire.Site) bool { return s.Host == r.Host })
		if at < 0 { // no form is of it
			return wrong
		}
		page.Host, page.Sites[at].OwnPaths = r.Host, r.OwnPaths
		return page.FieldErrors.Again(wrong, func(status int) error { return h.Render(c, status, "sites", page) })
	}
	return h.Redirect(c, "/sites?done=corrected")
}
