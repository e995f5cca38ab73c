// Package jobs contains Stint's periodic jobs. Each job has one file and a schedule in UTC. In
// a cluster one node at a time runs a job, unless it is PerNode. Every run is recorded. To add
// a job, write one file that returns a Job, and add one line to the list in package app.
package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/stint-dev/stint/internal/wire"
)

// Job is one periodic job.
type Job struct {
	Name string // as on the command line: lower case with hyphens
	Help string // one sentence for people
	// Schedule is five cron fields or a descriptor such as "@hourly", in UTC;
	// a setting may replace it.
	Schedule string
	// MakeUp means that a run that was missed while no node ran is made up for, once, and that
	// a run is repeated if its node stopped during it.
	MakeUp bool
	// PerNode means that the job is about the node, and each node runs it. Every node runs it
	// at each due time and makes up for none. A requested run is on the node that received the
	// request.
	PerNode bool
	// Run does the work and returns a clause that describes the result: "archived 12 blocks".
	// due is the scheduled time. Run must be idempotent.
	Run func(ctx context.Context, due time.Time) (result string, err error)
}

// Names are the names of the jobs of a node. BackUpJob is left out where Options.Disabled says
// why.
func Names() []string {
	return []string{
		"roll-up", "propose-ranges", "check-counters", "daily-report", "weekly-report", "end-expired-blocks", "expire-sessions", "delete-past-retention", "delete-counts", "pull-sources", "pull-bots", BackUpJob,
	}
}

// off is the schedule of a job that never runs automatically.
const off = "off"

// What triggers a run.
const (
	ByOperator = "operator"
	BySchedule = "schedule"
)

// Request is an operator's request for RunNow.
type Request struct {
	// Record is called before the job. If it fails, the job does not run.
	Record func(context.Context) error
	// Began is called with the run, before the job; nil for nothing.
	Began func(wire.JobRun)
}

// Store stores the leases and the runs.
type Store interface {
	// AcquireLease gives the lease of name to holder until an instant. It reports false while
	// another holder has the lease. Leases that end more than MaxClockSkew after until count as
	// abandoned.
	AcquireLease(ctx context.Context, name, holder string, now, until time.Time) (bool, error)
	// ReleaseLease ends a lease early. It does nothing if holder no longer has the lease.
	ReleaseLease(ctx context.Context, name, holder string) error
	BeginRun(ctx context.Context, r wire.JobRun) (int64, error)
	EndRun(ctx context.Context, id int64, finished time.Time, result, problem string) error
	// LastRun returns the run of a job with the latest due time, nil if there is none. If
	// several runs have that time, it returns a failed one. It ignores runs due after notAfter,
	// which come from a node whose clock was ahead.
	LastRun(ctx context.Context, job string, notAfter time.Time) (*wire.JobRun, error)
	// Runs returns a page of the runs, the newest first.
	Runs(ctx context.Context, f wire.RunList) (wire.Page[wire.JobRun], error)
}

// ParseSchedule parses five cron fields or a descriptor, in UTC. Its error says what is
// allowed. It never panics: the underlying parser panics on a time zone without fields, so time
// zones are refused first.
func ParseSchedule(text string) (schedule cron.Schedule, err error) {
	text = strings.TrimSpace(text)
	if strings.Contains(text, "TZ=") {
		return nil, fmt.Errorf("the schedule %q names a time zone; schedules are in UTC", text)
	}
	defer func() {
		if problem := recover(); problem != nil {
			schedule, err = nil, fmt.Errorf("the schedule %q cannot be read; write five fields such as \"15 3 * * *\"", text)
		}
	}()
	schedule, err = cron.ParseStandard(text)
	if err != nil {
		return nil, fmt.Errorf("the schedule %q cannot be read (%w); write five fields such as \"15 3 * * *\", or @hourly", text, err)
	}
	if schedule.Next(time.Unix(0, 0).UTC()).IsZero() {
		return nil, fmt.Errorf("the schedule %q never comes", text)
	}
	return schedule, nil
}

// CheckSchedules returns an error about the first of schedules, by name, that cannot be read, or
// that is of a job that is disabled or not among names. See Options for both maps.
func CheckSchedules(schedules, disabled map[string]string, names []string) error {
	for _, name := range slices.Sorted(maps.Keys(schedules)) {
		if why := disabled[name]; why != "" {
			return fmt.Errorf("a schedule is set for the job %q: %s", name, why)
		}
		if !slices.Contains(names, name) {
			return fmt.Errorf("a schedule is set for the job %q, and there is none of that name", name)
		}
		if schedules[name] == off {
			continue
		}
		if _, err := ParseSchedule(schedules[name]); err != nil {
			return fmt.Errorf("job %s: %w", name, err)
		}
	}
	return nil
}
