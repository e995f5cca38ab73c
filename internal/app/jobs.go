package app

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/reports"
	"github.com/stint-dev/stint/internal/sqlstore"
)

// newJobs lists every job, in the order that the pages show.
func (a *App) newJobs() (*jobs.Runner, error) {
	store := a.backends.store
	list := []jobs.Job{
		jobs.RollUp(store, time.Now),
		jobs.Propose(a.offenders, a.tellOfProposal),
		jobs.CheckCounters(a.flusher.Stats, time.Now),
		jobs.WriteReport(reports.Daily, "5 0 * * *", a.reports, a.tellOfReport),
		jobs.WriteReport(reports.Weekly, "10 0 * * 1", a.reports, a.tellOfReport),
		jobs.EndExpired(store, time.Now),
		jobs.ExpireSessions(store, time.Now),
		jobs.DeletePast(store, jobs.Retention{
			Audit: a.settings.KeepAudit, Blocks: a.settings.KeepAudit, Tokens: a.settings.KeepAudit,
			Runs: a.settings.KeepAudit, Notifications: a.settings.KeepAudit,
		}, time.Now),
		jobs.DeleteCounts(store, a.settings.Counts, time.Now),
	}
	for i := range list {
		run := list[i].Run
		list[i].Run = func(ctx context.Context, due time.Time) (string, error) { return run(sqlstore.AllowLong(ctx), due) }
	}
	return jobs.New(jobs.Options{
		Store: store, Node: a.node, Log: a.log, Schedules: a.settings.Schedules, OnFailure: a.tellOfJob,
	}, list...)
}

func (a *App) tellOfJob(ctx context.Context, r jobs.Run) {
	a.tell(ctx, notify.Notification{Kind: notify.JobFailed, At: r.Finished, Subject: "The job " + r.Job + " failed",
		Text: r.Err, Facts: map[string]string{"job": r.Job, "node": r.Node}})
}
