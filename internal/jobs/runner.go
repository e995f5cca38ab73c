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
)

// LeaseTime is how long a node holds a job without a sign of life; a node that
// dies delays the job by no more.
const LeaseTime = 2 * time.Minute

// MaxClockSkew is how far the clocks of nodes may be apart. What a clock that was further
// ahead left behind, a lease or a run, is ignored.
const MaxClockSkew = time.Minute

// Options make a Runner.
type Options struct {
	Store Store
	Node  string           // the holder's name, unique among the nodes
	Now   func() time.Time // nil means time.Now
	// DatabaseNow reads the clock of a database that nodes share; nil for no such database.
	DatabaseNow func(context.Context) (time.Time, error)
	Log         *slog.Logger
	// Schedules replaces the schedule of the jobs that it names; "off" never
	// runs one by itself.
	Schedules map[string]string
	// Disabled says why this node does not have a job, for the jobs that settings leave out.
	Disabled map[string]string
	// LeaseTime is how long a run holds its job without a sign of life, zero for
	// the constant LeaseTime.
	LeaseTime time.Duration
	// OnFailure is called with a run that failed; nil for nothing.
	OnFailure func(ctx context.Context, r Run)
}

// Runner runs jobs. It is safe for use by many goroutines.
type Runner struct {
	o       Options
	jobs    []scheduled
	running sync.WaitGroup // the schedules and the requested runs

	mu      sync.Mutex // held to add requested runs to running, and to end life
	life    context.Context
	endLife context.CancelFunc // ends life, which Run does before it waits for running
}

type scheduled struct {
	Job
	schedule cron.Schedule // nil: never by itself
}

// New returns a runner over jobs, or an error about the first schedule that
// cannot be read or that names no job.
func New(o Options, jobs ...Job) (*Runner, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.LeaseTime == 0 {
		o.LeaseTime = LeaseTime
	}
	r := &Runner{o: o}
	r.life, r.endLife = context.WithCancel(context.Background())
	known := map[string]bool{}
	for _, j := range jobs {
		known[j.Name] = true
		if text, set := o.Schedules[j.Name]; set {
			j.Schedule = text
		}
		s := scheduled{Job: j}
		if j.Schedule != "off" {
			var err error
			if s.schedule, err = ParseSchedule(j.Schedule); err != nil {
				return nil, fmt.Errorf("job %s: %w", j.Name, err)
			}
		}
		r.jobs = append(r.jobs, s)
	}
	for name := range o.Schedules {
		if why := o.Disabled[name]; why != "" {
			return nil, fmt.Errorf("a schedule is set for the job %q: %s", name, why)
		}
		if !known[name] {
			return nil, fmt.Errorf("a schedule is set for the job %q, and there is none of that name", name)
		}
	}
	return r, nil
}

// Run makes up for missed runs, then follows the schedules until ctx ends and
// the jobs under way have ended.
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

// begin adds a requested run to those that Run waits for, and returns its context, which
// also ends when Run does. ok is false if Run has ended already; else end must be called.
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

// follow waits for each due time of one job. A job that outlasts its interval
// skips the times that passed during it.
func (r *Runner) follow(ctx context.Context, j scheduled) {
	due := r.missed(ctx, j)
	if due.IsZero() {
		due = j.schedule.Next(r.wallClock())
	}
	for {
		if due = r.await(ctx, j, due); due.IsZero() {
			return
		}
		run, err := r.run(ctx, j.Job, due, nil)
		if err != nil && ctx.Err() == nil {
			r.o.Log.Warn("job not run", "job", j.Name, "error", err)
		}
		due = time.Time{}
		if j.MakeUp && run == nil && err == nil {
			// Another run did it, or holds the lease. One that is broken off is made up for here.
			due = r.missedLater(ctx, j)
		}
		if due.IsZero() {
			due = j.schedule.Next(r.wallClock())
		}
	}
}

// maxWait is how late a run may be after the clock was set forward.
const maxWait = time.Minute

// await waits until the wall clock has reached due and returns it, or zero if ctx ended. Timers
// do not follow a clock that is set, so the clock is read again after each. If it was set back
// before an earlier time of the schedule, await waits for that one: due was perhaps reckoned
// from a clock that was far ahead. Those that have been run are not run again.
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

// maxTries is how many runs of one due time may be broken off. A job that ends its node, by
// taking all memory for example, would otherwise end it again after each start.
const maxTries = 3

// missedLater waits for half a lease and returns what missed does, zero if ctx ended.
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

// missed returns the latest due time that passed since the last run while no
// node was up, or that of the last run if it has not ended, zero where there is
// none to make up for.
func (r *Runner) missed(ctx context.Context, j scheduled) time.Time {
	if !j.MakeUp || j.PerNode {
		return time.Time{}
	}
	last, err := r.lastRun(ctx, j.Name)
	if err != nil || last == nil {
		return time.Time{}
	}
	var missed time.Time
	if last.Finished.IsZero() && r.mayTryAgain(ctx, last) {
		missed = last.Due.UTC()
	}
	now := r.wallClock()
	for due := j.schedule.Next(last.Due.UTC()); !due.After(now); due = j.schedule.Next(due) {
		missed = due
	}
	return missed
}

// mayTryAgain reports whether fewer than maxTries runs of the due time of one are unfinished.
func (r *Runner) mayTryAgain(ctx context.Context, last *Run) bool {
	newest, _, err := r.o.Store.Runs(ctx, last.Job, "", maxTries)
	return err == nil && (len(newest) < maxTries || slices.ContainsFunc(newest, func(run *Run) bool {
		return !run.Finished.IsZero() || !run.Due.Equal(last.Due)
	}))
}

// lastRun returns the newest run of a job that can be due by now, nil if none.
func (r *Runner) lastRun(ctx context.Context, job string) (*Run, error) {
	return r.o.Store.LastRun(ctx, job, r.o.Now().Add(MaxClockSkew))
}

// run runs a job once unless another run has its lease or has done this due time already,
// even if it failed; then it returns nil, nil. q is nil for a run that nobody requested.
func (r *Runner) run(ctx context.Context, j Job, due time.Time, q *Request) (*Run, error) {
	if err := r.checkClock(ctx); err != nil {
		return nil, err
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
		if last != nil && !last.Due.Before(due) && !last.Finished.IsZero() {
			return nil, nil
		}
	}
	run := Run{Job: j.Name, Node: r.o.Node, Due: due, Started: now, TriggeredBy: BySchedule}
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

// record executes a job whose run has begun and whose lease is l, and records how it ended.
func (r *Runner) record(ctx context.Context, j Job, run Run, l *lease) (*Run, error) {
	working, stop := context.WithCancelCause(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		supervise.Run(working, "lease of "+j.Name, func(ctx context.Context) { l.keep(ctx, stop) })
	}()
	did, err := safely(working, j, run.Due)
	stop(nil)
	<-kept
	if cause := context.Cause(working); err != nil && (errors.Is(cause, errLeaseLost) || errors.Is(cause, errLeaseExpired)) {
		err = cause // and not that a context was canceled
	}
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		// The node is going down, which is no failure of the job. The run stays unfinished, as
		// that of a node that died, so that it can be run again.
		return nil, fmt.Errorf("broken off, since the node stops: %w", err)
	}
	run.Finished, run.Result = r.o.Now(), did
	if err != nil {
		run.Err = err.Error()
		r.o.Log.Error("job failed", "job", j.Name, "error", err)
	}
	// The outcome is recorded even where the node is going down.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := r.o.Store.EndRun(last, run.ID, run.Finished, run.Result, run.Err); err != nil {
		return &run, fmt.Errorf("record the end of the run: %w", err)
	}
	if run.Err != "" && r.o.OnFailure != nil {
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

// RunNow runs a job because an operator requested it. The errors are *fault.Error for an
// unknown name, a job that is running already and a node whose clock is wrong; the failure of
// a job is in its Run. The end of Run breaks it off.
func (r *Runner) RunNow(ctx context.Context, name string, q Request) (*Run, error) {
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

// Status is one job as the pages show it.
type Status struct {
	Name     string
	Help     string
	Schedule string
	Next     time.Time // zero: never by itself
	Last     *Run      // nil: never yet
}

// List returns the jobs in the order they were given.
func (r *Runner) List(ctx context.Context) ([]Status, error) {
	all := make([]Status, 0, len(r.jobs))
	var problems []error
	for _, j := range r.jobs {
		s := Status{Name: j.Name, Help: j.Help, Schedule: j.Schedule}
		if j.schedule != nil {
			s.Next = j.schedule.Next(r.o.Now().UTC())
		}
		var err error
		if s.Last, err = r.lastRun(ctx, j.Name); err != nil {
			problems = append(problems, err)
		}
		all = append(all, s)
	}
	return all, errors.Join(problems...)
}

// Runs returns the newest runs of a job, of all jobs where name is "".
func (r *Runner) Runs(ctx context.Context, name, cursor string, limit int) (page []*Run, next string, err error) {
	return r.o.Store.Runs(ctx, name, cursor, limit)
}
