// Package administration contains the pages of the group Administration in the side bar, and
// the reports: what operators set up and look up, not what they need under attack.
package administration

import (
	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/admin/usecases"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/httpserver"
)

// Deps are the use cases that the pages call. All are required.
type Deps struct {
	usecases.UseCases
	PagesURL    string // the URL of the pages, without a final /, "" if it is not set
	TwoFactor   *identities.TwoFactor
	OwnPassword *identities.OwnPassword
	// Settings returns the settings as they are shown: secrets must already be hidden.
	Settings func() []Setting
	Build    buildinfo.Info
}

// Setting is one setting on the settings page.
type Setting struct{ Subject, Name, Variable, Value, Help string }

// Routes returns the routes of all pages of this package.
func Routes(s *site.Site, d Deps) []httpserver.Route {
	handlers := []interface{ routes() []httpserver.Route }{
		&reportsHandler{Site: s, reports: d.Reports},
		&bouncersHandler{Site: s, bouncers: d.Bouncers},
		&botsHandler{Site: s, bots: d.Bots},
		&sitesHandler{Site: s, sites: d.Sites},
		&jobsHandler{Site: s, jobs: d.Jobs},
		&notificationsHandler{Site: s, notifications: d.Notifications},
		&channelsHandler{Site: s, notifications: d.Notifications},
		&connectHandler{Site: s, connect: d.Connect},
		&tokensHandler{Site: s, tokens: d.Tokens},
		&usersHandler{Site: s, users: d.Users, url: d.PagesURL},
		&accountHandler{Site: s, factors: d.TwoFactor, password: d.OwnPassword},
		&settingsHandler{Site: s, settings: d.Settings, build: d.Build, crawlers: d.Crawlers, origins: d.Origins},
	}
	var all []httpserver.Route
	for _, h := range handlers {
		all = append(all, h.routes()...)
	}
	return all
}
