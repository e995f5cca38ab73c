package adminui

import (
	"context"
	"html/template"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/api"
	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/notes"
	"github.com/stint-dev/stint/internal/offenders"
	"github.com/stint-dev/stint/internal/reports"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// Deps are what the pages stand on. All are needed unless it says otherwise.
type Deps struct {
	Policies rules.Store
	Blocks   blocks.Store
	Identity identity.Store
	Audit    audit.Store
	Catalog  *catalog.Catalog
	Gate     *gate.Gate
	Throttle *identity.Throttle
	// Failed counts logins that failed, for the audit; nil for none.
	Failed *identity.FailedLogins

	// Offenders counts what was refused; nil leaves those figures out.
	Offenders *offenders.Service
	// Logs are what a reset empties, and Recorder writes down that it did.
	Logs     []timestamplog.Log
	Recorder audit.Recorder
	// Notes are what operators write about keys; nil where none are kept.
	Notes notes.Store
	// Reports are the daily and weekly documents; nil where none are made.
	Reports reports.Store
	// Events are what the live page shows; nil where nobody gathers them.
	Events *events.Hub
	// Health says how the parts of the node do; nil shows what Ready says.
	Health func(ctx context.Context) []Part
	// Jobs are shown and run on the page of jobs; nil where there are none.
	Jobs *jobs.Runner
	// Settings are shown as they are: secrets must be hidden in them already.
	Settings []Setting
	// Traffic estimates what blocks would have refused; nil where nothing is
	// recorded.
	Traffic blocklist.TrafficEstimator
	// Undo takes changes back from the page of the audit; nil for never.
	Undo audit.Undoer
	// Trace returns recorded checks of a span, for trying a policy on them,
	// and whether they are only a sample of all; nil where none are recorded.
	Trace func(ctx context.Context, from, to time.Time) (source backtest.Source, estimate bool, err error)
	// Checked reports whether any check was ever answered; nil for never.
	Checked func(ctx context.Context) (bool, error)
	// Ready says which part of the node fails; nil for none.
	Ready func(ctx context.Context) v1.Readiness

	Node    string // this node's name
	Version string // of the build
	// CheckURL and AdminURL are where this node is reached, for the commands
	// that the first run shows: "http://127.0.0.1:8080".
	CheckURL, AdminURL string
	// DataDir is where the embedded data is, "" on nodes that share theirs.
	DataDir string
	// Secure says that the admin listener speaks TLS itself.
	Secure bool
	// IdleTimeout and Lifetime end a session. Zero means 2 and 24 hours.
	IdleTimeout, Lifetime time.Duration

	Logger *slog.Logger     // nil discards
	Now    func() time.Time // nil means time.Now
}

// Setting is one setting as the page of settings shows it.
type Setting struct{ Name, Variable, Value, Help string }

// UI is the pages. See New.
type UI struct {
	Deps
	pages map[string]*template.Template
	// checked says that a check was answered once.
	checked atomic.Bool
	imports heldFiles

	mu    sync.Mutex
	known map[[32]byte]login // sessions seen lately, for when the database is gone
}

// New returns the pages over d, or the first mistake in a template.
func New(d Deps) (*UI, error) {
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Failed == nil {
		d.Failed = &identity.FailedLogins{}
	}
	if d.IdleTimeout <= 0 {
		d.IdleTimeout = 2 * time.Hour
	}
	if d.Lifetime <= 0 {
		d.Lifetime = 24 * time.Hour
	}
	u := &UI{Deps: d, known: map[[32]byte]login{}}
	var err error
	u.pages, err = u.parseTemplates()
	return u, err
}

// Routes returns every page and action, for api.Deps.Extra.
func (u *UI) Routes() []api.Route {
	var all []api.Route
	for _, routes := range [][]api.Route{
		u.staticRoutes(),
		u.loginRoutes(),
		u.themeRoutes(),
		u.goRoutes(),
		u.homeRoutes(),
		u.overviewRoutes(),
		u.offenderRoutes(),
		u.keyRoutes(),
		u.proposalRoutes(),
		u.liveRoutes(),
		u.reportRoutes(),
		u.actRoutes(),
		u.policyRoutes(),
		u.importRoutes(), // before /blocks/:id
		u.shelfRoutes(),
		u.jobRoutes(),
		u.auditRoutes(),
		u.tokenRoutes(),
		u.userRoutes(),
		u.settingsRoutes(),
	} {
		all = append(all, routes...)
	}
	return all
}

// Sessions finds who is logged in, for api.Deps.Sessions.
func (u *UI) Sessions() api.Sessions { return u }
