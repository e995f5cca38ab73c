package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/wire"
)

const (
	// pollRuns is how often RunJob checks whether a job has ended.
	pollRuns = time.Second
	// maxRunsBehind bounds the later runs of a job among which RunJob searches for its own.
	maxRunsBehind = 100
	// maxRun is how long RunJob waits: the server stops a run after 15 minutes.
	maxRun = 16 * time.Minute
)

// RunJob runs a job now and returns when it has ended. If its node died, the error says so.
func RunJob(ctx context.Context, c *Client, job string) (wire.JobRun, error) {
	run, err := Call(ctx, c, wire.RunJob, wire.ByName{Name: job})
	until := time.Now().Add(maxRun)
	for err == nil && run.IsUnfinished() { // the server responds before a long job has ended
		select {
		case <-ctx.Done():
			return run, context.Cause(ctx)
		case <-time.After(pollRuns):
		}
		var newest Listing[wire.JobRun]
		if newest, err = Pages(ctx, c, wire.ListRuns, wire.RunList{Job: job}, maxRunsBehind); err != nil {
			break
		}
		at := slices.IndexFunc(newest.Items, func(r wire.JobRun) bool { return r.ID == run.ID })
		if at < 0 {
			return run, fmt.Errorf("the server no longer lists the run of the job %s; it may still be running", job)
		}
		run = newest.Items[at]
		// Another node may run the job at the same time, if the job is PerNode.
		isReplaced := slices.ContainsFunc(newest.Items, func(r wire.JobRun) bool { return r.ID > run.ID && r.Node == run.Node })
		if run.IsUnfinished() && (isReplaced || time.Now().After(until)) {
			return run, errors.New("the run did not end; its node may have stopped")
		}
	}
	return run, err
}
