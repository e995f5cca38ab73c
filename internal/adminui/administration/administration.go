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

// handler serves one page, or several of one subject.
type handler interface{ routes() []httpserver.Route }

// handlers make the handlers of this package, and auditKinds are the kinds of what they change. Each file adds its own.
var (
	handlers   []func(*site.Site, Deps) handler
	auditKinds []string
)

func add(of func(*site.Site, Deps) handler, kinds ...string) {
	handlers, auditKinds = append(handlers, of), append(auditKinds, kinds...)
}

// AuditKinds returns the kinds of objects, as the audit names them, that the pages of this package change.
func AuditKinds() []string { return auditKinds }

// Routes returns the routes of all pages of this package.
func Routes(s *site.Site, d Deps) (all []httpserver.Route) {
	for _, of := range handlers {
		all = append(all, of(s, d).routes()...)
	}
	return all
}
