package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/wire"
)

// LeaseTime is how long a run keeps its lease without renewing it. A node that dies delays the
// job by at most that long.
const LeaseTime = 2 * time.Minute

// MaxClockSkew is the allowed difference between the clocks of nodes. A lease or a run from a
// clock that was further ahead is ignored.
const MaxClockSkew = time.Minute

// Options configure a Runner.
type Options struct {
	Store Store
	Node  string           // prefix of the lease holders, unique among the nodes
	Now   func() time.Time // nil means time.Now
	// DatabaseNow reads the clock of the shared database; nil if there is none.
	DatabaseNow func(context.Context) (time.Time, error)
	Log         *slog.Logger
	// Schedules replaces the schedules of the named jobs; "off" never runs a job automatically.
	Schedules map[string]string
	// Disabled contains the reason for each job that the settings of this node leave out.
	Disabled map[string]string
	// LeaseTime is how long a run keeps its lease without renewing it, zero for the constant
	// LeaseTime.
	LeaseTime time.Duration
	// OnFailure is called with each failed run; nil for nothing.
	OnFailure func(ctx context.Context, r wire.JobRun)
}

// Runner runs jobs. It is safe for concurrent use.
type Runner struct {
	o       Options
	jobs    []scheduled
	running sync.WaitGroup // scheduled and requested runs

	mu      sync.Mutex // held to add requested runs to running, and to call endLife
	life    context.Context
	endLife context.CancelFunc // ends life; Run calls it before it waits for running
}

type scheduled struct {
	Job
	schedule cron.Schedule // nil: never automatically
}

// New returns a runner of jobs. It returns an error about the first schedule that is invalid or
// that names an unknown job.
func New(o Options, jobs ...Job) (*Runner, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.LeaseTime == 0 {
		o.LeaseTime = LeaseTime
	}
	r := &Runner{o: o}
	r.life, r.endLife = context.WithCancel(context.Background())
	names := make([]string, len(jobs))
	for i, j := range jobs {
		names[i] = j.Name
	}
	if err := CheckSchedules(o.Schedules, o.Disabled, names); err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if text, set := o.Schedules[j.Name]; set {
			j.Schedule = text
		}
		s := scheduled{Job: j}
		if j.Schedule != off {
			var err error
			if s.schedule, err = ParseSchedule(j.Schedule); err != nil {
				return nil, fmt.Errorf("job %s: %w", j.Name, err)
			}
		}
		r.jobs = append(r.jobs, s)
	}
	return r, nil
}

// Run makes up for missed runs, then follows the schedules. It returns when ctx has ended and
// the running jobs have ended.
func (r *Runner) Run(ctx context.Context) {
	for _, j := range r.jobs {
		if j.schedule == nil {
			continue
		}
		r.running.Go(func() {
			supervise.Run(ctx, "schedule of "+j.Name, func(ctx context.Context) { r.follow(ctx, j) })
		})
	}
	<-ctx.Done()
	r.mu.Lock()
	r.endLife()
	r.mu.Unlock()
	r.running.Wait()
}

// begin adds a requested run to those that Run waits for, and returns the context of the run,
// which also ends when Run ends. If ok is false, Run has already ended; otherwise end must be
// called.
func (r *Runner) begin(ctx context.Context) (running context.Context, end func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.life.Err() != nil {
		return nil, nil, false
	}
	r.running.Add(1)
	running, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(r.life, func() { supervise.Do("requested job", cancel) })
	return running, func() {
		unlink()
		cancel()
		r.running.Done()
	}, true
}

// follow waits for each due time of one job. If a run takes longer than the interval, the due
// times during the run are skipped.
func (r *Runner) follow(ctx context.Context, j scheduled) {
	due := r.missed(ctx, j)
	if due.IsZero() {
		due = j.schedule.Next(r.wallClock())
	}
	var failed time.Time // the due time of the last run that failed to begin or to be recorded
	for {
		if due = r.await(ctx, j, due); due.IsZero() {
			return
		}
		run, err := r.run(ctx, j.Job, due, nil)
		if err != nil && ctx.Err() == nil && !due.Equal(failed) {
			r.o.Log.Warn("job not run", "job", j.Name, "error", err)
			failed = due
		}
		due = time.Time{}
		if j.MakeUp && (run == nil || err != nil) {
			// Another run did it, or holds the lease. If that run is interrupted, this node
			// makes up for it. Or the database was unreachable, for every node.
			due = r.missedLater(ctx, j)
		}
		if due.IsZero() {
			due = j.schedule.Next(r.wallClock())
		}
	}
}

// maxWait bounds how late a run may start after the clock was set forward.
const maxWait = time.Minute

// await waits until the wall clock has reached due and returns due, or zero if ctx ended.
// Timers do not follow a clock that is set, so the clock is read again after each timer. If the
// clock was set back before an earlier time of the schedule, await waits for that time: due may
// come from a clock that was far ahead. Due times that have been run are not run again.
func (r *Runner) await(ctx context.Context, j scheduled, due time.Time) time.Time {
	for {
		now := r.wallClock()
		if next := j.schedule.Next(now); next.Before(due) {
			due = next
		}
		if !now.Before(due) {
			return due
		}
		wait := time.NewTimer(min(due.Sub(now), maxWait))
		select {
		case <-ctx.Done():
			wait.Stop()
			return time.Time{}
		case <-wait.C:
		}
	}
}

// wallClock returns the time without its monotonic reading, which would hide that the clock was
// set.
func (r *Runner) wallClock() time.Time { return r.o.Now().UTC().Round(0) }

// maxTries bounds the interrupted runs of one due time. Otherwise a job that ends its node, for
// example by using all memory, would do so after every start.
const maxTries = 3

// missedLater waits for half a lease and then returns the result of missed, zero if ctx ended.
func (r *Runner) missedLater(ctx context.Context, j scheduled) time.Time {
	wait := time.NewTimer(r.o.LeaseTime / 2)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return time.Time{}
	case <-wait.C:
		return r.missed(ctx, j)
	}
}

// missed returns the due time to make up for, zero if there is none: the latest one that passed
// since the last run while no node was running or none reached the database, or that of the last
// run if it was interrupted. It waits while the database is unreachable; zero if ctx ended.
func (r *Runner) missed(ctx context.Context, j scheduled) time.Time {
	if !j.MakeUp || j.PerNode {
		return time.Time{}
	}
	last, err := r.lastRun(ctx, j.Name)
	for err != nil {
		if supervise.Sleep(ctx, r.o.LeaseTime/2) != nil {
			return time.Time{}
		}
		last, err = r.lastRun(ctx, j.Name)
	}
	if last == nil {
		return time.Time{}
	}
	var missed time.Time
	if last.IsUnfinished() && r.mayTryAgain(ctx, last) {
		missed = last.DueAt.UTC()
	}
	now := r.wallClock()
	for due := j.schedule.Next(last.DueAt.UTC()); !due.After(now); due = j.schedule.Next(due) {
		missed = due
	}
	return missed
}

// mayTryAgain reports whether fewer than maxTries runs of last's due time are unfinished.
func (r *Runner) mayTryAgain(ctx context.Context, last *wire.JobRun) bool {
	newest, err := r.o.Store.Runs(ctx, wire.RunList{Job: last.Job, PageList: wire.PageList{Limit: maxTries}})
	return err == nil && (len(newest.Items) < maxTries || slices.ContainsFunc(newest.Items, func(run wire.JobRun) bool {
		return !run.IsUnfinished() || !run.DueAt.Equal(last.DueAt.Time)
	}))
}

// lastRun returns the newest run of a job whose due time is plausible now, nil if there is
// none.
func (r *Runner) lastRun(ctx context.Context, job string) (*wire.JobRun, error) {
	return r.o.Store.LastRun(ctx, job, r.o.Now().Add(MaxClockSkew))
}

// run runs a job once. If another run has its lease, or was already made for this due time,
// even if it failed, it returns nil, nil. q is nil for a scheduled run.
func (r *Runner) run(ctx context.Context, j Job, due time.Time, q *Request) (*wire.JobRun, error) {
	if _, err := r.checkClock(ctx); err != nil {
		return nil, err
	}
	if q == nil && j.MakeUp && !j.PerNode {
		if err := r.awaitDatabase(ctx, due); err != nil {
			return nil, err
		}
	}
	now := r.o.Now()
	l := r.newLease(j)
	held, err := l.renew(ctx)
	if err != nil {
		return nil, err
	}
	if !held {
		return nil, nil
	}
	defer l.release()
	if q == nil && !j.PerNode {
		last, err := r.lastRun(ctx, j.Name)
		if err != nil {
			return nil, err
		}
		if last != nil && !last.DueAt.Before(due) && !last.IsUnfinished() {
			return nil, nil
		}
	}
	run := wire.JobRun{Job: j.Name, Node: r.o.Node, DueAt: wire.At(due), StartedAt: wire.At(now), TriggeredBy: BySchedule}
	if q != nil {
		if err := q.Record(ctx); err != nil {
			return nil, err
		}
		run.TriggeredBy = ByOperator
	}
	if run.ID, err = r.o.Store.BeginRun(ctx, run); err != nil {
		return nil, err
	}
	if q != nil && q.Began != nil {
		q.Began(run)
	}
	return r.record(ctx, j, run, l)
}

// record executes a job whose run has begun and whose lease is l, and records the result.
func (r *Runner) record(ctx context.Context, j Job, run wire.JobRun, l *lease) (*wire.JobRun, error) {
	working, stop := context.WithCancelCause(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		supervise.Run(working, "lease of "+j.Name, func(ctx context.Context) { l.keep(ctx, stop) })
	}()
	did, err := safely(working, j, run.DueAt.Time)
	stop(nil)
	<-kept
	if cause := context.Cause(working); err != nil && (errors.Is(cause, errLeaseLost) || errors.Is(cause, errLeaseExpired)) {
		err = cause // rather than the error of the cancelled context
	}
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		// The node stops, which is not a failure of the job. The run stays unfinished, as if
		// the node had died, so that it can be repeated.
		return nil, &fault.Error{Code: fault.Unavailable, Err: err, Message: fmt.Sprintf("This node is stopping and has interrupted the job %s; run it again.", j.Name)}
	}
	run.FinishedAt, run.Result = wire.At(r.o.Now()), did
	if err != nil {
		run.Error = wire.NullString(err.Error())
		r.o.Log.Error("job failed", "job", j.Name, "error", err)
	}
	// The result is recorded even if the node is stopping.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := r.o.Store.EndRun(last, run.ID, run.FinishedAt.Time, run.Result, string(run.Error)); err != nil {
		return &run, fmt.Errorf("record the end of the run: %w", err)
	}
	if run.Error != "" && r.o.OnFailure != nil {
		r.o.OnFailure(last, run)
	}
	return &run, nil
}

// safely runs a job and returns its panic as an error.
func safely(ctx context.Context, j Job, due time.Time) (did string, err error) {
	err = supervise.Call("job "+j.Name, func() (err error) {
		did, err = j.Run(ctx, due)
		return err
	})
	if p, panicked := errors.AsType[*supervise.Panic](err); panicked {
		err = fmt.Errorf("panic: %v", p.Value)
	}
	return did, err
}

// RunNow runs a job on request of an operator. It returns a *fault.Error for an unknown name, a
// job that is already running, or a node whose clock is wrong. A failure of the job is in the
// returned Run. The end of Runner.Run interrupts the job.
func (r *Runner) RunNow(ctx context.Context, name string, q Request) (*wire.JobRun, error) {
	for _, j := range r.jobs {
		if j.Name != name {
			continue
		}
		ctx, end, ok := r.begin(ctx)
		if !ok {
			return nil, fault.New(fault.Unavailable, "This node is stopping; run the job %s on another one.", name)
		}
		defer end()
		run, err := r.run(ctx, j.Job, r.o.Now().UTC(), &q)
		if run == nil && err == nil {
			return nil, fault.New(fault.Conflict, "The job %s is already running.", name)
		}
		return run, err
	}
	if why := r.o.Disabled[name]; why != "" {
		return nil, fault.New(fault.NotFound, "This node does not have the job %s: %s.", name, why)
	}
	return nil, fault.New(fault.NotFound, "There is no job of that name.")
}

// List returns the jobs in the order in which they were given to New.
func (r *Runner) List(ctx context.Context) ([]wire.Job, error) {
	all := make([]wire.Job, 0, len(r.jobs))
	var problems []error
	for _, j := range r.jobs {
		s := wire.Job{Name: j.Name, Help: j.Help, Schedule: j.Schedule}
		if j.schedule != nil {
			s.NextAt = wire.At(j.schedule.Next(r.o.Now().UTC()))
		}
		var err error
		if s.Last, err = r.lastRun(ctx, j.Name); err != nil {
			problems = append(problems, err)
		}
		all = append(all, s)
	}
	return all, errors.Join(problems...)
}

// Runs returns a page of the runs, the newest first.
func (r *Runner) Runs(ctx context.Context, f wire.RunList) (wire.Page[wire.JobRun], error) {
	return r.o.Store.Runs(ctx, f)
}
