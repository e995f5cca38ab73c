package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/stint-dev/stint/internal/wire"
)

// Jobs shows and runs the periodic jobs.
type Jobs struct{ conn *conn }

// List returns the jobs.
func (j Jobs) List(ctx context.Context) ([]wire.Job, error) {
	return items[wire.Job](ctx, j.conn, get(wire.PathJobs))
}

// Runs returns the newest runs of a job, or of all jobs if the name is empty.
func (j Jobs) Runs(ctx context.Context, job string, limit int) ([]wire.JobRun, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if job != "" {
		query.Set("job", job)
	}
	return items[wire.JobRun](ctx, j.conn, get(wire.PathJobs+"/runs").with(query))
}

// Run runs a job now and returns when it has ended.
func (j Jobs) Run(ctx context.Context, job string) (*wire.JobRun, error) {
	r := post(wire.PathJobs+"/"+url.PathEscape(job)+"/run", nil)
	r.slow = true
	return call[wire.JobRun](ctx, j.conn, r)
}
