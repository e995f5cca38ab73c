package app

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/bouncers"
	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/nodes"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/reports"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/supervise"
)

// The intervals of the periodic tasks.
const (
	snapshotInterval = 5 * time.Second
	sweepInterval    = 30 * time.Second
	clockInterval    = 10 * time.Minute
	// settlingTime is how long after its preparation a node returns the memory of its start to
	// the machine: above all that of hashing a password, which takes 19 MiB, and that of the
	// rows of the database. An idle node would collect it only after minutes, and return it
	// after many more.
	settlingTime = 5 * time.Second
	// countsInterval is how often the offences of the pages' default view are loaded into
	// memory.
	countsInterval = 5 * time.Minute
	// backlogInterval is how often the notifications that wait are counted.
	backlogInterval = 15 * time.Second
	// certificateInterval is how often the files of certificates are read, and the files of
	// origins are checked for changes.
	certificateInterval = 10 * time.Second
	// sourcesInterval is how often the state of the sources is read for the metrics.
	sourcesInterval = time.Minute
	// failedLoginInterval is how often failed logins are written to the audit log. It bounds
	// the number of records.
	failedLoginInterval = time.Minute
)

// task runs concurrently with the server until the context of run ends. It is restarted after a
// panic.
type task struct {
	name string // a label of a metric
	run  func(context.Context)
}

// tasks returns all tasks of the node.
func (a *App) tasks() []task {
	tasks := []task{
		{"preparing", a.preparer.run},
		{"catalog", a.catalog.Run},
		{"server", a.server.Run},
		{"notifications", a.notifier.run},
		{"flusher", a.flusher.Run},
		{"jobs", func(ctx context.Context) {
			a.preparer.wait(ctx)
			a.jobs.Run(ctx)
		}},
		{"follower of changes", a.follower.Run},
		{"crawlers", a.crawlers.Run},
		{"answers of sites", a.sites.Run},
		{"keys of bots", a.fetchBotKeys},
		{"lists of bots", every(time.Minute, func(context.Context) { a.botLists.Reread() })},
		{"reverse DNS", a.names.Run},
		{"OpenID provider", a.openID.Run},
		{"heartbeat", (&heartbeat{
			store: a.backends.store.Nodes, node: nodes.Node{ID: a.id, Name: a.settings.NodeName, Version: buildinfo.Read().Version},
			checks: a.metrics.CheckReader(), prepared: a.preparer.done.Load, degraded: a.status.degraded, revision: a.catalog.Revision,
			memory: a.backends.memory.Memory, writes: a.writes,
		}).run},
		{"outage watcher", watchOutages(a.settings.NodeName, a.gate, a.catalog, a.writes, a.notifier)},
		{"attack watch", func(ctx context.Context) {
			a.preparer.wait(ctx)
			every(admin.AttackLookInterval, func(ctx context.Context) {
				if err := a.attacks.Look(ctx); err != nil && ctx.Err() == nil {
					a.log.Debug("whether there is an attack is not known", "error", err) // the outage of the database is reported
				}
			})(ctx)
		}},
		{"lost logs", func(ctx context.Context) {
			a.preparer.wait(ctx)
			if a.backends.lostLogs != "" && ctx.Err() == nil {
				a.notifier.notify(ctx, notify.Notification{Kind: notify.Outage, Subject: "Node " + a.settings.NodeName + " started without its logs",
					Text: a.backends.lostLogs + " Limits may have been exceeded.", Facts: map[string]string{"node": a.settings.NodeName}})
			}
		}},
		{"backlog of notifications", func(ctx context.Context) {
			a.preparer.wait(ctx)
			every(backlogInterval, a.notifier.measure)(ctx)
		}},
		{"watch of the saves", a.saves.watch(a.notifier)},
		{"first clock check", a.checkClocks},
		{"start's memory", func(ctx context.Context) {
			a.preparer.wait(ctx)
			if supervise.Sleep(ctx, settlingTime) == nil {
				debug.FreeOSMemory()
			}
		}},
		{"counts in memory", func(ctx context.Context) {
			a.preparer.wait(ctx)
			for ; ctx.Err() == nil; _ = supervise.Sleep(ctx, countsInterval) {
				// On an error, a page reads the rows itself.
				_ = a.backends.store.Offences.WarmCache(db.AllowLong(ctx), time.Now())
			}
		}},
		{"sweeper", every(sweepInterval, func(context.Context) {
			a.backends.memory.Sweep()
			a.catalog.Blocks().Sweep(time.Now())
		})},
		{"failed logins", every(failedLoginInterval, func(ctx context.Context) {
			if err := a.failed.Flush(ctx, a.backends.store.Audit); err != nil {
				a.log.Warn("failed logins could not be recorded in the audit yet", "error", err)
			}
		})},
		{"clock checks", every(clockInterval, a.checkClocks)},
		{"forgotten nodes", every(clockInterval, func(ctx context.Context) {
			_, _ = a.backends.store.Nodes.DeleteNodes(ctx, time.Now().Add(-time.Hour)) // they are no longer shown anyway
		})},
		{"forgotten bouncers", every(clockInterval, func(ctx context.Context) {
			_, _ = a.backends.store.Bouncers.DeleteBouncers(ctx, time.Now().Add(-bouncers.Gone)) // they are no longer shown anyway
		})},
		{"sources", func(ctx context.Context) {
			a.preparer.wait(ctx)
			every(sourcesInterval, a.lists.read)(ctx)
		}},
		{"certificates", every(certificateInterval, a.live.followCertificates)},
		{"GeoIP files", every(certificateInterval, a.geo.Follow)},
		{"catalog listener", func(ctx context.Context) { a.backends.store.Listen(ctx, a.catalog.Wake) }},
	}
	tasks = append(tasks, a.eventLog.tasks(a.preparer.wait)...)
	if a.watch != nil {
		tasks = append(tasks, task{"redis watcher", a.watch.run})
	}
	if cache := a.backends.refusals; cache != nil {
		tasks = append(tasks, task{"refusal cache", func(ctx context.Context) { a.backends.redis.WatchResets(ctx, cache.Forget, cache.ForgetAll) }})
	}
	if a.lastKnown != nil {
		tasks = append(tasks, task{"last known", func(ctx context.Context) { a.lastKnown.keep(ctx, a.catalog) }})
	}
	if a.snapshots != nil {
		tasks = append(tasks, task{"snapshots", every(snapshotInterval, func(context.Context) { a.snapshots.save() })})
	}
	if a.guests != nil {
		tasks = append(tasks, task{"clients of the demo", a.guests})
	}
	return tasks
}

// newJobs returns every job, in the order that the pages show.
func (a *App) newJobs() (*jobs.Runner, error) {
	store := a.backends.store
	list := []jobs.Job{
		jobs.RollUp(store.Offences, time.Now),
		jobs.Propose(a.detection.Proposals, a.notifier.proposal),
		jobs.CheckCounters(a.flusher.Stats, time.Now),
		jobs.WriteReport(reports.Daily, "5 0 * * *", a.reports, a.notifier.report),
		jobs.WriteReport(reports.Weekly, "10 0 * * 1", a.reports, a.notifier.report),
		jobs.EndExpired(store.Entries, time.Now),
		jobs.ExpireSessions(store.Identities, time.Now),
		jobs.DeletePast(store.Retention, a.settings.KeepAudit, time.Now),
		jobs.DeleteCounts(store.Offences, a.settings.Counts, func() map[int64]time.Duration { return offences.DecaysOf(a.catalog.Selector().Policies()) }, time.Now),
		jobs.PullSources(a.sources.PullDue),
		jobs.PullBots(a.botLists.Pull),
	}
	disabled := disabledJobs(a.settings)
	if disabled[jobs.BackUpJob] == "" {
		list = append(list, jobs.BackUp(newBackups(a), a.settings.NodeName, a.settings.BackupDir, a.settings.BackupKeep))
	}
	for i := range list {
		run := list[i].Run
		name := list[i].Name
		a.metrics.KnowJob(name)
		list[i].Run = func(ctx context.Context, due time.Time) (string, error) {
			ctx, span := a.tracer.Job(ctx, name)
			did, err := run(db.AllowLong(ctx), due)
			span.End(err)
			a.metrics.JobRun(name, time.Now(), err == nil)
			if name == jobs.BackUpJob {
				a.backup.done(time.Now(), err)
			}
			return did, err
		}
	}
	var databaseNow func(context.Context) (time.Time, error)
	if a.backends.dir == nil { // an embedded database uses this machine's clock
		databaseNow = store.Now
	}
	return jobs.New(jobs.Options{
		Store: store.Jobs, Node: a.id, DatabaseNow: databaseNow, Log: a.log, Schedules: a.settings.Schedules, Disabled: disabled, OnFailure: a.notifier.failedJob,
	}, list...)
}

// disabledJobs returns the reason for each job that the settings leave out.
func disabledJobs(s Settings) map[string]string {
	switch {
	case !s.Embedded():
		return map[string]string{jobs.BackUpJob: "its data is in Redis and Postgres, which have backups of their own"}
	case s.BackupDir == "":
		return map[string]string{jobs.BackUpJob: "--backup-dir names the folder that it writes to, and is not set"}
	}
	return nil
}

// checkClocks warns if the clocks of a distributed node disagree.
func (a *App) checkClocks(ctx context.Context) {
	if a.backends.dir != nil { // both are on this machine
		return
	}
	warnOfSkew(ctx, a.log, clock{"the database", a.backends.store.Now}, clock{"Redis", a.backends.log.Now})
}

// every returns a function that calls do at an interval until its context ends.
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
