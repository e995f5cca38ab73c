package jobs_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

func TestMain(m *testing.M) { servers.Main(m) }

// bothDatabases runs a test on SQLite and on Postgres.
func bothDatabases(t *testing.T, test func(t *testing.T, store *sqlstore.Store)) {
	for name, url := range map[string]func(t *testing.T) string{
		"SQLite":   func(t *testing.T) string { return storetest.Migrated.SQLite(t) },
		"Postgres": func(t *testing.T) string { return storetest.Migrated.Postgres(t).URL },
	} {
		t.Run(name, func(t *testing.T) {
			store, err := sqlstore.Open(t.Context(), url(t), sqlstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			test(t, store)
		})
	}
}

// clock is a clock that the test sets; nodes share it.
type clock struct{ ms atomic.Int64 }

func newClock(at string) *clock {
	c := new(clock)
	c.set(at)
	return c
}

func (c *clock) set(at string) {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		panic(err)
	}
	c.ms.Store(t.UnixMilli())
}

func (c *clock) now() time.Time { return time.UnixMilli(c.ms.Load()).UTC() }

func newRunner(t *testing.T, store jobs.Store, node string, c *clock, list ...jobs.Job) *jobs.Runner {
	t.Helper()
	r, err := jobs.New(jobs.Options{Store: store, Node: node, Now: c.now, Log: slog.New(slog.DiscardHandler)}, list...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRunIsRecordedWithItsResultOrError(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		c := newClock("2026-11-20T14:00:00Z")
		fails := false
		r := newRunner(t, store.Jobs, "a", c, jobs.Job{Name: "tidy", Help: "tidies", Schedule: "@hourly",
			Run: func(context.Context, time.Time) (string, error) {
				c.ms.Add(1500)
				if fails {
					return "", errors.New("disk full")
				}
				return "tidied 3 things", nil
			}})
		run, err := r.RunNow(t.Context(), "tidy", unrecorded)
		if err != nil || run.Result != "tidied 3 things" || run.Error != "" || run.TriggeredBy != jobs.ByOperator {
			t.Fatalf("got %+v, %v", run, err)
		}
		fails = true
		if run, err = r.RunNow(t.Context(), "tidy", unrecorded); err != nil || run.Error != "disk full" {
			t.Fatalf("got %+v, %v", run, err)
		}
		all, err := r.Runs(t.Context(), wire.RunList{Job: "tidy"})
		if err != nil || len(all.Items) != 2 {
			t.Fatalf("got %d runs, %v", len(all.Items), err)
		}
		last := all.Items[0]
		if last.Error != "disk full" || last.Node != "a" || last.FinishedAt.Sub(last.StartedAt.Time) != 1500*time.Millisecond {
			t.Errorf("recorded %+v", last)
		}
		list, err := r.List(t.Context())
		if err != nil || list[0].Last == nil || list[0].NextAt.Format(time.RFC3339) != "2026-11-20T15:00:00Z" {
			t.Errorf("listed %+v, %v", list, err)
		}
	})
}

func TestErrorThatIsNoUTF8IsRecorded(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		c := newClock("2026-11-20T01:00:00Z")
		r := newRunner(t, store.Jobs, "a", c, jobs.Job{Name: "daily", Schedule: "0 1 * * *", Run: func(context.Context, time.Time) (string, error) {
			return "", errors.New("refus\xe9 \x00")
		}})
		if _, err := r.RunDue(t.Context(), "daily", c.now()); err != nil {
			t.Fatal(err)
		}
		list, err := r.List(t.Context())
		if last := list[0].Last; err != nil || last.FinishedAt.IsZero() || last.Error != "refus\uFFFD \uFFFD" {
			t.Errorf("got %+v, %v", last, err)
		}
	})
}

func TestPanicInAJobIsAFailedRun(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		r := newRunner(t, store.Jobs, "a", newClock("2026-11-20T14:00:00Z"), jobs.Job{Name: "bad", Schedule: "@hourly",
			Run: func(context.Context, time.Time) (string, error) { panic("oh") }})
		run, err := r.RunNow(t.Context(), "bad", unrecorded)
		if err != nil || run.Error != "panic: oh" {
			t.Errorf("got %+v, %v", run, err)
		}
	})
}

func TestTwoNodesNeverRunOneJobAtOnce(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		c := newClock("2026-11-20T14:00:00Z")
		entered, leave := make(chan struct{}), make(chan struct{})
		job := jobs.Job{Name: "slow", Schedule: "@hourly", Run: func(context.Context, time.Time) (string, error) {
			entered <- struct{}{}
			<-leave
			return "done", nil
		}}
		a, b := newRunner(t, store.Jobs, "a", c, job), newRunner(t, store.Jobs, "b", c, job)
		var first sync.WaitGroup
		first.Go(func() {
			if run, err := a.RunNow(t.Context(), "slow", unrecorded); err != nil || run.Result != "done" {
				t.Errorf("the first: %+v, %v", run, err)
			}
		})
		<-entered
		if _, err := b.RunNow(t.Context(), "slow", unrecorded); !fault.Is(err, fault.Conflict) {
			t.Errorf("the second, while the first runs: %v", err)
		}
		close(leave)
		first.Wait()
		go func() { <-entered }()
		if run, err := b.RunNow(t.Context(), "slow", unrecorded); err != nil || run.Node != "b" {
			t.Errorf("the second, afterwards: %+v, %v", run, err)
		}
	})
}

// clockError is more than by how much two estimates of the clock of the database differ: each is
// wrong by the time that the question takes.
const clockError = time.Minute

func TestLeaseOfADeadNodeExpires(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		c := newClock("2026-11-20T14:00:00Z")
		if held, err := store.Jobs.AcquireLease(t.Context(), "job:tidy", "dead", c.now(), c.now().Add(jobs.LeaseTime)); err != nil || !held {
			t.Fatal(held, err)
		}
		r := newRunner(t, store.Jobs, "b", c, jobs.Job{Name: "tidy", Schedule: "@hourly",
			Run: func(context.Context, time.Time) (string, error) { return "done", nil }})
		if _, err := r.RunNow(t.Context(), "tidy", unrecorded); !fault.Is(err, fault.Conflict) {
			t.Errorf("while the lease is held: %v", err)
		}
		c.ms.Add((jobs.LeaseTime + clockError).Milliseconds())
		if run, err := r.RunNow(t.Context(), "tidy", unrecorded); err != nil || run.Result != "done" {
			t.Errorf("when it has run out: %+v, %v", run, err)
		}
	})
}

func TestRunsMissedInDowntimeAreRepeatedOnceByOneNode(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		c := newClock("2026-11-20T00:30:00Z")
		var runs atomic.Int64
		ran := make(chan time.Time, 10)
		job := jobs.Job{Name: "daily", Schedule: "0 1 * * *", MakeUp: true, Run: func(_ context.Context, due time.Time) (string, error) {
			runs.Add(1)
			ran <- due
			return "", nil
		}}
		// The last run was three days ago, and no node has run since.
		id, err := store.Jobs.BeginRun(t.Context(), wire.JobRun{Job: "daily", Node: "a", DueAt: wire.At(c.now().Add(-72 * time.Hour)), StartedAt: wire.At(c.now())})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Jobs.EndRun(t.Context(), id, c.now(), "", ""); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var nodes sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			nodes.Go(func() { newRunner(t, store.Jobs, name, c, job).Run(ctx) })
		}
		if due := <-ran; due.Format(time.RFC3339) != "2026-11-19T01:00:00Z" {
			t.Errorf("made up for %s", due)
		}
		stop()
		nodes.Wait()
		if n := runs.Load(); n != 1 {
			t.Errorf("ran %d times", n)
		}
	})
}

func TestInvalidScheduleIsRejectedAtTheStart(t *testing.T) {
	for text, want := range map[string]string{
		"CRON_TZ=UTC":              "time zone",
		"TZ=Europe/Berlin 0 1 * *": "time zone",
		"":                         "cannot be read",
		"every day":                "cannot be read",
		"61 * * * *":               "cannot be read",
		"0 0 31 2 *":               "never comes",
	} {
		if _, err := jobs.ParseSchedule(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	_, err := jobs.New(jobs.Options{Schedules: map[string]string{"nothing": "@daily"}})
	if err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("New with a schedule of an unknown job: got %v", err)
	}
}

func TestOneNodeNeverRunsOneJobTwiceAtOnce(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		c := newClock("2026-11-20T14:00:00Z")
		entered, leave := make(chan struct{}), make(chan struct{})
		var running, maxRunning atomic.Int64
		r := newRunner(t, store.Jobs, "a", c, jobs.Job{Name: "slow", Schedule: "@hourly", Run: func(context.Context, time.Time) (string, error) {
			maxRunning.Store(max(maxRunning.Load(), running.Add(1)))
			defer running.Add(-1)
			entered <- struct{}{}
			<-leave
			return "done", nil
		}})
		var first sync.WaitGroup
		first.Go(func() {
			if run, err := r.RunNow(t.Context(), "slow", unrecorded); err != nil || run.Result != "done" {
				t.Errorf("the first: %+v, %v", run, err)
			}
		})
		<-entered
		c.ms.Add(jobs.LeaseTime.Milliseconds() / 2)
		second := make(chan error, 1)
		go func() {
			_, err := r.RunNow(t.Context(), "slow", unrecorded)
			second <- err
		}()
		select {
		case err := <-second:
			if !fault.Is(err, fault.Conflict) {
				t.Errorf("the second, while the first runs: %v", err)
			}
		case <-entered:
			t.Error("the second run began while the first runs")
		}
		close(leave)
		first.Wait()
		if n := maxRunning.Load(); n != 1 {
			t.Errorf("%d runs were active at once, want 1", n)
		}
		go func() { <-entered }()
		if _, err := r.RunNow(t.Context(), "slow", unrecorded); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// unreachableLeases is a store that acquires one lease and then fails.
type unreachableLeases struct {
	jobs.Store
	calls atomic.Int64
}

func (s *unreachableLeases) AcquireLease(ctx context.Context, name, holder string, now, until time.Time) (bool, error) {
	if s.calls.Add(1) == 1 {
		return s.Store.AcquireLease(ctx, name, holder, now, until)
	}
	return false, fault.New(fault.Unavailable, "The database cannot be reached.")
}

func (s *unreachableLeases) ReleaseLease(context.Context, string, string) error {
	return fault.New(fault.Unavailable, "The database cannot be reached.")
}

func TestRunStopsBeforeAnotherNodeMayTakeItsLease(t *testing.T) {
	store, err := sqlstore.Open(t.Context(), filepath.Join(t.TempDir(), "stint.db"), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	leases := &unreachableLeases{Store: store.Jobs}
	runner, err := jobs.New(jobs.Options{Store: leases, Node: "a", Log: slog.New(slog.DiscardHandler), LeaseTime: 200 * time.Millisecond},
		jobs.Job{Name: "slow", Schedule: "@hourly", Run: func(ctx context.Context, _ time.Time) (string, error) {
			<-ctx.Done() // otherwise the test times out
			return "", ctx.Err()
		}})
	if err != nil {
		t.Fatal(err)
	}
	run, err := runner.RunNow(t.Context(), "slow", unrecorded)
	if err != nil || !strings.Contains(string(run.Error), "another node may run this job now") {
		t.Fatalf("got %+v, %v", run, err)
	}
}

// unrecorded is a request for a run that writes no record.
var unrecorded = jobs.Request{Record: func(context.Context) error { return nil }}

func TestDisabledJobGivesItsReason(t *testing.T) {
	o := jobs.Options{Disabled: map[string]string{"back-up": "--backup-dir is not set"}}
	r, err := jobs.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.RunNow(t.Context(), "back-up", unrecorded); !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "--backup-dir is not set") {
		t.Errorf("RunNow: got %v, want NotFound with the reason", err)
	}
	o.Schedules = map[string]string{"back-up": "@daily"}
	if _, err := jobs.New(o); err == nil || !strings.Contains(err.Error(), "--backup-dir is not set") {
		t.Errorf("New with its schedule: got %v, want an error with the reason", err)
	}
}

func TestRequestedRunIsRecordedBeforeItAndOnlyIfItRuns(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		var order []string
		r := newRunner(t, store.Jobs, "a", newClock("2026-11-20T14:00:00Z"), jobs.Job{Name: "tidy", Schedule: "@hourly",
			Run: func(context.Context, time.Time) (string, error) { order = append(order, "run"); return "done", nil }})
		var begun wire.JobRun
		q := jobs.Request{
			Record: func(context.Context) error { order = append(order, "record"); return nil },
			Began:  func(r wire.JobRun) { begun, order = r, append(order, "began") },
		}
		if _, err := r.RunNow(t.Context(), "other", q); !fault.Is(err, fault.NotFound) || len(order) != 0 {
			t.Errorf("RunNow of an unknown job: got %v after %v, want NotFound and no record", err, order)
		}
		broken := errors.New("no database")
		if _, err := r.RunNow(t.Context(), "tidy", jobs.Request{Record: func(context.Context) error { return broken }, Began: q.Began}); !errors.Is(err, broken) || len(order) != 0 {
			t.Errorf("RunNow if the record fails: got %v after %v, want %v and no run", err, order, broken)
		}
		run, err := r.RunNow(t.Context(), "tidy", q)
		if err != nil || !slices.Equal(order, []string{"record", "began", "run"}) {
			t.Fatalf("the order is %v, %v", order, err)
		}
		if begun.ID != run.ID || !begun.FinishedAt.IsZero() {
			t.Errorf("began %+v, which ended as %+v", begun, run)
		}
	})
}
