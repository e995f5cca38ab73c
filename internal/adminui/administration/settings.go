package administration

import (
	"net/http"

	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

type settingsPage struct {
	site.Frame
	Build     buildinfo.Info
	Settings  []Setting
	IPv6Bits  int
	Operators []operations.CrawlerOperator
	Crawlers  []wire.Crawler
	GeoFiles  []operations.GeoFile // none if origins are not known
}

// settingsHandler shows the settings.
type settingsHandler struct {
	*site.Site
	settings func() []Setting
	build    buildinfo.Info
	crawlers operations.Crawlers
	origins  operations.Origins
}

func (h *settingsHandler) routes() []httpserver.Route {
	return []httpserver.Route{h.Get("/settings", identity.Read, h.showSettings)}
}

func (h *settingsHandler) showSettings(c *httpserver.Call) error {
	crawlers, err := h.crawlers.List(c.Context(), site.CallerOf(c), wire.None{})
	if err != nil {
		return err
	}
	return h.Render(c, http.StatusOK, "settings", settingsPage{
		Frame:    h.NewFrame(c, "Settings", "/settings"),
		Build:    h.build,
		Settings: h.settings(), IPv6Bits: h.Catalog.Parser().IPv6Bits,
		Operators: h.crawlers.Operators(), Crawlers: crawlers.Items, GeoFiles: h.origins.Files(),
	})
}
