package adminui

import (
	"net/http"

	"github.com/stint-dev/stint/internal/api"
	"github.com/stint-dev/stint/internal/identity"
)

type settingsPage struct {
	Frame
	Settings []Setting
	IPv6Bits int
}

func (u *UI) settingsRoutes() []api.Route {
	return []api.Route{u.get("/settings", identity.Read, u.showSettings)}
}

func (u *UI) showSettings(c *api.Call) error {
	return u.render(c, http.StatusOK, "settings", settingsPage{
		Frame:    u.frame(c, "Settings", "/settings"),
		Settings: u.Settings, IPv6Bits: u.Catalog.Settings().IPv6Bits,
	})
}
