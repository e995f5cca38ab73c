package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/wire"
)

// Jobs shows and runs the periodic jobs.
type Jobs struct{ conn *conn }

// List returns the jobs.
func (j Jobs) List(ctx context.Context) ([]wire.Job, error) {
	return items[wire.Job](ctx, j.conn, get(wire.PathJobs))
}

// Runs returns the runs of a job, or of all jobs if the name is empty, newest first, at most
// limit, all for 0.
func (j Jobs) Runs(ctx context.Context, job string, limit int) (Listing[wire.JobRun], error) {
	return list[wire.JobRun](ctx, j.conn, wire.PathJobs+"/runs", param("job", job), limit)
}

const (
	// pollRuns is how often Run checks whether a job has ended.
	pollRuns = time.Second
	// maxRunsBehind bounds the later runs of a job among which Run searches for its own.
	maxRunsBehind = 100
	// maxRun is how long Run waits: the server stops a run after 15 minutes.
	maxRun = 16 * time.Minute
)

// Run runs a job now and returns when it has ended. If its node died, the error says so.
func (j Jobs) Run(ctx context.Context, job string) (*wire.JobRun, error) {
	run, err := call[wire.JobRun](ctx, j.conn, post(wire.PathJobs+"/"+url.PathEscape(job)+"/run", nil))
	until := time.Now().Add(maxRun)
	for err == nil && run.FinishedAt.IsZero() { // the server responds before a long job has ended
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pollRuns):
		}
		var newest Listing[wire.JobRun]
		if newest, err = j.Runs(ctx, job, maxRunsBehind); err != nil {
			break
		}
		at := slices.IndexFunc(newest.Items, func(r wire.JobRun) bool { return r.ID == run.ID })
		if at < 0 {
			return nil, fmt.Errorf("the server no longer lists the run of the job %s; it may still be running", job)
		}
		run = &newest.Items[at]
		// Another node may run the job at the same time, if the job is PerNode.
		isReplaced := slices.ContainsFunc(newest.Items, func(r wire.JobRun) bool { return r.ID > run.ID && r.Node == run.Node })
		if run.FinishedAt.IsZero() && (isReplaced || time.Now().After(until)) {
			return nil, errors.New("the run did not end; its node may have stopped")
		}
	}
	return run, err
}
