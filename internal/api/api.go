// Package api is the REST API: the checks that clients ask on one listener, and
// all that operators do on the other. It reservations HTTP into calls of the domain
// and answers back; what is decided, is decided elsewhere.
package api

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/nodes"
	"github.com/stint-dev/stint/internal/notes"
	"github.com/stint-dev/stint/internal/offenders"
	"github.com/stint-dev/stint/internal/reports"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// Deps are what the API stands on. All are needed unless it says otherwise.
type Deps struct {
	Gate    *gate.Gate
	Catalog *catalog.Catalog
	// Logs are what a reset empties: the log that decides, then the one that
	// stands in for it where there is one.
	Logs     []timestamplog.Log
	Policies rules.Store
	Blocks   blocks.Store
	Identity identity.Store
	Audit    audit.Store
	Recorder audit.Recorder
	Throttle *identity.Throttle

	// Offenders answers who offended, when and why.
	Offenders *offenders.Service
	Reports   *reports.Builder

	// Nodes are those of this installation.
	Nodes nodes.Store
	// Notes are what operators write about keys.
	Notes notes.Store
	// Undo takes recorded changes back.
	Undo audit.Undoer
	// Traffic estimates whom a block would hit; nil where nothing is recorded.
	Traffic blocklist.TrafficEstimator
	// Events tells what happens as it happens, Jobs is the periodic work,
	// Notifier and Outbox what people are told; nil where a node has none.
	Events   *events.Hub
	Jobs     *jobs.Runner
	Notifier Notifier
	Outbox   Outbox

	// Backups keeps the embedded data; nil where there is none to keep, which
	// the two routes then say.
	Backups BackupStore
	// Ready says whether this node can answer; nil asks the catalog alone.
	Ready func(ctx context.Context) v1.Readiness
	// Sessions finds out who is logged in to the pages; nil for nobody. It is
	// asked where a request carries no bearer token.
	Sessions Sessions
	// Extra are more routes of the admin listener: pages, reports, metrics.
	// Their paths must not be in the table already.
	Extra []Route

	// Observe hears of every answer that has a row in the table; nil for nobody.
	Observe func(l Listener, status int, took time.Duration)

	// CheckAuth asks the clients of checks for a token with the scope check.
	CheckAuth bool
	// Streams names the rows of Extra whose handlers read their body as it
	// arrives, as "POST /path"; all others get it whole.
	Streams []string
	// Clients finds out where requests come from.
	Clients httpserver.ClientAddresses
	// CheckHosts and AdminHosts are the names that each listener answers to
	// where no token is sent; nil for any.
	CheckHosts, AdminHosts *httpserver.AllowedHosts
	Logger                 *slog.Logger // nil discards
	Now                    func() time.Time
	Version                string // of the build, for openapi.json
}

// BackupStore keeps and brings back the embedded data while it is in use.
type BackupStore interface {
	// Backup writes everything, consistent in itself, to w.
	Backup(ctx context.Context, w io.Writer) error
	// Restore replaces everything by what r holds, all or nothing, and says in
	// one sentence what it was. It records itself, in the audit that it brought
	// back.
	Restore(ctx context.Context, by audit.Actor, r io.Reader) (string, error)
}

// Sessions finds out who is logged in to the pages.
type Sessions interface {
	// SessionOf returns who a request's session belongs to, nil for nobody. It
	// must refuse a request that changes something and does not prove that it
	// comes from the pages.
	SessionOf(c *fiber.Ctx) (*Principal, error)
	// SessionHolds reports whether the session that gave a principal still
	// gives the same access. It does not prolong the session.
	SessionHolds(ctx context.Context, p *Principal) (bool, error)
}

// Server holds the two applications. See New.
type Server struct {
	Deps
	check  *fiber.App
	admin  *fiber.App
	routes []Route
	calls  sync.Pool
	tokens *tokenUse
	quotas quotas

	verifying sync.Mutex // the audit, which reads all of it
}

// New builds both applications; they listen nowhere yet. It panics where two
// routes claim one method and path.
func New(d Deps) *Server {
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	s := &Server{Deps: d, tokens: newTokenUse()}
	s.calls.New = func() any { return new(Call) }
	s.routes = slices.Concat(s.operations(), s.table(), d.Extra)
	s.check = s.newApp("checks", batchBody, false, false)
	s.admin = s.newApp("admin", adminBody, true, true)
	s.register()
	return s
}

// CheckApp answers checks.
func (s *Server) CheckApp() *fiber.App { return s.check }

// AdminApp answers operators.
func (s *Server) AdminApp() *fiber.App { return s.admin }

// Routes returns the whole table.
func (s *Server) Routes() []Route { return s.routes }

// Run notes in the database every minute which tokens were used, until ctx
// ends, and once more then.
func (s *Server) Run(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.flushTokenUse(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			s.flushTokenUse(last)
			cancel()
			return
		}
	}
}
