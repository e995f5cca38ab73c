package offences_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/test/storetest"
)

// rowsOf returns the number of rows that a query selects.
func rowsOf(t testing.TB, f *storetest.Fixture, from string) (n int) {
	t.Helper()
	if err := f.Raw(t).QueryRow("SELECT count(*) FROM " + from).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDaysAreAddedUpByTheHour breaks off the adding up of a day after some hours, adds late counts
// and continues: all counts are exact throughout.
func TestDaysAreAddedUpByTheHour(t *testing.T) {
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
		if done, err := f.Offences.RollUp(t.Context(), f.Clock.Now()); err != nil || done != 2 {
			t.Errorf("%d hours and days were completed, %v; want the day and the empty one after it", done, err)
		}
		check("with the day added up")
		flush("later", 3, 23)
		check("after later counts")
		if days := rowsOf(t, f, fmt.Sprintf("key_traffic WHERE span = 3 AND refused = %d", want)); days != 1 {
			t.Errorf("%d rows have the refusals of the key's day, want 1", days)
		}
	})
}

// TestOldRowsAreDeletedInParts looks after each transaction at how many rows it has deleted.
func TestOldRowsAreDeletedInParts(t *testing.T) {
	storetest.OnBothURLs(t, func(t *testing.T, url string) {
		const rows, most = 12_000, 5000
		f := storetest.Open(t, url)
		old, kept := f.Clock.Now().Truncate(24*time.Hour), f.Clock.Now().Truncate(24*time.Hour).Add(3*24*time.Hour)
		numbers, mac := "generate_series(1, 12000) AS n", "decode(lpad(to_hex(n), 20, '0'), 'hex')"
		if !f.Postgres() {
			numbers, mac = "(WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < 12000) SELECT n FROM up) AS numbers", "CAST(printf('%010d', n) AS BLOB)"
		}
		f.Exec(t, fmt.Sprintf(`INSERT INTO offences (span, start, policy_id, mac, kind, refused_by, source, key, offences, overcount, first_at, first_boundary, first_retry_at, first_meta, last_at,
			last_boundary, last_retry_at, last_meta) SELECT 3, CASE WHEN n > %d THEN %d ELSE %d END, 7, %s, 0, '1/1s', '', 'k:' || n, 1, 0, 0, 0, 0, '', 0, 0, 0, '' FROM %s`,
			rows-1, kept.UnixMilli(), old.UnixMilli(), mac, numbers))
		f.Exec(t, fmt.Sprintf("INSERT INTO offence_days (start, key, policy_id, kind) SELECT %d, 'k:' || n, 7, 0 FROM %s", old.UnixMilli(), numbers))
		f.Exec(t, fmt.Sprintf("INSERT INTO key_traffic (span, start, policy_id, key, allowed, refused, cost, overcount) SELECT 3, %d, 7, 'k:' || n, 1, 0, 0, 0 FROM %s", old.UnixMilli(), numbers))
		tables := []string{"offences", "offence_days", "key_traffic"}
		left := map[string]int{}
		for _, table := range tables {
			left[table] = rowsOf(t, f, table)
		}
		look := func() {
			for _, table := range tables {
				now := rowsOf(t, f, table)
				if deleted := left[table] - now; deleted > most {
					t.Errorf("one transaction deleted %d rows of %s, want at most %d", deleted, table, most)
				}
				left[table] = now
			}
		}
		if !strings.HasPrefix(url, "postgres") {
			if err := f.Close(); err != nil { // SQLite files have one user
				t.Fatal(err)
			}
		}
		store, err := sqlstore.Open(t.Context(), url, sqlstore.Options{Now: f.Clock.Now, Observe: func(context.Context, string, time.Time, error) { look() }})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		deleted, err := store.Offences.DeleteOlder(t.Context(), kept.Add(24*time.Hour), offences.Retention{Days: 48 * time.Hour}, nil)
		if err != nil || deleted != rows-1 {
			t.Errorf("%d offences were deleted, %v; want %d", deleted, err, rows-1)
		}
		look()
		if got := fmt.Sprint(left); got != "map[key_traffic:0 offence_days:0 offences:1]" {
			t.Errorf("left are %s", got)
		}
	})
}
