package offences_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore"
	sqloffences "github.com/stint-dev/stint/internal/sqlstore/offences"
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

// observed opens the database again, and calls look after each transaction.
func observed(t testing.TB, f *storetest.Fixture, look func()) *sqlstore.Store {
	t.Helper()
	if !f.Postgres() {
		if err := f.Close(); err != nil { // SQLite files have one user
			t.Fatal(err)
		}
	}
	s, err := sqlstore.Open(t.Context(), f.URL, sqlstore.Options{Now: f.Clock.Now, Observe: func(context.Context, string, time.Time, error) { look() }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestOldRowsAreDeletedInParts looks after each transaction at how many rows it has deleted.
func TestOldRowsAreDeletedInParts(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		const rows, most = 12_000, 5000
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
		left := map[string]int{}
		store := observed(t, f, func() {
			for _, table := range []string{"offences", "offence_days", "key_traffic"} {
				now, before := rowsOf(t, f, table), left[table]
				if deleted := before - now; deleted > most {
					t.Errorf("one transaction deleted %d rows of %s, want at most %d", deleted, table, most)
				}
				left[table] = now
			}
		})
		deleted, err := store.Offences.DeleteOlder(t.Context(), kept.Add(24*time.Hour), offences.Retention{Days: 48 * time.Hour}, nil)
		if err != nil || deleted != rows-1 {
			t.Errorf("%d offences were deleted, %v; want %d", deleted, err, rows-1)
		}
		if got := fmt.Sprint(left); got != "map[key_traffic:0 offence_days:0 offences:1]" {
			t.Errorf("left are %s", got)
		}
	})
}

// A part of a deletion that looks for the old rows by their time alone reads all of them, and a
// million are deleted in 200 parts.
func TestDeletionReadsOnlyItsPart(t *testing.T) {
	f := storetest.OpenSQLite(t)
	plan, err := sqloffences.PlanOfDeletion(f.Offences, t.Context())
	if err != nil || len(plan) != 1 || !strings.Contains(plan[0], "(start,policy_id,mac,kind,refused_by,source)<(?,?,?,?,?,?)") {
		t.Errorf("the plan is %q, %v; want a search by the whole bound", plan, err)
	}
}
