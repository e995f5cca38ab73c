package jobs_test

import (
	"context"
	"testing"
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
