// Package jobs holds Stint's periodic work: one file per job, run on a UTC
// schedule, in a cluster each by one node at a time unless it is PerNode, every
// run recorded. New work is one file that returns a Job and one line where the
// app lists them.
package jobs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Job is one piece of periodic work.
type Job struct {
	Name string // as on the command line: lower case with dashes
	Help string // one sentence for people
	// Schedule is five cron fields or a descriptor such as "@hourly", in UTC;
	// a setting may replace it.
	Schedule string
	// MakeUp says that a run missed in downtime is made up for, once, and so is one that was
	// broken off by the end of its node.
	MakeUp bool
	// PerNode says that each node runs it, since it is about the node. Every node runs each
	// due time, none makes up for one, and a request runs it on the node that received it.
	PerNode bool
	// Run does the work and says in a clause what it did: "archived 12 blocks".
	// due is the instant that it was scheduled for. Run must be idempotent.
	Run func(ctx context.Context, due time.Time) (result string, err error)
}

// Run is one recorded run.
type Run struct {
	ID          int64
	Job         string
	Node        string
	Due         time.Time
	Started     time.Time
	Finished    time.Time // zero while it runs, and for ever if its node died or stopped
	Result      string
	Err         string // "" when it worked
	TriggeredBy Trigger
}

// Trigger is what triggers a run.
type Trigger string

// The triggers.
const (
	ByOperator Trigger = "operator"
	BySchedule Trigger = "schedule"
)

// Request is what an operator asks RunNow for.
type Request struct {
	// Record is called before the job, which does not run if that fails.
	Record func(context.Context) error
	// Began is called with the run, before the job; nil for nothing.
	Began func(Run)
}

// Store keeps the leases and the runs.
type Store interface {
	// AcquireLease gives the lease of name to holder until an instant, and
	// reports false while another holder has it. Leases that end more than
	// MaxClockSkew after until count as abandoned.
	AcquireLease(ctx context.Context, name, holder string, now, until time.Time) (bool, error)
	// ReleaseLease ends it early. One that holder lost is left alone.
	ReleaseLease(ctx context.Context, name, holder string) error
	BeginRun(ctx context.Context, r Run) (int64, error)
	EndRun(ctx context.Context, id int64, finished time.Time, result, problem string) error
	// LastRun returns the newest run of a job by its due time, of several at that time one
	// that failed, nil if none. Runs that are due after notAfter are left out: they are of a
	// node whose clock was ahead.
	LastRun(ctx context.Context, job string, notAfter time.Time) (*Run, error)
	// Runs returns a page of the runs of a job, of all jobs where it is "", the newest first,
	// at most limit: those behind cursor, "" for the first. next is the cursor of the page
	// after, "" on the last.
	Runs(ctx context.Context, job, cursor string, limit int) (page []*Run, next string, err error)
}

// ParseSchedule reads five cron fields or a descriptor, in UTC. The error says
// what would be right. It never panics, whatever the text: the parser beneath
// does on a time zone without fields, so zones are refused first.
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
