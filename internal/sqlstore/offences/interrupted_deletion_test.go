package offences_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/test/storetest"
)

// TestInterruptedDeletionLosesNoCounts breaks off the deletion of two days of minutes after some
// hours, as an outage of the database does. The hours have the same counts.
func TestInterruptedDeletionLosesNoCounts(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		const hours = 48
		start := f.Clock.Now() // a whole hour
		b := &offences.Batch{ID: "one", Node: "a"}
		for i := range hours {
			minute := start.Add(time.Duration(i)*time.Hour + 30*time.Minute).UnixMilli()
			b.Totals = append(b.Totals, offences.Totals{Minute: minute, Policy: 7, Counts: offences.Counts{Allowed: 1, Limited: 1}})
			b.Offences = append(b.Offences, offences.Offence{Minute: minute, Policy: 7, Key: "k:x", RefusedBy: "1/1s", Count: 1})
		}
		f.Clock.Advance(10 * 24 * time.Hour)
		if _, err := f.Offences.Flush(t.Context(), b, offences.Evaluation{Now: f.Clock.Now()}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Offences.RollUp(t.Context(), f.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		deletion := "BEFORE DELETE ON offences FOR EACH ROW WHEN (OLD.start >= " + strconv.FormatInt(start.Add(10*time.Hour).UnixMilli(), 10) + ")"
		if f.Postgres() {
			f.Exec(t, "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken'; END $$")
			f.Exec(t, "CREATE TRIGGER broken "+deletion+" EXECUTE FUNCTION broken()")
		} else {
			f.Exec(t, "CREATE TRIGGER broken "+deletion+" BEGIN SELECT RAISE(ABORT, 'broken'); END")
		}
		if _, err := f.Offences.DeleteOlder(t.Context(), f.Clock.Now(), offences.Retention{Minutes: 24 * time.Hour}, nil); err == nil {
			t.Fatal("the deletion was not broken off")
		}
		traffic, err := f.Offences.TrafficCounts(t.Context(), 7, start, start.Add(hours*time.Hour), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		limited := int64(0)
		for _, p := range traffic.Points {
			limited += p.Limited
		}
		if limited != hours {
			t.Errorf("the traffic has %d of %d refusals", limited, hours)
		}
		// Only the edges of a span are read by minutes.
		ranking, err := f.Offences.Rank(t.Context(), offences.Query{From: start.Add(15 * time.Minute), To: start.Add(45 * time.Minute)})
		if err != nil || ranking.Offences != 1 {
			t.Errorf("the first half hour has %d offences, %v; want 1", ranking.Offences, err)
		}
	})
}
