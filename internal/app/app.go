// Package app builds a node from its parts, starts it and stops it. It is the only
// package that chooses a backend.
package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/admin/sources"
	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/doors/forwardauth"
	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/geoip"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/machine"
	"github.com/stint-dev/stint/internal/metrics"
	"github.com/stint-dev/stint/internal/notify/egress"
	"github.com/stint-dev/stint/internal/openid"
	"github.com/stint-dev/stint/internal/presets"
	"github.com/stint-dev/stint/internal/proxies"
	"github.com/stint-dev/stint/internal/recorder"
	"github.com/stint-dev/stint/internal/redisconn"
	"github.com/stint-dev/stint/internal/reports"
	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/internal/tracing"
)

// flushTimeout bounds the time for writing what is only in memory during a stop. It comes after
// the time for open requests.
const flushTimeout = 10 * time.Second

// App is one node. See New.
type App struct {
	settings Settings
	id       string // unique to this run of the node
	log      *slog.Logger
	live     live
	out      io.Writer // for people, at the start
	stdout   io.Writer // standard output, which the event log may be written to

	backends  *backends
	catalog   *catalog.Catalog
	preparer  *preparer
	lastKnown *lastKnown  // nil when embedded: the database is in the same directory
	snapshots *snapshots  // nil when distributed
	watch     *redisWatch // nil when embedded
	outages   outageLog
	metrics   *metrics.Metrics
	tracer    *tracing.Tracer // nil without an endpoint for spans
	notifier  *notifier

	recorder  *recorder.Recorder
	flusher   *recorder.Flusher
	detection *admin.Detection
	attacks   *admin.AttackWatch
	entries   *admin.Entries
	bouncers  *admin.Bouncers
	sources   *sources.Sources
	lists     listMetrics
	reports   *reports.Builder
	jobs      *jobs.Runner
	events    *events.Hub
	follower  *events.Follower
	eventLog  *eventLog // nil without --event-log
	failed    identities.FailedLogins

	writes     *writeHealth
	backup     save             // the nightly backup; unused without --backup-dir
	saves      saves            // set by build
	openID     *openid.Provider // nil without OpenID
	gate       *gate.Gate
	crawlers   *bots.Verifier // nil without operators
	sites      *answers.Sites // nil if nothing is learned of what sites answer
	bots       *bots.Directory
	crowds     *proxies.Crowds
	botLists   *bots.Lists
	geo        *geoip.Follower
	names      *geoip.Names // nil if names are not looked up
	stopGeo    func()
	status     *status
	server     *httpserver.Server
	forward    *forwardauth.Door
	challenges *challenge.Service

	checks, admin net.Listener
	conns         connSets
	grpc          grpcDoor
	draining      atomic.Bool

	guests func(context.Context) // the clients of the demo; nil elsewhere
	greet  func()                // what the demo says besides, nil elsewhere
}

// New builds a node and binds its listeners, which answer after Run is called. It prints to out
// what the operator must know, and logs to logs. For a mistake in the settings or on this
// machine, its error is one line.
func New(ctx context.Context, s Settings, out, logs io.Writer) (*App, error) {
	a := &App{settings: s, id: s.NodeName + "-" + rand.Text()[:8], out: out, stdout: out}
	if s.EventLog.To.Stdout {
		a.out = logs // so that standard output has lines of JSON only
	}
	a.live.settings.Store(&s)
	a.log = a.live.newLogger(s, logs)
	a.live.log = a.log
	redisconn.LogTo(a.log)
	supervise.LogTo(a.log)
	if err := a.build(ctx); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *App) build(ctx context.Context) (err error) {
	a.outages.log = a.log
	refresh := func(ctx context.Context) error { return a.preparer.refresh(ctx) }
	a.metrics = a.newMetrics()
	a.outages.answered = a.metrics.ChecksAnswered
	if a.tracer, err = newTracer(ctx, a.settings, a.log); err != nil {
		return err
	}
	if a.backends, err = openBackends(a.settings, backendOptions{
		log: a.log, metrics: a.metrics, tracer: a.tracer, refresh: refresh, secret: a.secret,
		onOutage: a.outages.redis, onRequestError: a.outages.request,
		describe: describeLogs(func() *catalog.Catalog { return a.catalog }),
	}); err != nil {
		return err
	}
	if err := buildGeo(a); err != nil {
		return err
	}
	a.catalog = catalog.New(a.backends.store, time.Now)
	a.catalog.OnOutage(a.outages.database)
	a.catalog.OnChange(a.outages.changed)
	if a.notifier, err = newNotifier(a.settings, a.backends.store, a.log); err != nil {
		return err
	}
	a.catalog.OnChange(a.notifier.changed)
	if err := a.buildWatch(ctx); err != nil {
		return err
	}
	// Bind before a new database is seeded: if a port is in use, the credentials, which are
	// shown once, are not lost.
	if err := bindHTTP(a); err != nil {
		return err
	}
	if err := a.grpc.listen(a.settings, a.log); err != nil {
		return err
	}
	if err := a.buildPreparer(ctx); err != nil {
		return err
	}
	registerMetrics(a)
	a.buildCounting()
	a.bouncers = &admin.Bouncers{Store: a.backends.store.Bouncers, Entries: a.backends.store.Entries, View: a.catalog, Now: time.Now}
	a.events = events.New(events.Options{Parser: a.catalog.Parser, OmitPaths: !a.settings.RecordPaths})
	a.follower = events.NewFollower(a.events, a.backends.store.Audit)
	a.catalog.OnChange(a.follower.Changed)
	if err := a.buildEventLog(); err != nil {
		return err
	}
	a.buildSources()
	a.botLists = botListsOf(a.settings)
	if a.jobs, err = a.newJobs(); err != nil {
		return err
	}
	a.crawlers = bots.New(bots.Options{
		Operators: a.settings.VerifiedCrawlers, File: filepath.Join(a.settings.DataDir, "crawlers.json"), Log: a.log, Store: a.backends.store.Crawlers, AwaitStore: a.preparer.wait,
	})
	a.buildBots()
	a.buildSites()
	if err := a.metrics.LoadHolds(a.holdsFile()); err != nil {
		a.log.Warn("the counts of open holds cannot be read and begin at zero", "error", err)
	}
	a.gate = newGate(a, a.settings.CheckDeadline, false)
	challenges := a.settings.Challenge
	challenges.Secret = func() []byte { return a.catalog.Settings().Secret }
	challenges.Captcha.Client = egress.New(egress.Options{AllowPrivate: a.settings.Notify.AllowPrivate, Timeout: captchaTimeout})
	challenges.Captcha.IsOurs, challenges.Captcha.Spend, challenges.Captcha.Log = a.settings.SiteHosts.Lists, a.spend, a.log
	challenges.Earn = func(ctx context.Context, address netip.Addr, name string) (string, bool) {
		earned := a.gate.Earn(ctx, a.catalog.Parser().AddressKey(address), name, challenges.Passes)
		return earned.Shared, earned.IsFirst
	}
	challenges.Observe = a.metrics.CountChallenge
	a.challenges = challenge.New(challenges)
	if err := a.grpc.build(a); err != nil {
		return err
	}
	a.writes = &writeHealth{log: a.log}
	a.listSaves()
	a.status = &status{
		node: a.settings.NodeName, backends: a.backends, watch: a.watch, catalog: a.catalog, gate: a.gate,
		flusher: a.flusher, jobs: a.jobs, redisTimeout: a.settings.ReadyRedisTimeout, draining: &a.draining, geo: a.geo, writes: a.writes, saves: a.saves,
	}
	a.openID = openid.New(openid.Options{Settings: a.settings.OpenID, Secret: a.secret, Log: a.log, Now: time.Now})
	a.server, err = a.newServer()
	return err
}

// captchaTimeout bounds how long the answer of a captcha is verified.
const captchaTimeout = 5 * time.Second

// spend reports whether the answer of a captcha was not taken before.
func (a *App) spend(ctx context.Context, name string) bool { return a.gate.Spend(ctx, name) }

// listSaves lists what this node saves periodically.
func (a *App) listSaves() {
	if a.snapshots != nil {
		a.saves.add(&a.snapshots.result)
	}
	if a.lastKnown != nil {
		a.saves.add(&a.lastKnown.result)
	}
	if disabledJobs(a.settings)[jobs.BackUpJob] == "" {
		a.backup.name, a.backup.what = "backup", "The nightly backup"
		if last := jobs.LastBackup(a.settings.BackupDir, a.settings.NodeName); !last.IsZero() {
			a.backup.done(last, nil)
		}
		a.saves.add(&a.backup)
	}
	a.saves = append(a.saves, saveReader{"offences", "What was counted", written, func() saveState {
		s := a.flusher.Stats()
		if s.Failing != nil && time.Since(s.Since) < maxCountDelay {
			s.Failing, s.Since = nil, time.Time{} // the database is slow for a moment
		}
		return saveState{good: s.LastSuccess, err: s.Failing, since: s.Since}
	}})
	if a.eventLog != nil {
		a.saves = append(a.saves, a.eventLog.save())
	}
	a.saves = append(a.saves, saveReader{"notifications", "A message to a notification channel", sent, a.notifier.sends})
	a.metrics.Registry().MustRegister(a.saves)
}

// bindHTTP reads the certificates and binds the listeners of HTTP.
func bindHTTP(a *App) (err error) {
	if a.live.checkCert, err = newCertificate("listen", a.settings.TLS); err != nil {
		return err
	}
	if a.live.adminCert, err = newCertificate("admin-listen", a.settings.AdminTLS); err != nil {
		return err
	}
	a.live.checkCert.warn(a.log, time.Now())
	a.live.adminCert.warn(a.log, time.Now())
	a.conns = newConnSets(machine.MaxFiles(), machine.Memory())
	if a.checks, err = listen("listen", a.settings.Listen, a.live.checkCert, a.conns.checks, a.log); err != nil {
		return err
	}
	a.admin, err = listen("admin-listen", a.settings.AdminListen, a.live.adminCert, a.conns.admin, a.log)
	return err
}

// buildGeo reads the files with the origins of addresses.
func buildGeo(a *App) error {
	files, err := geoip.Open(a.settings.GeoIPDir)
	if err != nil {
		return fmt.Errorf("--geoip-dir: %w", err)
	}
	a.geo = &geoip.Follower{
		Database: files, Log: a.log, Notify: func(ctx context.Context, trouble bool, subject, text string) {
			a.notifier.geo(ctx, trouble, subject, text)
		},
		Patterns: func() keys.OriginCount { return a.catalog.Blocks().Origins().Plus(a.catalog.Selector().Origins()) },
	}
	a.stopGeo = a.geo.Select()
	if a.settings.ReverseDNS {
		a.names = geoip.NewNames(nil, time.Now)
	}
	return nil
}

// buildWatch checks Redis before anything else uses it.
func (a *App) buildWatch(ctx context.Context) error {
	if a.backends.redis == nil {
		return nil
	}
	a.watch = &redisWatch{
		redis: a.backends.redis, options: redislog.CheckOptions{AllowEviction: a.settings.AllowRedisEviction},
		log: a.log, node: a.settings.NodeName, notify: a.notifier.notify, now: time.Now,
	}
	return a.watch.start(ctx)
}

// buildPreparer prepares the database and the files that the node saves in its directory.
func (a *App) buildPreparer(ctx context.Context) error {
	if dir := a.backends.dir; dir != nil {
		a.snapshots = &snapshots{result: save{name: "snapshot", what: "The snapshot of the logs"}, memory: a.backends.memory, path: dir.snapshot(), log: a.log}
	} else {
		a.lastKnown = newLastKnown(a.settings.DataDir, a.backends.store.Place(), a.log)
		a.catalog.OnChange(func(catalog.Changed) { a.lastKnown.changed() })
	}
	a.backends.store.FirstPolicies = a.settings.Presets.Policies()
	a.preparer = &preparer{
		store: a.backends.store, dir: a.backends.dir, catalog: a.catalog, lastKnown: a.lastKnown, log: a.log,
		first: firstStart{token: a.settings.AdminToken, password: a.settings.AdminPassword, out: a.out},
	}
	return a.preparer.start(ctx)
}

// CheckAddr returns the address that answers checks.
func (a *App) CheckAddr() net.Addr { return a.checks.Addr() }

// AdminAddr returns the address of the admin API and the pages.
func (a *App) AdminAddr() net.Addr { return a.admin.Addr() }

// Run answers until ctx ends, then drains, flushes and returns nil. It returns an
// error if the node stopped for another reason, or if something could not be saved.
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
	serve("check", a.server.CheckApp().Listener, a.server.CheckListener(a.checks))
	serve("admin", a.server.AdminApp().Listener, a.admin)
	if a.grpc.listener != nil {
		serve("gRPC", a.grpc.server.Serve, a.grpc.listener)
	}
	a.announce()

	<-working.Done()
	a.drain()
	serving.Wait()
	stop(nil)
	tasks.Wait()
	lost := a.flush()
	if cause := context.Cause(working); !errors.Is(cause, context.Canceled) && ctx.Err() == nil {
		return errors.Join(cause, lost)
	}
	return lost
}

// announce prints the addresses of the node and where its data is, in one write, so that a
// program that reads the first line can read the others too.
func (a *App) announce() {
	text := fmt.Appendf(nil, "Stint %s is running.\n  checks  %s  POST /v1/check\n  admin   %s  pages, to open in a browser, and API\n",
		buildinfo.Read().Version, urlOf(a.settings.TLS, a.checks), urlOf(a.settings.AdminTLS, a.admin))
	if l := a.grpc.listener; l != nil {
		text = fmt.Appendf(text, "  grpc    %s  Envoy's services\n", l.Addr())
	}
	if a.backends.dir != nil {
		text = fmt.Appendf(text, "  data    %s\n", a.backends.dir.path)
	} else {
		text = fmt.Appendf(text, "  data    %s and %s\n", redact(a.settings.RedisURL), redact(a.settings.DatabaseURL))
	}
	_, _ = a.out.Write(text)
	if a.greet != nil {
		a.greet()
	}
	if question := presets.Ask(a.catalog.Selector()); question != nil {
		a.log.Warn(question.String())
	}
}

// drain accepts no more requests and waits for the open ones.
func (a *App) drain() {
	a.draining.Store(true)
	a.events.Close() // event streams do not end by themselves
	a.log.Info("draining")
	var apps sync.WaitGroup
	shutdown := func(name string, app *fiber.App) {
		apps.Go(func() {
			err := supervise.Call("shutdown", func() error { return app.ShutdownWithTimeout(a.settings.DrainTimeout) })
			if err != nil {
				a.log.Warn("requests were cut off", "listener", name, "error", err)
			}
		})
	}
	shutdown("check", a.server.CheckApp())
	shutdown("admin", a.server.AdminApp())
	if a.grpc.server != nil {
		apps.Go(func() {
			supervise.Do("shutdown", func() {
				if !a.grpc.server.Stop(a.settings.DrainTimeout) {
					a.log.Warn("calls were cut off", "listener", "gRPC")
				}
			})
		})
	}
	apps.Wait()
	// A server that has not started to serve cannot be shut down, and would otherwise start
	// now.
	a.closeListeners()
}

func (a *App) closeListeners() {
	for _, l := range []net.Listener{a.checks, a.admin, a.grpc.listener} {
		if l != nil {
			l.Close()
		}
	}
}

// holdsFile is where the counts of open holds are kept from one run to the next.
func (a *App) holdsFile() string { return filepath.Join(a.settings.DataDir, "holds.json") }

// flush writes what is only in memory. Its error says what is lost.
func (a *App) flush() error {
	var lost []error
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := a.flusher.Close(ctx); err != nil {
		a.log.Error("the last offences could not be written and are lost", "error", err)
		lost = append(lost, fmt.Errorf("the last offences are lost: %s", oneLine(err)))
	}
	if err := a.failed.Flush(ctx, a.backends.store.Audit); err != nil {
		a.log.Error("the last failed logins could not be recorded in the audit", "error", err)
		lost = append(lost, fmt.Errorf("the audit lacks the last failed logins: %s", oneLine(err)))
	}
	_ = a.backends.store.Nodes.DeleteNode(ctx, a.id) // otherwise it disappears when its heartbeat stops
	if a.snapshots != nil {
		if err := a.snapshots.saveLast(); err != nil {
			lost = append(lost, fmt.Errorf("the logs could not be saved, so that the next start forgets what was counted since the last snapshot: %s", oneLine(err)))
		}
	}
	if err := a.metrics.SaveHolds(a.holdsFile()); err != nil {
		a.log.Warn("the counts of open holds cannot be written and begin at zero", "error", err)
	}
	if a.lastKnown != nil {
		if err := a.lastKnown.result.read().err; err != nil {
			lost = append(lost, fmt.Errorf("the last known policies and blocks are not saved: %s", oneLine(err)))
		}
	}
	if err := a.eventLog.close(ctx); err != nil {
		a.log.Error("the last events could not be written to the event log and are lost", "error", err)
		lost = append(lost, fmt.Errorf("the event log lacks the last events: %s", oneLine(err)))
	}
	if err := a.tracer.Close(ctx); err != nil {
		a.log.Warn("the last spans could not be sent", "error", err)
	}
	a.log.Info("stopped")
	return errors.Join(lost...)
}

// close releases the listeners and the backends. It is safe on a partly built node.
func (a *App) close() {
	a.closeListeners()
	if a.stopGeo != nil {
		a.stopGeo()
	}
	if a.backends != nil {
		a.backends.close()
	}
}
