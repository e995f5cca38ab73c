package operations

import (
	"cmp"
	"context"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/wire"
)

// Jobs is the use case of showing and running the periodic jobs.
type Jobs struct {
	Runner   *jobs.Runner // nil on a node that runs no jobs
	Recorder audit.Recorder
	// MaxWait bounds how long Run waits for a job, so that a request does not wait for a client
	// that has disconnected; 0 means 20 s.
	MaxWait time.Duration
}

// WasRequested reports whether an operator triggered a run.
func WasRequested(r wire.JobRun) bool { return r.TriggeredBy == jobs.ByOperator }

// Available reports whether this node runs jobs.
func (j *Jobs) Available() bool { return j.Runner != nil }

const (
	// maxJobRun bounds a run that an operator requested. The command line waits one minute
	// longer.
	maxJobRun  = 15 * time.Minute
	maxJobWait = 20 * time.Second
)

var errNoJobs = fault.New(fault.NotFound, "This node runs no jobs.")

// List returns the jobs with their last runs.
func (j *Jobs) List(ctx context.Context, _ admin.Caller, _ wire.None) (page wire.Page[wire.Job], err error) {
	if j.Runner == nil {
		return page, errNoJobs
	}
	all, err := j.Runner.List(ctx)
	return wire.Whole(all), err
}

// Runs returns a page of the runs, the newest first.
func (j *Jobs) Runs(ctx context.Context, _ admin.Caller, f wire.RunList) (page wire.Page[wire.JobRun], err error) {
	if j.Runner == nil {
		return page, errNoJobs
	}
	return j.Runner.Runs(ctx, f)
}

// jobResult is the result of a requested run. err is set if the job did not run, and run.Error if
// it failed.
type jobResult struct {
	run *wire.JobRun
	err error
}

// AccessToRunJob returns the access that running the named job needs.
func AccessToRunJob(name string) identity.Access {
	if name == jobs.BackUpJob {
		return identity.Admin
	}
	return identity.Operate
}

// Run runs a job and returns its run when it has ended; an error means that it did not run. The
// request is recorded before the run begins. The run does not depend on the request: after
// MaxWait, Run returns it unfinished, or an error if it has not begun yet, and the job continues.
func (j *Jobs) Run(_ context.Context, by admin.Caller, r wire.ByName) (run wire.JobRun, err error) {
	if j.Runner == nil {
		return run, errNoJobs
	}
	if !by.May(AccessToRunJob(r.Name)) {
		return run, fault.New(fault.Forbidden, "Only admins run the job %s, which deletes the oldest backups.", r.Name)
	}
	waited := time.NewTimer(cmp.Or(j.MaxWait, maxJobWait))
	defer waited.Stop()
	begun, ended := j.start(by, r.Name)
	select {
	case result := <-ended:
		if result.run == nil {
			return run, result.err
		}
		return *result.run, result.err
	case <-waited.C:
	}
	select {
	case run := <-begun:
		return run, nil
	default: // the database has not responded yet
		return run, fault.New(fault.Unavailable, "The job has not begun yet; the list of its runs shows when it has.")
	}
}

// start starts a run. It sends the run when it has begun and the result when it has ended.
func (j *Jobs) start(by admin.Caller, name string) (<-chan wire.JobRun, <-chan jobResult) {
	record := func(ctx context.Context) error {
		return j.Recorder.AddRecord(ctx, audit.Record{
			Actor: by.Actor, Action: "job.run", Object: "job", ObjectID: name, Summary: "Ran the job " + name + ".",
		})
	}
	begun, ended := make(chan wire.JobRun, 1), make(chan jobResult, 1)
	go func() {
		err := supervise.Call("requested job", func() error {
			ctx, cancel := context.WithTimeout(context.Background(), maxJobRun)
			defer cancel()
			run, err := j.Runner.RunNow(ctx, name, jobs.Request{Record: record, Began: func(r wire.JobRun) { begun <- r }})
			ended <- jobResult{run, err}
			return nil
		})
		if err != nil { // a panic
			ended <- jobResult{err: fault.New(fault.Unavailable, "The job could not be run.")}
		}
	}()
	return begun, ended
}
