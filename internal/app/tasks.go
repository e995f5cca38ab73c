package app

import (
	"context"
	"fmt"
	"time"
)

// How often a node looks after itself.
const (
	snapshotInterval = 5 * time.Second
	sweepInterval    = 30 * time.Second
	clockInterval    = 10 * time.Minute
	retryInterval    = time.Second
	// failedLoginInterval is how soon the audit tells of logins that failed. It
	// bounds how many records they make.
	failedLoginInterval = time.Minute
)

// task is what a node does beside answering, until the context of run ends. It
// is begun again after a panic.
type task struct {
	name string // a label of a metric
	run  func(context.Context)
}

// tasks returns all of them.
func (a *App) tasks() []task {
	tasks := []task{
		{"preparing", a.keepPreparing},
		{"catalog", a.catalog.Run},
		{"server", a.server.Run},
		{"notifications", a.notifier.Run},
		{"flusher", a.flusher.Run},
		{"jobs", a.runJobs},
		{"follower of changes", a.follower.Run},
		{"heartbeat", a.beat},
		{"outage watcher", a.watchOutages()},
		{"first clock check", a.checkClocks},
		{"sweeper", every(sweepInterval, func(context.Context) {
			a.backends.memory.Sweep()
			a.catalog.Blocks().Sweep(time.Now())
		})},
		{"failed logins", every(failedLoginInterval, func(ctx context.Context) {
			if err := a.failed.Flush(ctx, a.backends.store); err != nil {
				a.log.Warn("failed logins could not be recorded in the audit yet", "error", err)
			}
		})},
		{"clock checks", every(clockInterval, a.checkClocks)},
		{"forgotten nodes", every(clockInterval, func(ctx context.Context) {
			_, _ = a.backends.store.DeleteNodes(ctx, time.Now().Add(-time.Hour)) // they are shown no more anyway
		})},
		{"catalog listener", func(ctx context.Context) { a.backends.store.Listen(ctx, a.catalog.Wake) }},
	}
	if a.watch != nil {
		tasks = append(tasks, task{"redis watcher", a.watch.run})
	}
	if known := a.backends.refusals; known != nil {
		tasks = append(tasks, task{"refusal memory", func(ctx context.Context) { a.backends.redis.WatchResets(ctx, known.Forget, known.ForgetAll) }})
	}
	if a.lastKnown != nil {
		tasks = append(tasks, task{"last known", func(ctx context.Context) { a.lastKnown.keep(ctx, a.catalog) }})
	}
	if a.backends.dir != nil {
		tasks = append(tasks, task{"snapshots", every(snapshotInterval, func(context.Context) { a.saveSnapshot() })})
	}
	return tasks
}

func every(interval time.Duration, do func(context.Context)) func(context.Context) {
	return func(ctx context.Context) {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				do(ctx)
			}
		}
	}
}

// keepPreparing goes on with what the start could not do because the database
// was unreachable.
func (a *App) keepPreparing(ctx context.Context) {
	for !a.prepared.Load() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryInterval):
		}
		attempt, cancel := context.WithTimeout(ctx, prepareTimeout)
		err := a.tryPrepare(attempt)
		cancel()
		if err == nil {
			a.log.Info("the database is there; this node is ready")
		} else if !isOutage(err) && ctx.Err() == nil {
			a.log.Error("the database is there and cannot be used", "error", err)
		}
	}
}

// runJobs waits until the database has its tables.
func (a *App) runJobs(ctx context.Context) {
	for !a.prepared.Load() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryInterval):
		}
	}
	a.jobs.Run(ctx)
}

func (a *App) checkClocks(ctx context.Context) {
	if a.backends.dir != nil { // one machine has one clock
		return
	}
	warnOfSkew(ctx, a.log, clock{"the database", a.backends.store.Now}, clock{"Redis", a.backends.log.Now})
}

func (a *App) saveSnapshot() {
	if a.backends.dir == nil {
		return
	}
	a.saving.Lock()
	defer a.saving.Unlock()
	if err := a.backends.memory.SaveFile(a.backends.dir.snapshot()); err != nil {
		a.log.Error("the logs could not be saved; a restart now would forget them", "error", err)
	}
}

// announce tells people where everything is.
func (a *App) announce() {
	scheme := func(t TLSFiles) string {
		if t.Enabled() {
			return "https"
		}
		return "http"
	}
	fmt.Fprintf(a.out, "Stint %s is running.\n  checks  %s://%s  POST /v1/check\n  admin   %s://%s  pages and API\n",
		Version(), scheme(a.settings.TLS), a.CheckAddr(), scheme(a.settings.AdminTLS), a.AdminAddr())
	if a.backends.dir != nil {
		fmt.Fprintf(a.out, "  data    %s\n", a.backends.dir.path)
	} else {
		fmt.Fprintf(a.out, "  data    %s and %s\n", redact(a.settings.RedisURL), redact(a.settings.DatabaseURL))
	}
}
