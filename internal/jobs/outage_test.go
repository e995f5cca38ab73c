package jobs_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

// watchedStore reports the results of the calls by which a run begins.
type watchedStore struct {
	jobs.Store
	leases, reads, ends chan error
}

func note(into chan error, err error) {
	select {
	case into <- err:
	default:
	}
}

func (s watchedStore) AcquireLease(ctx context.Context, name, holder string, now, until time.Time) (bool, error) {
	held, err := s.Store.AcquireLease(ctx, name, holder, now, until)
	note(s.leases, err)
	return held, err
}

func (s watchedStore) LastRun(ctx context.Context, job string, notAfter time.Time) (*wire.JobRun, error) {
	last, err := s.Store.LastRun(ctx, job, notAfter)
	note(s.reads, err)
	return last, err
}

func (s watchedStore) EndRun(ctx context.Context, id int64, finished time.Time, result, problem string) error {
	err := s.Store.EndRun(ctx, id, finished, result, problem)
	note(s.ends, err)
	return err
}

func TestRunAtItsDueTimeInAnOutageIsMadeUpFor(t *testing.T) {
	server, store := stoppableDatabase(t)
	c := newClock("2026-11-20T00:59:59Z") // it does not go on before the database is killed
	made := followDaily(t, store, c.now, nil)
	if err := <-store.reads; err != nil {
		t.Fatal(err)
	}
	server.Kill()
	c.ms.Add(1000) // the job is due
	if err := <-store.leases; err == nil {
		t.Fatal("the lease was taken without a database")
	}
	server.Restart(false)
	wantMadeUp(t, made)
}

func TestRunMissedBeforeANodeStartsInAnOutageIsMadeUpFor(t *testing.T) {
	server, store := stoppableDatabase(t)
	server.Kill()
	made := followDaily(t, store, runningFrom("2026-11-20T03:00:00Z"), nil)
	if err := <-store.reads; err == nil {
		t.Fatal("the last run was read without a database")
	}
	server.Restart(false)
	wantMadeUp(t, made)
}

func TestRunWhoseEndIsNotRecordedIsRepeated(t *testing.T) {
	server, store := stoppableDatabase(t)
	made := followDaily(t, store, runningFrom("2026-11-20T03:00:00Z"), sync.OnceFunc(server.Kill))
	wantMadeUp(t, made)
	if err := <-store.ends; err == nil {
		t.Fatal("the end was recorded without a database")
	}
	server.Restart(false)
	wantMadeUp(t, made)
}

// stoppableDatabase returns a store with a run of the job daily on November 19.
func stoppableDatabase(t *testing.T) (*servers.PostgresServer, watchedStore) {
	t.Helper()
	server := storetest.DedicatedPostgres(t)
	store, err := sqlstore.Open(t.Context(), server.URL, sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	due := at("2026-11-19T01:00:00Z")
	if err := store.Jobs.EndRun(t.Context(), begin(t, store.Jobs, due), due, "done", ""); err != nil {
		t.Fatal(err)
	}
	return server, watchedStore{store.Jobs, make(chan error, 1), make(chan error, 1), make(chan error, 1)}
}

// runningFrom returns a clock that goes on from an instant.
func runningFrom(instant string) func() time.Time {
	began := time.Now()
	return func() time.Time { return at(instant).Add(time.Since(began)) }
}

// followDaily follows the schedule of the job daily by a clock until the test ends. The job calls
// work unless that is nil. It returns the due times of the runs.
func followDaily(t *testing.T, store jobs.Store, now func() time.Time, work func()) <-chan time.Time {
	t.Helper()
	made := make(chan time.Time, 10)
	r, err := jobs.New(jobs.Options{
		Store: store, Node: "a", Log: slog.New(slog.DiscardHandler), LeaseTime: 2 * time.Second, // so that it soon tries again
		Now: now,
	}, jobs.Job{Name: "daily", Schedule: "0 1 * * *", MakeUp: true, Run: func(_ context.Context, due time.Time) (string, error) {
		if work != nil {
			work()
		}
		made <- due
		return "done", nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return made
}

func wantMadeUp(t *testing.T, made <-chan time.Time) {
	t.Helper()
	select {
	case due := <-made:
		if !due.Equal(at("2026-11-20T01:00:00Z")) {
			t.Errorf("made up for %s", due)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the run was never made up for")
	}
}
