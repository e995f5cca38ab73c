package adminui

import (
	"net/http"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

type settingsPage struct {
	Frame
	Settings []Setting
	IPv6Bits int
}

// settingsHandler shows the settings.
type settingsHandler struct {
	*site
	settings []Setting
}

func (h *settingsHandler) routes() []httpserver.Route {
	return []httpserver.Route{h.get("/settings", identity.Read, h.showSettings)}
}

func (h *settingsHandler) showSettings(c *httpserver.Call) error {
	return h.render(c, http.StatusOK, "settings", settingsPage{
		Frame:    h.frame(c, "Settings", "/settings"),
		Settings: h.settings, IPv6Bits: h.catalog.Settings().IPv6Bits,
	})
}
