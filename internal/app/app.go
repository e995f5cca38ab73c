// Package app builds a node out of its parts, starts it and stops it. It is
// the only place that chooses a backend.
package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/api"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/metrics"
	"github.com/stint-dev/stint/internal/nodes"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/offenders"
	"github.com/stint-dev/stint/internal/recorder"
	"github.com/stint-dev/stint/internal/reports"
	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
)

const (
	// takeOverTimeout bounds how long an operator waits for a committed change
	// to govern the node that took it.
	takeOverTimeout = 10 * time.Second
	// flushTimeout bounds the writing of what is only in memory, whatever time
	// open requests were given.
	flushTimeout = 10 * time.Second
)

// App is one node. See New.
type App struct {
	settings Settings
	node     string // this run of the node, unlike any other
	log      *slog.Logger
	out      io.Writer // what people read at the start

	backends *backends
	first    *credentials // made on the first start only
	catalog  *catalog.Catalog
	// lastKnown is nil when embedded: the database lies in the same directory.
	lastKnown        *lastKnown
	startedFromSaved atomic.Bool // by what lastKnown held, the database being unreachable
	metrics          *metrics.Metrics
	notifier         *notify.Dispatcher

	recorder  *recorder.Recorder
	flusher   *recorder.Flusher
	offenders *offenders.Service
	reports   *reports.Builder
	jobs      *jobs.Runner
	pulse     nodes.Pulse
	events    *events.Hub
	follower  *events.Follower
	failed    httpserver.FailedLogins

	watch          *redisWatch  // nil when embedded
	redisOutages   atomic.Int64 // that have begun
	answered       atomic.Int64 // requests on the check listener
	answeredBefore atomic.Int64 // those before the present outage of the database

	gate   *gate.Gate
	server *httpserver.Server

	checks, admin net.Listener
	saving        sync.Mutex  // of the logs' snapshot
	prepared      atomic.Bool // the schema is up to date and seeded
	draining      atomic.Bool
}

// New builds a node and binds its listeners, which answer once Run is called.
// out is where it tells people what they need to know, logs where it logs to.
// An error is a mistake in the settings or on this machine, in one line.
func New(ctx context.Context, s Settings, out, logs io.Writer) (*App, error) {
	a := &App{settings: s, node: s.NodeName + "-" + rand.Text()[:8], log: newLogger(s, logs), out: out}
	redislog.LogTo(a.log)
	supervise.LogTo(a.log)
	if err := a.build(ctx); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *App) build(ctx context.Context) (err error) {
	if a.backends, err = openBackends(a.settings, a.log, a.changed, a.secret, a.redisOutage); err != nil {
		return err
	}
	a.catalog = catalog.New(a.backends.store, time.Now)
	a.catalog.OnOutage(a.databaseOutage)
	if a.backends.redis != nil {
		a.watch = &redisWatch{
			redis: a.backends.redis, options: redislog.CheckOptions{AllowEviction: a.settings.AllowRedisEviction},
			log: a.log, node: a.settings.NodeName, tell: a.tell, now: time.Now,
		}
		if err := a.watch.start(ctx); err != nil {
			return err
		}
	}
	// Bound before a new database is seeded: a port that is taken must not cost
	// the credentials that are shown once.
	if a.checks, err = listen("listen", a.settings.Listen, a.settings.TLS); err != nil {
		return err
	}
	if a.admin, err = listen("admin-listen", a.settings.AdminListen, a.settings.AdminTLS); err != nil {
		return err
	}
	if a.backends.dir == nil {
		a.lastKnown = newLastKnown(a.settings.DataDir, a.backends.store.Place(), a.log)
		a.catalog.OnChange(func(catalog.Changed) { a.lastKnown.changed() })
	}
	if err := a.prepare(ctx); err != nil {
		return err
	}
	a.metrics = a.newMetrics()
	if a.notifier, err = a.newNotifier(); err != nil {
		return err
	}
	a.buildOffenders()
	a.events = events.New(events.Options{Parser: a.catalog.Parser})
	a.follower = events.NewFollower(a.events, a.backends.store)
	a.catalog.OnChange(a.follower.Changed)
	if a.jobs, err = a.newJobs(); err != nil {
		return err
	}
	a.gate = gate.New(gate.Options{
		View: a.catalog, Log: a.backends.log, Local: a.backends.local, Deadline: a.settings.CheckDeadline,
		Recorder: gate.Recorders{a.recorder, a.metrics, a.events},
	})
	o := a.serverOptions()
	pages, err := a.newPages(o.Throttle)
	if err != nil {
		return err
	}
	o.Sessions = pages.Sessions()
	metrics := []httpserver.Route{httpserver.MetricsRoute(a.metrics.Handler())}
	a.server = httpserver.New(o, api.New(apiDeps(a)).Routes(), metrics, pages.Routes())
	return nil
}

// changed takes over a change that this node has just committed, so that it
// governs the next check before the operator hears of it. Before the first
// load there is nothing to govern.
func (a *App) changed(ctx context.Context) error {
	if !a.prepared.Load() && !a.catalog.Loaded() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeOverTimeout)
	defer cancel()
	return a.catalog.Refresh(ctx)
}

func apiDeps(a *App) api.Deps {
	store := a.backends.store
	d := api.Deps{
		Gate: a.gate, Catalog: a.catalog, Logs: a.logs(),
		Policies: store, Entries: store.Entries(), Identity: store, Audit: store, Recorder: store, Notes: store,
		Offenders: a.offenders, Reports: a.reports,
		Undo: store, Nodes: store,
		Traffic: &offenders.Estimator{Store: store, Secret: a.secret},
		Events:  a.events, Jobs: a.jobs, Notifier: a.notifier, Outbox: store,
		Ready: a.Ready, Now: time.Now, Version: Version(),
	}
	if a.backends.dir != nil {
		d.Backups = &backups{a}
	}
	return d
}

func (a *App) serverOptions() httpserver.Options {
	o := httpserver.Options{
		Credentials: a.catalog, Tokens: a.backends.store,
		Throttle: httpserver.NewThrottle(httpserver.ThrottleOptions{
			Shared: a.backends.log, Local: a.backends.local, Secret: a.secret, Known: a.catalog.KnownLogin,
		}),
		CheckAuth:   a.settings.CheckAuth == "token",
		Clients:     httpserver.ClientAddresses{Proxies: a.settings.TrustedProxies, Header: a.settings.ClientAddressHeader},
		SecretPaths: api.SecretPaths(),
		Logger:      a.log, Now: time.Now,
		Observe: a.observe,
	}
	// A browser that was led to this node by a foreign name refuses the certificate,
	// and no page can send a token.
	if hosts := &a.settings.AllowedHosts; !a.settings.AdminTLS.Enabled() {
		o.AdminHosts = hosts
	}
	if hosts := &a.settings.AllowedHosts; !a.settings.TLS.Enabled() && !o.CheckAuth {
		o.CheckHosts = hosts
	}
	return o
}

// logs are what a reset empties.
func (a *App) logs() []timestamplog.Log {
	if a.backends.local == nil {
		return []timestamplog.Log{savedLog{a.backends.log, a.saveSnapshot}}
	}
	return []timestamplog.Log{a.backends.log, a.backends.local}
}

// savedLog saves the snapshot with every reset: one that an operator was told
// of must not come undone with a crash.
type savedLog struct {
	timestamplog.Log
	save func()
}

// Reset forgets a log, on disk too.
func (l savedLog) Reset(ctx context.Context, ref timestamplog.LogID) (bool, error) {
	held, err := l.Log.Reset(ctx, ref)
	if err == nil && held {
		l.save()
	}
	return held, err
}

// prepare brings the schema up to date, seeds a new database and loads the
// catalog. With the shared database unreachable it starts from what the data
// directory holds, or else leaves the node not ready, and returns nil; Run goes
// on trying.
func (a *App) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	err := a.tryPrepare(ctx)
	if err == nil || a.backends.dir != nil || !isOutage(err) {
		return err
	}
	a.adoptLastKnown(err)
	return nil
}

func (a *App) tryPrepare(ctx context.Context) error {
	store := a.backends.store
	if err := store.Prepare(ctx); err != nil {
		return err
	}
	if dir := a.backends.dir; dir != nil {
		if err := dir.protect(); err != nil {
			return err
		}
	}
	if err := a.bootstrap(ctx, store); err != nil {
		return err
	}
	if err := a.catalog.Refresh(ctx); err != nil {
		return err
	}
	if dir := a.backends.dir; dir != nil {
		if err := dir.noteDatabase(); err != nil {
			return fmt.Errorf("--data-dir: %w", err)
		}
	}
	a.prepared.Store(true)
	return nil
}

// CheckAddr returns where checks are answered.
func (a *App) CheckAddr() net.Addr { return a.checks.Addr() }

// AdminAddr returns where operators are answered.
func (a *App) AdminAddr() net.Addr { return a.admin.Addr() }

// Run answers until ctx ends, then drains, flushes and returns nil. Another
// error is what made it stop by itself.
func (a *App) Run(ctx context.Context) error {
	defer a.close()
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var tasks sync.WaitGroup
	for _, task := range a.tasks() {
		tasks.Go(func() { supervise.Run(working, task.name, task.run) })
	}
	var serving sync.WaitGroup
	serve := func(name string, f func(net.Listener) error, l net.Listener) {
		serving.Go(func() {
			supervise.Run(working, name+" listener", func(context.Context) {
				if err := f(l); err != nil && !a.draining.Load() {
					stop(fmt.Errorf("the %s listener: %w", name, err))
				}
			})
		})
	}
	serve("check", a.server.CheckApp().Listener, a.checks)
	serve("admin", a.server.AdminApp().Listener, a.admin)
	a.announce()

	<-working.Done()
	a.drain()
	serving.Wait()
	stop(nil)
	tasks.Wait()
	a.flush()
	if cause := context.Cause(working); !errors.Is(cause, context.Canceled) && ctx.Err() == nil {
		return cause
	}
	return nil
}

// drain stops taking requests and gives open ones their time.
func (a *App) drain() {
	a.draining.Store(true)
	a.events.Close() // its streams would never end by themselves
	a.log.Info("draining")
	var apps sync.WaitGroup
	shutdown := func(name string, app *fiber.App) {
		apps.Go(func() {
			a.ended(name, supervise.Call("shutdown", func() error { return app.ShutdownWithTimeout(a.settings.DrainTimeout) }))
		})
	}
	shutdown("check", a.server.CheckApp())
	shutdown("admin", a.server.AdminApp())
	apps.Wait()
	// A server that had not begun to serve has nothing to shut down and would
	// begin now.
	a.closeListeners()
}

func (a *App) closeListeners() {
	for _, l := range []net.Listener{a.checks, a.admin} {
		if l != nil {
			l.Close()
		}
	}
}

func (a *App) ended(name string, err error) {
	if err != nil {
		a.log.Warn("requests were cut off", "listener", name, "error", err)
	}
}

// flush keeps what is only in memory.
func (a *App) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := a.flusher.Close(ctx); err != nil {
		a.log.Error("the last offences could not be written and are lost", "error", err)
	}
	if err := a.failed.Flush(ctx, a.backends.store); err != nil {
		a.log.Error("the last failed logins could not be recorded in the audit", "error", err)
	}
	_ = a.backends.store.DeleteNode(ctx, a.node) // else it is forgotten by its silence
	a.saveSnapshot()
	a.log.Info("stopped")
}

// close gives back what the node holds. It bears a node half built.
func (a *App) close() {
	a.closeListeners()
	if a.backends != nil {
		a.backends.close()
	}
}
