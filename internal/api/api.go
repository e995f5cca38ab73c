// Package api is the REST API: checks by clients on one listener, and operation of Stint on the
// other. Each resource has one handler type. Handlers decode a request, call the domain and
// encode the response; they contain no decisions of their own.
package api

import (
	"context"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/sources"
	"github.com/stint-dev/stint/internal/admin/usecases"
	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/operations"
	"github.com/stint-dev/stint/internal/api/outcomes"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// View is the part of the node's copy of the policies that the API reads.
type View interface {
	Parser() keys.Parser
	Selector() *rules.Selector
	// Loaded reports whether the policies and entries have been read once.
	Loaded() bool
	// Failing returns why and since when the copy is out of date, nil if it is up to date.
	Failing() (since time.Time, err error)
}

// Deps are the dependencies of the API. All are required unless their comment says otherwise.
type Deps struct {
	Gate *gate.Gate
	// Challenges reads the passes of checks; nil takes none.
	Challenges *challenge.Service
	Catalog    View
	usecases.UseCases
	Learned *answers.Sites // nil if nothing is learned of what sites answer
	Events  *events.Hub    // nil on a node without them

	// Ready reports whether this node can answer; nil checks the catalog only.
	Ready func(ctx context.Context) wire.Readiness
	Now   func() time.Time // nil means time.Now
	Build buildinfo.Info   // of this program
	// Doors are the routes of other front ends. The OpenAPI document describes them too.
	Doors []openapi.Route
}

// API is the REST API. See New.
type API struct{ routes []route }

// New returns the REST API for d.
func New(d Deps) *API {
	if d.Now == nil {
		d.Now = time.Now
	}
	c := common{catalog: d.Catalog, now: d.Now}
	entries := &entryHandler{common: c, entries: d.Entries}
	all := slices.Concat(
		(&checkHandler{gate: d.Gate, catalog: d.Catalog, challenges: d.Challenges}).routes(),
		outcomes.Routes(d.Gate, d.Catalog, d.Learned, d.Now),
		(&healthHandler{common: c, ready: d.Ready}).routes(),
		installationRoutes(d),
		(&policyHandler{common: c, policies: d.Policies, detection: d.Detection}).routes(),
		entries.routes(),
		sourceRoutes(d.Sources),
		(&keyHandler{common: c, keys: d.Keys, detection: d.Detection, origins: &d.Origins}).routes(),
		noteRoutes(d.Keys),
		(&profileHandler{common: c, profiles: d.Profiles}).routes(),
		identityRoutes(d.Tokens, d.Users),
		connectRoutes(d.Connect),
		operations.Routes(d.UseCases),
		(&offenderHandler{common: c, detection: d.Detection, origins: &d.Origins}).routes(),
		(&trafficHandler{common: c, detection: d.Detection}).routes(),
		(&escalationHandler{common: c, detection: d.Detection}).routes(),
		proposalRoutes(d.Detection),
		(&eventHandler{common: c, events: d.Events}).routes(),
	)
	return &API{routes: slices.Concat(all, openapi.Routes(d.Build.Version, slices.Concat(all, d.Doors)))}
}

// installationRoutes show the node, the others, and what asks them.
func installationRoutes(d Deps) []route {
	return []route{
		routes.Answers(wire.GetVersion, func(*httpserver.Call, wire.None) (wire.Build, error) {
			b := d.Build
			return wire.Build{Version: b.Version, Commit: b.Commit, Date: wire.At(b.Date), Go: b.Go}, nil
		}),
		routes.Does(wire.ListNodes, d.Nodes.List),
		routes.Does(wire.ListCrawlers, d.Crawlers.List),
		routes.Does(wire.ListSites, d.Sites.List),
		routes.Does(wire.CorrectSite, d.Sites.Correct),
		routes.Does(wire.GetBots, d.Bots.Seen),
		routes.Does(wire.ListBouncers, d.Bouncers.List),
	}
}

// sourceRoutes are the routes of the lists that are pulled.
func sourceRoutes(s *sources.Sources) []route {
	return []route{
		routes.Does(wire.ListBlockSources, s.List),
		routes.Does(wire.GetBlockSource, s.Get),
		routes.Does(wire.AddBlockSource, s.Add),
		routes.Does(wire.PullBlockSource, s.Pull),
		routes.Does(wire.AgreeBlockSource, s.Agree),
		routes.Does(wire.RemoveBlockSource, s.Remove),
		routes.Does(wire.ListKnownLists, s.Catalogue),
	}
}

// noteRoutes are the routes of the notes about keys.
func noteRoutes(k *admin.Keys) []route {
	return []route{
		routes.Does(wire.ListNotes, k.FindNotes),
		routes.Does(wire.AddNote, k.AddNote),
		routes.Does(wire.DeleteNote, k.DeleteNote),
	}
}

// Routes returns the table of routes.
func (a *API) Routes() []httpserver.Route { return openapi.Served(a.routes) }

// SecretPaths returns prefixes of paths. What follows a prefix must not be logged: the handle
// of a reservation or a hold contains keys, and anyone who has it can end it.
func SecretPaths() []string { return []string{wire.PathReservations + "/", wire.PathHolds + "/"} }
