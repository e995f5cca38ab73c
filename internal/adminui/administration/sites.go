package administration

import (
	"net/http"
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
	Learns bool
	Sites  []wire.Site
}

// Lines returns patterns one a line, for a field.
func (sitesPage) Lines(patterns []string) string { return strings.Join(patterns, "\n") }

// sitesHandler shows and corrects what the answers of sites have shown.
type sitesHandler struct {
	*site.Site
	sites *operations.Sites
}

func (h *sitesHandler) routes() []httpserver.Route {
	return []httpserver.Route{h.Get("/sites", identity.Read, h.showSites), h.Post("/sites", identity.Operate, h.correctSite)}
}

func (h *sitesHandler) showSites(c *httpserver.Call) error {
	q, err := site.ReadQuery(c, "done")
	if err != nil {
		return err
	}
	all, err := h.sites.List(c.Context(), site.CallerOf(c), wire.None{})
	if err != nil {
		return err
	}
	page := sitesPage{Frame: h.NewFrame(c, "Sites", "/sites"), Learns: h.sites.Learns(), Sites: all.Items}
	if q.Get("done") != "" {
		page.Toast = &site.Toast{Text: "Corrected on this node, and on the others within a minute."}
	}
	return h.Render(c, http.StatusOK, "sites", page)
}

func (h *sitesHandler) correctSite(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	r := wire.SiteRequest{Host: values.Get("host"), OwnPaths: strings.Fields(values.Get("own_paths")), Forget: values.Get("forget") != ""}
	if _, err := h.sites.Correct(c.Context(), site.CallerOf(c), r); err != nil {
		return err
	}
	return h.Redirect(c, "/sites?done=corrected")
}
