package offences_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/test/storetest"
)

// TestRollUpContinues breaks off the adding up of a day after some hours, adds late counts and
// continues, also where an earlier release has added up the hours but not their day: all counts are
// exact throughout.
func TestRollUpContinues(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		day := f.Clock.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)
		want := 0
		flush := func(id string, hours ...int) {
			t.Helper()
			b := &offences.Batch{ID: id, Node: "a"}
			for _, hour := range hours {
				minute := day.Add(time.Duration(hour)*time.Hour + 30*time.Minute).UnixMilli()
				b.Totals = append(b.Totals, offences.Totals{Minute: minute, Policy: 7, Counts: offences.Counts{Limited: 1}})
				b.Keys = append(b.Keys, offences.KeyTraffic{Minute: minute, Policy: 7, Key: "k:x", Refused: 1})
				b.Offences = append(b.Offences, offences.Offence{Minute: minute, Policy: 7, Key: "k:x", RefusedBy: "1/1s", Count: 1})
				want++
			}
			if _, err := f.Offences.Flush(t.Context(), b, offences.Evaluation{Now: f.Clock.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		check := func(when string) {
			t.Helper()
			span := offences.Query{From: day, To: day.Add(24 * time.Hour)}
			if got := ranked(t, f.Store, span)["k:x"]; got != int64(want) {
				t.Errorf("%s: got %d offences, want %d", when, got, want)
			}
			traffic, err := f.Offences.TrafficCounts(t.Context(), 7, span.From, span.To, 24*time.Hour)
			if err != nil || len(traffic.Points) != 1 || traffic.Points[0].Limited != int64(want) {
				t.Errorf("%s: got the traffic %+v, %v; want %d refusals", when, traffic, err, want)
			}
		}
		var all []int
		for hour := range 24 {
			all = append(all, hour)
		}
		f.Clock.Advance(3 * 24 * time.Hour)
		flush("all", all...)

		broken := "ON traffic FOR EACH ROW WHEN (NEW.span = 3 AND NEW.limited >= 11)"
		if f.Postgres() {
			f.Exec(t, "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken'; END $$")
			f.Exec(t, "CREATE TRIGGER broken BEFORE UPDATE "+broken+" EXECUTE FUNCTION broken()")
		} else {
			f.Exec(t, "CREATE TRIGGER broken BEFORE UPDATE "+broken+" BEGIN SELECT RAISE(ABORT, 'broken'); END")
		}
		if _, err := f.Offences.RollUp(t.Context(), f.Clock.Now()); err == nil {
			t.Fatal("the adding up was not broken off")
		}
		if added := rowsOf(t, f, "traffic WHERE span = 3 AND limited = 10"); added != 1 {
			t.Errorf("%d days have the counts of ten hours, want 1", added)
		}
		check("with ten hours of the day added up")
		if f.Postgres() {
			f.Exec(t, "DROP TRIGGER broken ON traffic")
		} else {
			f.Exec(t, "DROP TRIGGER broken")
		}
		flush("late", 3, 4, 12)
		check("after late counts")
		f.Exec(t, "DELETE FROM traffic WHERE span = 3")
		f.Exec(t, "DELETE FROM key_traffic WHERE span = 3")
		f.Exec(t, "DELETE FROM offences WHERE span = 3")
		f.Exec(t, "UPDATE rollups SET part_through = 0")
		flush("later", 2, 5, 11)
		check("as an earlier release leaves it")
		if _, err := f.Offences.RollUp(t.Context(), f.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		check("with the day added up")
		flush("last", 3, 23)
		check("after the last counts")
		if days := rowsOf(t, f, fmt.Sprintf("key_traffic WHERE span = 3 AND refused = %d", want)); days != 1 {
			t.Errorf("%d rows have the refusals of the key's day, want 1", days)
		}
	})
}

// TestHoursAreAddedUpInParts looks after each transaction at how many rows of the hour it has added.
func TestHoursAreAddedUpInParts(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		const keys, most = 3000, 5000
		hour := f.Clock.Now().Truncate(time.Hour)
		for minute := range 4 {
			b := &offences.Batch{ID: fmt.Sprint("minute ", minute), Node: "a"}
			for key := range keys {
				name := fmt.Sprintf("k:%d", key+keys*(minute%3)) // those of the first minute come again in the last
				b.Offences = append(b.Offences, offences.Offence{Minute: hour.Add(time.Duration(minute) * time.Minute).UnixMilli(), Policy: 7, Key: name, RefusedBy: "1/1s", Count: 1,
					MAC: offences.NewRefusalIDMaker(offenceSecret).MAC(7, name)})
			}
			if _, err := f.Offences.Flush(t.Context(), b, offences.Evaluation{Now: f.Clock.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		f.Clock.Advance(2 * time.Hour)
		rows := 0
		store := observed(t, f, func() {
			now := rowsOf(t, f, "offences WHERE span = 2")
			if now-rows > most {
				t.Errorf("one transaction added %d rows of the hour, want at most %d", now-rows, most)
			}
			rows = now
		})
		if _, err := store.Offences.RollUp(t.Context(), f.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		for from, want := range map[string]int{
			"offences WHERE span = 2": 3 * keys, "offences WHERE span = 2 AND offences = 2": keys,
			"offences WHERE span = 3": 3 * keys, "offences WHERE span = 3 AND offences = 2": keys,
			"offence_days": 3 * keys, "offence_days WHERE h12 = 2": keys,
		} {
			if n := rowsOf(t, f, from); n != want {
				t.Errorf("there are %d rows of %s, want %d", n, from, want)
			}
		}
	})
}
