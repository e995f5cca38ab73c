package jobs_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/sqlstore"
)

// at is an instant of a test.
func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

// works is the work of a job that only succeeds.
func works(context.Context, time.Time) (string, error) { return "done", nil }

func TestARunOfAClockThatWasAheadDoesNotCountAsDone(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		c := newClock("2027-11-20T01:00:00Z") // a year ahead
		r := newRunner(t, store.Jobs, "a", c, jobs.Job{Name: "daily", Schedule: "0 1 * * *", MakeUp: true, Run: works})
		if run, err := r.RunDue(t.Context(), "daily", c.now()); err != nil || run == nil {
			t.Fatalf("ahead: %+v, %v", run, err)
		}
		c.set("2026-11-20T01:00:00Z")
		if run, err := r.RunDue(t.Context(), "daily", c.now()); err != nil || run == nil || run.Result != "done" {
			t.Errorf("with the right time it does not run: %+v, %v", run, err)
		}
		if run, err := r.RunDue(t.Context(), "daily", c.now()); err != nil || run != nil {
			t.Errorf("it runs twice: %+v, %v", run, err)
		}
		list, err := r.List(t.Context())
		if err != nil || !list[0].Last.Due.Equal(c.now()) {
			t.Errorf("the last run is %+v, %v", list[0].Last, err)
		}
		c.set("2026-11-21T09:00:00Z")
		if due := r.Missed(t.Context(), "daily"); !due.Equal(at("2026-11-21T01:00:00Z")) {
			t.Errorf("missed %s", due)
		}
	})
}

func TestARunOfAClockThatIsALittleAheadCounts(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		c := newClock("2026-11-20T01:00:00Z")
		r := newRunner(t, store.Jobs, "a", c, jobs.Job{Name: "daily", Schedule: "0 1 * * *", MakeUp: true, Run: works})
		if run, err := r.RunDue(t.Context(), "daily", c.now()); err != nil || run == nil {
			t.Fatalf("got %+v, %v", run, err)
		}
		c.ms.Add(-jobs.MaxClockSkew.Milliseconds())
		if run, err := r.RunDue(t.Context(), "daily", at("2026-11-20T01:00:00Z")); err != nil || run != nil {
			t.Errorf("a clock that is %s behind runs it again: %+v, %v", jobs.MaxClockSkew, run, err)
		}
	})
}

func TestADueTimeComesByTheWallClock(t *testing.T) {
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
