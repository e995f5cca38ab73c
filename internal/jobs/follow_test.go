package jobs_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/recorder"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/wire"
)

// at is an instant of a test.
func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

// succeed is the work of a job that succeeds.
func succeed(context.Context, time.Time) (string, error) { return "done", nil }

func TestRunFromAClockFarAheadDoesNotCount(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		c := newClock("2027-11-20T01:00:00Z") // a year ahead
		r := newRunner(t, store.Jobs, "a", c, jobs.Job{Name: "daily", Schedule: "0 1 * * *", MakeUp: true, Run: succeed})
		if run, err := r.RunDue(t.Context(), "daily", c.now()); err != nil || run == nil {
			t.Fatalf("ahead: %+v, %v", run, err)
		}
		c.set("2026-11-20T01:00:00Z")
		if run, err := r.RunDue(t.Context(), "daily", c.now()); err != nil || run == nil || run.Result != "done" {
			t.Errorf("RunDue with the right time: got %+v, %v; want a run", run, err)
		}
		if run, err := r.RunDue(t.Context(), "daily", c.now()); err != nil || run != nil {
			t.Errorf("the second RunDue: got %+v, %v; want no run", run, err)
		}
		list, err := r.List(t.Context())
		if err != nil || !list[0].Last.DueAt.Equal(c.now()) {
			t.Errorf("the last run is %+v, %v", list[0].Last, err)
		}
		c.set("2026-11-21T09:00:00Z")
		if due := r.Missed(t.Context(), "daily"); !due.Equal(at("2026-11-21T01:00:00Z")) {
			t.Errorf("missed %s", due)
		}
	})
}

func TestRunFromAClockSlightlyAheadCounts(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		c := newClock("2026-11-20T01:00:00Z")
		r := newRunner(t, store.Jobs, "a", c, jobs.Job{Name: "daily", Schedule: "0 1 * * *", MakeUp: true, Run: succeed})
		if run, err := r.RunDue(t.Context(), "daily", c.now()); err != nil || run == nil {
			t.Fatalf("got %+v, %v", run, err)
		}
		c.ms.Add(-jobs.MaxClockSkew.Milliseconds())
		if run, err := r.RunDue(t.Context(), "daily", at("2026-11-20T01:00:00Z")); err != nil || run != nil {
			t.Errorf("RunDue by a clock %s behind: got %+v, %v; want no run", jobs.MaxClockSkew, run, err)
		}
	})
}

func TestDueTimesFollowTheWallClock(t *testing.T) {
	for name, test := range map[string]struct {
		schedule string
		setAfter time.Duration // by the timers
		setBy    time.Duration
		want     string // the due time, by a clock that was right at first
		latest   time.Duration
	}{
		"not set":            {"5 0 * * *", time.Second, 0, "2026-11-20T00:05:00Z", 0},
		"set back":           {"5 0 * * *", time.Second, -time.Hour, "2026-11-20T00:05:00Z", 0},
		"set forward":        {"0 12 * * *", time.Hour, 10 * time.Hour, "2026-11-20T12:00:00Z", time.Minute},
		"set back by a year": {"5 0 * * 5", time.Second, -365 * 24 * time.Hour, "2025-11-21T00:05:00Z", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, set := time.Now(), time.Duration(0)
				now := func() time.Time {
					at := time.Now()
					if at.Sub(start) >= test.setAfter {
						set = test.setBy
					}
					return at.Add(set + time.Date(2026, 11, 20, 0, 4, 58, 0, time.UTC).Sub(start))
				}
				r, err := jobs.New(jobs.Options{Now: now}, jobs.Job{Name: "report", Schedule: test.schedule})
				if err != nil {
					t.Fatal(err)
				}
				due := r.Await(t.Context(), "report")
				if !due.Equal(at(test.want)) {
					t.Errorf("waited for %s, want %s", due, test.want)
				}
				if late := now().Sub(due); late < 0 || late > test.latest {
					t.Errorf("the clock says %s", now())
				}
			})
		})
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	r, err := jobs.New(jobs.Options{}, jobs.Job{Name: "report", Schedule: "@yearly"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if due := r.Await(ctx, "report"); !due.IsZero() {
		t.Errorf("waited for %s", due)
	}
}

// begin records a run of the job daily that has not ended.
func begin(t *testing.T, store jobs.Store, due time.Time) (id int64) {
	t.Helper()
	id, err := store.BeginRun(t.Context(), wire.JobRun{Job: "daily", Node: "stopped", DueAt: wire.At(due), StartedAt: wire.At(due)})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestRunInterruptedByAStopIsRepeatedAndNoFailure(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		c := newClock("2026-11-20T01:00:30Z")
		begin(t, store.Jobs, at("2026-11-20T01:00:00Z")) // its node was killed
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		entered := make(chan time.Time, 1)
		r, err := jobs.New(jobs.Options{
			Store: store.Jobs, Node: "a", Now: c.now, Log: slog.New(slog.DiscardHandler),
			OnFailure: func(_ context.Context, run wire.JobRun) { t.Errorf("OnFailure was called with %+v", run) },
		}, jobs.Job{Name: "daily", Schedule: "0 1 * * *", MakeUp: true, Run: func(ctx context.Context, due time.Time) (string, error) {
			entered <- due
			<-ctx.Done()
			return "", ctx.Err()
		}})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { defer close(ended); r.Run(ctx) }()
		if due := <-entered; !due.Equal(at("2026-11-20T01:00:00Z")) {
			t.Errorf("made up for %s", due)
		}
		stop() // the second node gets a signal
		<-ended
		all, err := r.Runs(t.Context(), wire.RunList{Job: "daily"})
		if err != nil || len(all.Items) != 2 || !all.Items[0].IsUnfinished() || all.Items[0].Error != "" {
			t.Fatalf("recorded %+v, %v", all.Items, err)
		}

		c.set("2026-11-20T01:05:00Z")
		made := make(chan time.Time, 1)
		third := newRunner(t, store.Jobs, "b", c, jobs.Job{Name: "daily", Schedule: "0 1 * * *", MakeUp: true,
			Run: func(_ context.Context, due time.Time) (string, error) { made <- due; return "done", nil }})
		ctx, stop = context.WithCancel(t.Context())
		defer stop()
		ended = make(chan struct{})
		go func() { defer close(ended); third.Run(ctx) }()
		if due := <-made; !due.Equal(at("2026-11-20T01:00:00Z")) {
			t.Errorf("made up for %s", due)
		}
		stop()
		<-ended
		if due := third.Missed(t.Context(), "daily"); !due.IsZero() {
			t.Errorf("Missed returns %s after the run was made up for, want none", due)
		}
	})
}

func TestMissedRunIsNotRepeatedAfterThreeInterruptions(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		c := newClock("2026-11-20T02:00:00Z")
		r := newRunner(t, store.Jobs, "a", c, jobs.Job{Name: "daily", Schedule: "0 1 * * *", MakeUp: true, Run: succeed})
		due := at("2026-11-20T01:00:00Z")
		for range 2 {
			begin(t, store.Jobs, due)
			if missed := r.Missed(t.Context(), "daily"); !missed.Equal(due) {
				t.Errorf("missed %s", missed)
			}
		}
		begin(t, store.Jobs, due)
		if missed := r.Missed(t.Context(), "daily"); !missed.IsZero() {
			t.Errorf("Missed after three interruptions: got %s, want none", missed)
		}
		c.set("2026-11-21T02:00:00Z")
		if missed := r.Missed(t.Context(), "daily"); !missed.Equal(due.AddDate(0, 0, 1)) {
			t.Errorf("Missed a day later: got %s, want the next due time", missed)
		}
	})
}

// refusalStore sends to refused when a lease was refused.
type refusalStore struct {
	jobs.Store
	refused chan struct{}
}

func (s refusalStore) AcquireLease(ctx context.Context, name, holder string, now, until time.Time) (bool, error) {
	held, err := s.Store.AcquireLease(ctx, name, holder, now, until)
	if err == nil && !held {
		select {
		case s.refused <- struct{}{}:
		default:
		}
	}
	return held, err
}

func TestRunOfAKilledNodeIsRepeatedWhenItsLeaseExpires(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		c := newClock("2026-11-20T01:00:30Z")
		due := at("2026-11-20T01:00:00Z")
		begin(t, store.Jobs, due)
		const length = 100 * time.Millisecond // of leases, so that it soon tries again
		if held, err := store.Jobs.AcquireLease(t.Context(), "job:daily", "killed", c.now(), c.now().Add(length)); err != nil || !held {
			t.Fatal(held, err)
		}
		made := make(chan time.Time, 1)
		watched := refusalStore{store.Jobs, make(chan struct{}, 1)}
		r, err := jobs.New(jobs.Options{Store: watched, Node: "a", Now: c.now, Log: slog.New(slog.DiscardHandler), LeaseTime: length},
			jobs.Job{Name: "daily", Schedule: "0 1 * * *", MakeUp: true, Run: func(_ context.Context, due time.Time) (string, error) { made <- due; return "", nil }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.Run(ctx) }()
		<-watched.refused
		c.ms.Add((length + clockError).Milliseconds())
		if got := <-made; !got.Equal(due) {
			t.Errorf("made up for %s", got)
		}
		stop()
		<-ended
	})
}

func TestFailureIsReportedByOneNode(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		c := newClock("2026-11-20T01:00:00Z")
		failures, due := 0, c.now()
		for _, node := range []string{"a", "b"} { // each reaches the due time by its own clock
			r, err := jobs.New(jobs.Options{
				Store: store.Jobs, Node: node, Now: c.now, Log: slog.New(slog.DiscardHandler),
				OnFailure: func(context.Context, wire.JobRun) { failures++ },
			}, jobs.Job{Name: "daily", Schedule: "0 1 * * *", MakeUp: true,
				Run: func(context.Context, time.Time) (string, error) { return "", errors.New("disk full") }})
			if err != nil {
				t.Fatal(err)
			}
			if run, err := r.RunDue(t.Context(), "daily", due); err != nil || (run != nil) != (node == "a") {
				t.Errorf("%s: %+v, %v", node, run, err)
			}
			if missed := r.Missed(t.Context(), "daily"); !missed.IsZero() {
				t.Errorf("%s makes up for %s", node, missed)
			}
			c.ms.Add(100)
		}
		if failures != 1 {
			t.Errorf("OnFailure was called %d times, want 1", failures)
		}
	})
}

// withDeadline is a context whose end is its deadline.
type withDeadline struct{ context.Context }

// Value hides the parent context, whose end would otherwise propagate directly to derived
// contexts.
func (c withDeadline) Value(any) any { return nil }

func (c withDeadline) Err() error {
	if c.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

func TestStopOfANodeInterruptsARequestedRun(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		r := newRunner(t, store.Jobs, "a", newClock("2026-11-20T14:00:00Z"), jobs.Job{Name: "slow", Schedule: "off",
			Run: func(ctx context.Context, _ time.Time) (string, error) { stop(); <-ctx.Done(); return "", ctx.Err() }})
		result := make(chan error, 1)
		go func() {
			_, err := r.RunNow(context.Background(), "slow", unrecorded)
			result <- err
		}()
		r.Run(ctx)
		if err := <-result; !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "is stopping") || !errors.Is(err, context.Canceled) {
			t.Errorf("the run ended with %v", err)
		}
		if _, err := r.RunNow(t.Context(), "slow", unrecorded); !fault.Is(err, fault.Unavailable) {
			t.Errorf("RunNow on a stopped node: got %v, want Unavailable", err)
		}
	})
}

func TestRequestThatTakesTooLongIsAFailure(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		ctx, expire := context.WithCancel(t.Context())
		r := newRunner(t, store.Jobs, "a", newClock("2026-11-20T14:00:00Z"), jobs.Job{Name: "slow", Schedule: "@hourly",
			Run: func(ctx context.Context, _ time.Time) (string, error) { expire(); <-ctx.Done(); return "", ctx.Err() }})
		run, err := r.RunNow(withDeadline{ctx}, "slow", unrecorded)
		if err != nil || run.Error == "" || run.FinishedAt.IsZero() {
			t.Errorf("got %+v, %v", run, err)
		}
	})
}

func TestCheckCountersRunsOnEachNode(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		c := newClock("2026-11-20T01:05:00Z")
		due := c.now()
		lostOf := map[string]int64{"b": 1000}
		for _, node := range []string{"a", "b", "c"} { // the one that fails is not the newest
			lost := lostOf[node]
			r := newRunner(t, store.Jobs, node, c, jobs.CheckCounters(func() recorder.Stats { return recorder.Stats{Lost: lost} }, c.now))
			run, err := r.RunDue(t.Context(), "check-counters", due)
			if err != nil || run == nil || (run.Error != "") != (lost > 0) {
				t.Errorf("%s: %+v, %v", node, run, err)
			}
		}
		r := newRunner(t, store.Jobs, "a", c, jobs.CheckCounters(func() recorder.Stats { return recorder.Stats{} }, c.now))
		if all, err := r.Runs(t.Context(), wire.RunList{Job: "check-counters"}); err != nil || len(all.Items) != 3 {
			t.Errorf("%d runs are recorded, %v", len(all.Items), err)
		}
		list, err := r.List(t.Context())
		if err != nil || list[0].Last.Node != "b" {
			t.Errorf("the last run is %+v, %v; want the failed one", list[0].Last, err)
		}
	})
}

func TestPerNodeJobRunsConcurrentlyOnNodesButOncePerNode(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		c := newClock("2026-11-20T01:05:00Z")
		entered, leave := make(chan struct{}), make(chan struct{})
		job := jobs.Job{Name: "own", Schedule: "@hourly", PerNode: true, Run: func(context.Context, time.Time) (string, error) {
			entered <- struct{}{}
			<-leave
			return "done", nil
		}}
		a, b := newRunner(t, store.Jobs, "a", c, job), newRunner(t, store.Jobs, "b", c, job)
		var running sync.WaitGroup
		for _, r := range []*jobs.Runner{a, b} {
			running.Go(func() {
				if run, err := r.RunNow(t.Context(), "own", unrecorded); err != nil || run.Result != "done" {
					t.Errorf("got %+v, %v", run, err)
				}
			})
			<-entered
		}
		if _, err := a.RunNow(t.Context(), "own", unrecorded); !fault.Is(err, fault.Conflict) {
			t.Errorf("a second RunNow on one node: got %v, want Conflict", err)
		}
		close(leave)
		running.Wait()
	})
}
