package administration

import (
	"net/http"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

type bouncersPage struct {
	site.Frame
	Bouncers []wire.Bouncer
}

// bouncersHandler shows the CrowdSec bouncers.
type bouncersHandler struct {
	*site.Site
	bouncers *admin.Bouncers
}

func init() {
	add(func(s *site.Site, d Deps) handler { return &bouncersHandler{Site: s, bouncers: d.Bouncers} })
}

func (h *bouncersHandler) routes() []httpserver.Route {
	return []httpserver.Route{h.InMenu(site.Administration, 3, "Bouncers", h.Get("/bouncers", identity.Read, h.showBouncers))}
}

func (h *bouncersHandler) showBouncers(c *httpserver.Call) error {
	if _, err := site.ReadQuery(c); err != nil {
		return err
	}
	all, err := h.bouncers.List(c.Context(), site.CallerOf(c), wire.None{})
	if err != nil {
		return err
	}
	return h.Render(c, http.StatusOK, "bouncers", bouncersPage{Frame: h.NewFrame(c, "Bouncers", "/bouncers"), Bouncers: all.Items})
}
