package adminui

import (
	"context"
	"log/slog"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/admin/usecases"
	"github.com/stint-dev/stint/internal/adminui/administration"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/policies"
	"github.com/stint-dev/stint/internal/adminui/profiles"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// Deps are the dependencies of the pages. All are required unless their comment says otherwise.
type Deps struct {
	// UseCases may lack Detection, which hides its figures, and Undo.
	usecases.UseCases
	// Challenges shows what refused visitors see; nil for the usual options.
	Challenges *challenge.Service
	Logins     *identities.Logins
	OpenID     *identities.OpenIDLogins // nil without an OpenID provider
	OpenAs     string                   // the user that everybody is logged in as without a password, "" for nobody; for the demo
	// TwoFactor manages the second factor of the current user.
	TwoFactor *identities.TwoFactor
	// OwnPassword changes the password of the current user.
	OwnPassword *identities.OwnPassword
	Catalog     site.View

	// Events are shown by the live page; nil if there are none.
	Events *events.Hub
	// Health returns the state of the node's parts; nil shows the parts of Ready.
	Health func(ctx context.Context) []Part
	// Settings returns the settings as they are shown: secrets must already be hidden.
	Settings func() []administration.Setting
	// Checked reports whether any check was ever answered; nil means never.
	Checked func(ctx context.Context) (bool, error)
	// Ready reports which parts of the node fail; nil means none.
	Ready         func(ctx context.Context) wire.Readiness
	StoreLiveness httpserver.StoreLiveness // of the database

	Node  string         // this node's name
	Build buildinfo.Info // of this program
	// CheckURL and AdminURL are the URLs of this node in the commands of the first run:
	// "http://127.0.0.1:8080".
	CheckURL, AdminURL string
	// PagesURL is the URL under which people reach the pages, "" if it is not set.
	PagesURL string
	// DataDir is the directory of the embedded data, "" on nodes that share their data.
	DataDir string
	// Secure means that the admin listener itself uses TLS.
	Secure bool
	Logger *slog.Logger     // nil discards
	Now    func() time.Time // nil means time.Now
}

// Pages are the admin pages: one handler for each page, see New.
type Pages struct {
	site     *site.Site
	sessions *sessions
	routes   []httpserver.Route
}

// New returns the pages for d. The error is the first one in a template.
func New(d Deps) (*Pages, error) {
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Challenges == nil {
		d.Challenges = challenge.New(challenge.Options{Now: d.Now, Difficulty: challenge.DefaultDifficulty, Wait: challenge.DefaultWait})
	}
	o := site.Options{
		Catalog: d.Catalog, Ready: d.Ready, Node: d.Node, Version: d.Build.Version, Logger: d.Logger, Now: d.Now,
		StoreLiveness: d.StoreLiveness,
	}
	if d.Notifications != nil {
		o.Silences = d.Notifications.ActiveSilences
	}
	if d.Detection != nil {
		o.OpenProposals = d.Detection.Proposals.CountOpen
	}
	s, err := site.New(o)
	if err != nil {
		return nil, err
	}
	p := &Pages{site: s, sessions: &sessions{secure: d.Secure, Sessions: d.Logins.Sessions}}
	p.routes = routesOf(s, &d, p.sessions)
	return p, nil
}

// routesOf creates the handlers, each with the stores that it needs.
func routesOf(s *site.Site, d *Deps, sessions *sessions) []httpserver.Route {
	isShared := d.DataDir == ""
	toasts := &toasts{entries: d.Entries, audit: d.Audit, canUndo: d.Undo != nil, now: d.Now}
	firstRun := &firstRunHandler{
		Site: s, checked: d.Checked, detection: d.Detection, settings: d.Settings, checkURL: d.CheckURL, adminURL: d.AdminURL, dataDir: d.DataDir,
	}
	handlers := []interface{ routes() []httpserver.Route }{
		&loginHandler{Site: s, sessions: sessions, logins: d.Logins, openID: d.OpenID, openAs: d.OpenAs},
		&invitationHandler{Site: s, users: d.Users},
		&searchHandler{Site: s, detection: d.Detection, entries: d.Entries},
		firstRun,
		&overviewHandler{Site: s, detection: d.Detection, blocks: d.Entries, parts: d.Health, firstRun: firstRun, toasts: toasts},
		&activeKeysHandler{Site: s, detection: d.Detection},
		&attacksHandler{Site: s, detection: d.Detection},
		&trafficHandler{Site: s, detection: d.Detection},
		&offendersHandler{Site: s, detection: d.Detection, toasts: toasts, origins: &d.Origins},
		&originsHandler{Site: s, detection: d.Detection, origins: &d.Origins},
		&keyHandler{
			Site: s, keys: d.Keys, profiles: d.Profiles, detection: d.Detection, blocks: d.Entries, toasts: toasts, origins: &d.Origins,
		},
		&proposalsHandler{Site: s, detection: d.Detection, toasts: toasts, entries: d.Entries},
		&liveHandler{Site: s, events: d.Events, isShared: isShared},
		&bulkHandler{Site: s, entries: d.Entries},
		&sourcesHandler{Site: s, sources: d.Sources},
		// They must come before /blocks/:id and /exemptions/:id of the next handler.
		&importHandler{Site: s, entries: d.Entries, texts: blockTexts, path: form.ImportBlocksPath},
		&importHandler{Site: s, entries: d.Entries, texts: exemptionTexts, path: form.ImportExemptionsPath},
		&entriesHandler{Site: s, entries: d.Entries, detection: d.Detection, toasts: toasts},
		&auditHandler{Site: s, audit: d.Audit, undo: d.Undo},
	}
	policies := &policies.Handler{Site: s, Policies: d.Policies, Detection: d.Detection, Profiles: d.Profiles, Audit: d.Audit, CanUndo: d.Undo != nil, IsShared: isShared, Challenges: d.Challenges}
	all := append(s.StaticRoutes(), policies.Routes()...)
	all = append(all, (&profiles.Handler{Site: s, Profiles: d.Profiles, Choices: lengthChoices}).Routes()...)
	all = append(all, administration.Routes(s, administration.Deps{
		UseCases: d.UseCases, PagesURL: d.PagesURL, TwoFactor: d.TwoFactor, OwnPassword: d.OwnPassword, Settings: d.Settings, Build: d.Build,
	})...)
	for _, h := range handlers {
		all = append(all, h.routes()...)
	}
	return all
}

// Routes returns every page and action, for httpserver.New.
func (p *Pages) Routes() []httpserver.Route { return p.routes }

// MissingPage answers a browser that requests a path without a page, for
// httpserver.Options.MissingPage.
func (p *Pages) MissingPage(c *fiber.Ctx) error { return p.site.Missing(c) }

// Sessions finds the session of a request, for httpserver.Options.Sessions.
func (p *Pages) Sessions() httpserver.Sessions { return p.sessions }
