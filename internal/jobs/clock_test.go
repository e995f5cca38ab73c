package jobs_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/wire"
)

// A node with a wrong clock could regard everything as old and delete it.
func TestNodeWithAWrongClockRunsNoJobs(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		c := newClock("2026-11-20T14:00:00Z")
		theirs := c.now()
		var unreachable error
		refused := make(chan string, 9)
		runs := make(chan time.Time, 9)
		runner := func() *jobs.Runner {
			r, err := jobs.New(jobs.Options{
				Store: store.Jobs, Node: "a", Now: c.now, Log: slog.New(slog.NewTextHandler(lines(refused), nil)),
				DatabaseNow: func(context.Context) (time.Time, error) { return theirs, unreachable },
			}, jobs.Job{Name: "delete", Schedule: "@daily", MakeUp: true, Run: func(_ context.Context, due time.Time) (string, error) {
				runs <- due
				return "deleted", nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		for _, at := range []string{"2026-11-20T14:00:00Z", "2026-11-20T14:59:59Z", "2026-11-20T13:00:01Z"} {
			c.set(at)
			if _, err := runner().RunNow(t.Context(), "delete", unrecorded); err != nil {
				t.Errorf("at %s: %v", at, err)
			}
			<-runs
		}
		for at, want := range map[string]string{"2029-11-20T14:00:00Z": "26304h0m0s ahead of", "2026-11-20T12:59:59Z": "1h0m1s behind"} {
			c.set(at)
			if _, err := runner().RunNow(t.Context(), "delete", unrecorded); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), want) {
				t.Errorf("at %s: %v, want %q", at, err, want)
			}
		}
		unreachable = errors.New("gone")
		if _, err := runner().RunNow(t.Context(), "delete", unrecorded); !errors.Is(err, unreachable) {
			t.Errorf("without the database: %v", err)
		}
		unreachable = nil

		// According to the clock of this node, the runs of years are missing.
		c.set("2029-11-20T14:00:00Z")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { runner().Run(ctx); close(done) }()
		select {
		case due := <-runs:
			t.Errorf("the job ran for %s, want no run", due)
		case line := <-refused:
			if !strings.Contains(line, "ahead of that of the database") {
				t.Errorf("logged %q, want that the clock is ahead of the database", line)
			}
		}
		cancel()
		<-done
	})
}

// A report of a day was written before the day was over, if the clock of one node was ahead, and no
// other node wrote it again.
func TestRunWaitsForTheClockOfTheDatabase(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		began := time.Now()
		now := func() time.Time { return at("2026-11-20T00:59:59Z").Add(time.Since(began)) }
		theirs := func(context.Context) (time.Time, error) { return now().Add(-2 * time.Second), nil }
		if _, err := store.Jobs.BeginRun(t.Context(), wire.JobRun{Job: "daily", DueAt: wire.At(at("2026-11-19T01:00:00Z")), StartedAt: wire.At(now())}); err != nil {
			t.Fatal(err)
		}
		runs := make(chan time.Time, 9)
		r, err := jobs.New(jobs.Options{Store: store.Jobs, Node: "a", Now: now, DatabaseNow: theirs, Log: slog.New(slog.DiscardHandler)},
			jobs.Job{Name: "daily", Schedule: "0 1 * * *", MakeUp: true, Run: func(ctx context.Context, due time.Time) (string, error) {
				if due.Equal(at("2026-11-20T01:00:00Z")) {
					is, _ := theirs(ctx)
					runs <- is
				}
				return "done", nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		select {
		case is := <-runs:
			if is.Before(at("2026-11-20T01:00:00Z")) {
				t.Errorf("the job ran while it was %s for the database", is)
			}
		case <-time.After(30 * time.Second):
			t.Error("the job did not run")
		}
		cancel()
		<-done
	})
}

// lines sends what is written, a line at a time.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}
