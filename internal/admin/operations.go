package admin

import (
	"context"
	"io"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/reports"
	"github.com/stint-dev/stint/internal/supervise"
)

// Jobs is the use case of showing and running the periodic jobs.
type Jobs struct {
	Runner   *jobs.Runner // nil on a node that runs no jobs
	Recorder audit.Recorder
}

// maxJobRun is the maximum duration of a run that an operator requested.
const maxJobRun = 15 * time.Minute

var errNoJobs = fault.New(fault.NotFound, "This node runs no jobs.")

// List returns the jobs with their last runs.
func (j *Jobs) List(ctx context.Context) ([]jobs.Status, error) {
	if j.Runner == nil {
		return nil, errNoJobs
	}
	return j.Runner.List(ctx)
}

// Runs returns the newest runs of a job, or of all jobs if the name is empty.
func (j *Jobs) Runs(ctx context.Context, job string, limit int) ([]*jobs.Run, error) {
	if j.Runner == nil {
		return nil, errNoJobs
	}
	return j.Runner.Runs(ctx, job, limit)
}

// JobResult is the end of a requested run. Err is set if the job did not run, and Run.Err
// if it failed.
type JobResult struct {
	Run *jobs.Run
	Err error
}

// Start starts a run of a job and sends its result when it has ended. The run is recorded
// before it begins, and does not depend on a request.
func (j *Jobs) Start(by Caller, name string) (<-chan JobResult, error) {
	if j.Runner == nil {
		return nil, errNoJobs
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

// Backups is the use case of backing up and restoring the embedded data.
type Backups struct {
	Store    BackupStore // nil on a node without embedded data
	Recorder audit.Recorder
	Now      func() time.Time
}

// BackupStore writes and restores the embedded data while it is in use.
type BackupStore interface {
	// Backup writes all data, consistent in itself, to w.
	Backup(ctx context.Context, w io.Writer) error
	// Restore replaces all data with the backup in r, all or nothing, and describes it in
	// one sentence. It records itself in the restored audit log.
	Restore(ctx context.Context, by audit.Actor, r io.Reader) (string, error)
}

var errNoBackups = fault.New(fault.NotFound, "This node keeps its data in Redis and Postgres; back those up with their own tools.")

// Create records the reading of a backup and returns its file name and the function that
// writes it.
func (b *Backups) Create(ctx context.Context, by Caller) (name string, write func(context.Context, io.Writer) error, err error) {
	if b.Store == nil {
		return "", nil, errNoBackups
	}
	if err := b.Recorder.AddRecord(ctx, audit.Record{
		Actor: by.Actor, Action: "backup.read", Object: "backup", Summary: "Read a backup of all data.",
	}); err != nil {
		return "", nil, err
	}
	return "stint-" + b.Now().UTC().Format("20060102T150405Z") + ".backup", b.Store.Backup, nil
}

// Available returns an error if the node has no embedded data.
func (b *Backups) Available() error {
	if b.Store == nil {
		return errNoBackups
	}
	return nil
}

// Restore replaces the embedded data with the backup in r, all or nothing. It returns when
// that was, and one sentence that describes the backup.
func (b *Backups) Restore(ctx context.Context, by Caller, r io.Reader) (at time.Time, detail string, err error) {
	if b.Store == nil {
		return time.Time{}, "", errNoBackups
	}
	detail, err = b.Store.Restore(ctx, by.Actor, r)
	return b.Now(), detail, err
}

// Reports is the use case of reading and creating the daily and weekly reports.
type Reports struct {
	Builder  *reports.Builder // nil on a node that keeps none
	Recorder audit.Recorder
	Now      func() time.Time
}

var errNoReports = fault.New(fault.NotFound, "This node keeps no reports.")

// List returns the stored reports of a kind, or of all kinds if it is empty, the newest
// period first, at most limit.
func (r *Reports) List(ctx context.Context, kind string, limit int) ([]*reports.Document, error) {
	if r.Builder == nil {
		return nil, errNoReports
	}
	if kind != "" {
		if _, err := reportKind(kind); err != nil {
			return nil, err
		}
	}
	return r.Builder.Store.FindDocuments(ctx, reports.Kind(kind), limit)
}

// Get returns one report.
func (r *Reports) Get(ctx context.Context, id string) (*reports.Document, error) {
	if r.Builder == nil {
		return nil, errNoReports
	}
	return r.Builder.Store.FindDocumentByID(ctx, id)
}

// Create records and creates the report of the last whole day or week.
func (r *Reports) Create(ctx context.Context, by Caller, kind string) (*reports.Document, error) {
	if r.Builder == nil {
		return nil, errNoReports
	}
	k, err := reportKind(kind)
	if err != nil {
		return nil, err
	}
	now := r.Now()
	from, _ := k.Period(now)
	day := from.Format(time.DateOnly)
	if err := r.Recorder.AddRecord(ctx, audit.Record{
		Actor: by.Actor, Action: "report.write", Object: "report", ObjectID: kind + "/" + day, Summary: "Wrote the " + kind + " report of " + day + ".",
	}); err != nil {
		return nil, err
	}
	return r.Builder.Build(ctx, k, now)
}

func reportKind(text string) (reports.Kind, error) {
	k := reports.Kind(text)
	if k != reports.Daily && k != reports.Weekly {
		return "", fault.Field("kind", "must be daily or weekly")
	}
	return k, nil
}
