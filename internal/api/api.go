// Package api is the REST API: checks by clients on one listener, and the work of
// operators on the other. Its handlers decode a request, call the domain and encode
// the answer; they decide nothing themselves.
package api

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

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
	"github.com/stint-dev/stint/internal/wire"
)

// Deps are the parts that the API uses. All are required unless their comment says
// otherwise.
type Deps struct {
	Gate    *gate.Gate
	Catalog *catalog.Catalog
	// Logs are what a reset empties: the log that decides, then the one that
	// stands in for it where there is one.
	Logs     []timestamplog.Log
	Policies rules.Store
	Entries  blocks.Store
	Identity identity.Store
	Audit    audit.Store
	Recorder audit.Recorder

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
	Ready   func(ctx context.Context) wire.Readiness
	Now     func() time.Time // nil means time.Now
	Version string           // of the build, for openapi.json
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

// API holds the handlers of the REST API. See New.
type API struct {
	Deps
	routes  []route
	scratch sync.Pool // of *checkScratch
	quotas  quotas

	verifying sync.Mutex // the audit, which reads all of it
}

// New returns the REST API over d.
func New(d Deps) *API {
	if d.Now == nil {
		d.Now = time.Now
	}
	s := &API{Deps: d}
	s.scratch.New = func() any { return new(checkScratch) }
	s.routes = slices.Concat(s.operations(), s.table())
	return s
}

// Routes returns the table of routes.
func (s *API) Routes() []httpserver.Route {
	all := make([]httpserver.Route, len(s.routes))
	for i, r := range s.routes {
		all[i] = r.Route
	}
	return all
}

// SecretPaths returns the prefixes of paths whose rest must not be logged: the
// handle of a reservation holds keys, and anyone who has it can cancel the
// reservation.
func SecretPaths() []string { return []string{wire.PathReservations + "/"} }
