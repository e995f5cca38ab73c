package operations

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/supervise"
)

// Jobs is the use case of showing and running the periodic jobs.
type Jobs struct {
	Runner   *jobs.Runner // nil on a node that runs no jobs
	Recorder audit.Recorder
}

// Job is a job with its newest run, and JobRun is one run.
type (
	Job    = jobs.Status
	JobRun = jobs.Run
)

// WasRequested reports whether an operator triggered a run.
func WasRequested(r *JobRun) bool { return r.TriggeredBy == jobs.ByOperator }

// Available reports whether this node runs jobs.
func (j *Jobs) Available() bool { return j.Runner != nil }

// maxJobRun is the maximum duration of a run that an operator requested.
const maxJobRun = 15 * time.Minute

var errNoJobs = fault.New(fault.NotFound, "This node runs no jobs.")

// List returns the jobs with their last runs.
func (j *Jobs) List(ctx context.Context) ([]Job, error) {
	if j.Runner == nil {
		return nil, errNoJobs
	}
	return j.Runner.List(ctx)
}

// Runs returns the newest runs of a job, or of all jobs if the name is empty.
func (j *Jobs) Runs(ctx context.Context, job string, limit int) ([]*JobRun, error) {
	if j.Runner == nil {
		return nil, errNoJobs
	}
	return j.Runner.Runs(ctx, job, limit)
}

// JobResult is the end of a requested run. Err is set if the job did not run, and Run.Err
// if it failed.
type JobResult struct {
	Run *JobRun
	Err error
}

// AccessToRunJob returns the access that running a job of a name needs.
func AccessToRunJob(name string) identity.Access {
	if name == jobs.BackUpJob {
		return identity.Admin
	}
	return identity.Operate
}

// Start starts a run of a job and sends its result when it has ended. The run is recorded
// before it begins, and does not depend on a request.
func (j *Jobs) Start(by admin.Caller, name string) (<-chan JobResult, error) {
	if j.Runner == nil {
		return nil, errNoJobs
	}
	if !by.May(AccessToRunJob(name)) {
		return nil, fault.New(fault.Forbidden, "Only admins run the job %s, which deletes the oldest backups.", name)
	}
	record := func(ctx context.Context) error {
		return j.Recorder.AddRecord(ctx, audit.Record{
			Actor: by.Actor, Action: "job.run", Object: "job", ObjectID: name, Summary: "Ran the job " + name + ".",
		})
	}
	ended := make(chan JobResult, 1)
	go func() {
		err := supervise.Call("requested job", func() error {
			ctx, cancel := context.WithTimeout(context.Background(), maxJobRun)
			defer cancel()
			run, err := j.Runner.RunNow(ctx, name, record)
			ended <- JobResult{run, err}
			return nil
		})
		if err != nil { // a panic
			ended <- JobResult{Err: fault.New(fault.Unavailable, "The job could not be run.")}
		}
	}()
	return ended, nil
}
