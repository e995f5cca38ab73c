package operations_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

func TestRetentionDeletesOnlyBlocksEndedLongAgo(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		storetest.AddEntry(t, f, storetest.NewBlock(t, "token:good", time.Time{}), blocks.Fail)
		storetest.AddEntry(t, f, storetest.NewBlock(t, "token:expires", f.Clock.Now().Add(time.Hour)), blocks.Fail)
		ended := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:ended", time.Time{}), blocks.Fail).Entry
		if _, err := f.Entries.End(ctx, storetest.Operator, blocks.Block, "", ended.ID); err != nil {
			t.Fatal(err)
		}
		f.Clock.Advance(2 * time.Hour)
		late := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:late", time.Time{}), blocks.Fail).Entry
		if _, err := f.Entries.End(ctx, storetest.Operator, blocks.Block, "", late.ID); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{1, 0} { // a second run finds nothing
			ended, err := f.Entries.EndExpired(ctx, f.Clock.Now())
			if err != nil || ended != want {
				t.Fatalf("%d were ended, %v; want %d", ended, err, want)
			}
		}
		for _, want := range []int{2, 0} {
			deleted, err := f.Retention.DeleteEndedBefore(ctx, f.Clock.Now().Add(-30*time.Minute))
			if err != nil || deleted != want {
				t.Fatalf("%d were deleted, %v; want %d", deleted, err, want)
			}
		}
		page, err := f.Entries.Find(ctx, blocks.Filter{Kind: blocks.Block, State: "all", At: f.Clock.Now()})
		if err != nil || storetest.Patterns(page.Items) != "token:good token:late" {
			t.Fatalf("got %q, %v, want token:good and token:late", storetest.Patterns(page.Items), err)
		}
	})
}

// A state between two transactions shows that other changes need not wait for all of a job.
func TestManyEntriesEndInSeveralTransactions(t *testing.T) {
	const many = 12_000
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		expires := f.Clock.Now().Add(time.Hour)
		_, err := f.Entries.Import(ctx, storetest.Operator, func(yield func(blocks.Entry, error) bool) {
			for i := range many {
				if !yield(storetest.NewBlock(t, "token:"+strconv.Itoa(i), expires), nil) {
					return
				}
			}
		}, blocks.Keep, nil)
		if err != nil {
			t.Fatal(err)
		}
		f.Clock.Advance(2 * time.Hour)
		wantParts(t, f, "archive", `SELECT count(*) FROM entries WHERE place = scope`, many, func(s *sqlstore.Store) (int, error) { return s.Entries.EndExpired(ctx, f.Clock.Now()) })
		wantParts(t, f, "delete", `SELECT count(*) FROM entries`, many, func(s *sqlstore.Store) (int, error) { return s.Retention.DeleteEndedBefore(ctx, f.Clock.Now()) })
	})
}

func TestManyVersionsAreDeletedInSeveralTransactions(t *testing.T) {
	const many = 60_000
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		f.Exec(t, `INSERT INTO entry_versions (entry_id, revision, replaced, expires_at, ended_at, reason)
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < `+strconv.Itoa(many)+`)
SELECT 'deleted', n, n + 1, 1000, 0, '' FROM numbers`)
		wantParts(t, f, "versions", `SELECT count(*) FROM entry_versions`, many, func(s *sqlstore.Store) (int, error) {
			_, err := s.Retention.DeleteEndedBefore(t.Context(), f.Clock.Now())
			return many, err
		})
	})
}

func TestManyRecordsAreDeletedInSeveralTransactions(t *testing.T) {
	const many = 60_000
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		f.Exec(t, `INSERT INTO audit (at, actor_kind, actor_id, actor_name, actor_address, action, object, object_id, summary, revision)
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < `+strconv.Itoa(many)+`)
SELECT 1000, 'system', '', 'escalation', '', 'block.add', 'block', '', 'many', 1 FROM numbers`)
		f.Clock.Advance(time.Hour)
		storetest.AddToken(t, f, "covers", identity.Check) // adds all to the chain
		before := f.Clock.Now()
		wantParts(t, f, "records", `SELECT count(*) FROM audit WHERE summary = 'many'`, many, func(s *sqlstore.Store) (int, error) {
			n, err := s.Retention.DeleteRecordsBefore(t.Context(), before)
			return int(n) - 1, err // one is that of the new database
		})
		v := storetest.WantIntactChain(t, f, audit.Link{})
		if want := int64(1 + 4); v.Records != want {
			t.Errorf("the chain has %d records, want the one of the token and 4 about what was deleted", v.Records)
		}
	})
}

// wantParts runs a job that brings a count from many to 0. After some transaction of the job the
// count must be in between.
func wantParts(t *testing.T, f *storetest.Fixture, name, count string, many int, job func(*sqlstore.Store) (int, error)) {
	t.Helper()
	between, left := false, many
	observed, err := sqlstore.Open(t.Context(), f.URL, sqlstore.Options{Now: f.Clock.Now, Observe: func(ctx context.Context, _ string, _ time.Time, _ error) {
		if err := f.DB.View(ctx, func(tx *db.Tx) error { _, err := tx.One(count, nil, &left); return err }); err != nil {
			t.Error(err)
		}
		between = between || left > 0 && left < many
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer observed.Close()
	if n, err := job(observed); err != nil || n != many {
		t.Errorf("%s: got %d, %v, want %d", name, n, err, many)
	}
	if left > 0 || !between {
		t.Errorf("%s: %d are left; all were changed in one transaction: %v", name, left, !between)
	}
}

func TestRetentionDeletesTokensEndedLongAgo(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		addToken := func(name string, expires time.Time) string {
			secret := identity.NewSecret([]identity.Access{identity.Read})
			made, err := f.Identities.AddToken(ctx, storetest.Operator, identity.Token{
				Name: name, Scopes: []identity.Access{identity.Read}, Expires: expires, Hash: secret.Hash[:], Hint: secret.Hint,
			})
			if err != nil {
				t.Fatal(err)
			}
			return made.ID
		}
		addToken("stays", time.Time{})
		addToken("expired", f.Clock.Now().Add(time.Minute))
		revoked := addToken("revoked", time.Time{})
		if _, err := f.Identities.RevokeToken(ctx, storetest.Operator, revoked); err != nil {
			t.Fatal(err)
		}
		f.Clock.Advance(time.Hour)
		late := addToken("late", time.Time{})
		if _, err := f.Identities.RevokeToken(ctx, storetest.Operator, late); err != nil {
			t.Fatal(err)
		}
		deleted, err := f.Retention.DeleteTokensBefore(ctx, f.Clock.Now().Add(-time.Minute))
		if err != nil || deleted != 2 {
			t.Fatalf("%d were deleted, %v; want 2", deleted, err)
		}
		left, err := f.Identities.Tokens(ctx)
		if err != nil || len(left) != 2 {
			t.Fatalf("got the tokens %v, want 2; %v", left, err)
		}
	})
}

// A change that is not committed yet when a job finds its entry makes the entry active again: the
// job waits for it and leaves the entry.
func TestEntryThatBecomesActiveIsLeft(t *testing.T) {
	for name, job := range map[string]func(f *storetest.Fixture) (int, error){
		"archive": func(f *storetest.Fixture) (int, error) { return f.Entries.EndExpired(t.Context(), f.Clock.Now()) },
		"delete": func(f *storetest.Fixture) (int, error) {
			return f.Retention.DeleteEndedBefore(t.Context(), f.Clock.Now())
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := storetest.OpenPostgres(t)
			ctx := t.Context()
			expired := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:expired", f.Clock.Now().Add(time.Hour)), blocks.Fail).Entry
			ended := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:ended", time.Time{}), blocks.Fail).Entry
			if _, err := f.Entries.End(ctx, storetest.Operator, blocks.Block, "", ended.ID); err != nil {
				t.Fatal(err)
			}
			f.Clock.Advance(2 * time.Hour)
			raw := f.Raw(t)
			change, err := raw.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = change.Rollback() }()
			if _, err := change.ExecContext(ctx, `UPDATE entries SET expires_at = $1, ended_at = 0, ended_by = '', place = scope`, f.Clock.Now().Add(time.Hour).UnixMilli()); err != nil {
				t.Fatal(err)
			}
			type result struct {
				n   int
				err error
			}
			done := make(chan result, 1)
			go func() {
				n, err := job(f)
				done <- result{n, err}
			}()
			servers.Await(t, "the job waits for the change", func() (waits bool) {
				const waiting = `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`
				if err := raw.QueryRowContext(ctx, waiting).Scan(&waits); err != nil {
					t.Fatal(err)
				}
				return waits
			})
			if err := change.Commit(); err != nil {
				t.Fatal(err)
			}
			if r := <-done; r.err != nil || r.n != 0 {
				t.Errorf("the job changed %d, %v, want none", r.n, r.err)
			}
			page, err := f.Entries.Find(ctx, blocks.Filter{Kind: blocks.Block, At: f.Clock.Now()})
			if err != nil || len(page.Items) != 2 {
				t.Errorf("got %q, %v, want the active blocks %q and %q", storetest.Patterns(page.Items), err, expired.Pattern, ended.Pattern)
			}
		})
	}
}
