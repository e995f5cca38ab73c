package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

func TestStoreReturnsUnavailableAndRecoversWithPostgres(t *testing.T) {
	server := storetest.DedicatedPostgres(t)
	f := storetest.Open(t, server.URL)
	storetest.AddEntry(t, f, storetest.NewBlock(t, "token:before", time.Time{}), blocks.Fail)
	server.Kill()
	_, err := f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, storetest.NewBlock(t, "token:during", time.Time{}))
	storetest.WantFault(t, err, fault.Unavailable)
	storetest.WantFault(t, f.Ping(t.Context()), fault.Unavailable)
	_, err = f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block})
	storetest.WantFault(t, err, fault.Unavailable)
	err = f.EachChange(t.Context(), catalog.Position{}, func(catalog.Changes) error { return nil })
	storetest.WantFault(t, err, fault.Unavailable)

	server.Restart(false)
	storetest.AddEntry(t, f, storetest.NewBlock(t, "token:after", time.Time{}), blocks.Fail)
	page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block})
	if err != nil || storetest.Patterns(page.Items) != "token:after token:before" {
		t.Fatalf("%s, %v", storetest.Patterns(page.Items), err)
	}
}

func TestStoreStopsWaitingForHangingPostgresWithContext(t *testing.T) {
	server := storetest.DedicatedPostgres(t)
	f := storetest.Open(t, server.URL)
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := f.Entries.Add(ctx, storetest.Operator, blocks.Fail, storetest.NewBlock(t, "token:a", time.Time{}))
	storetest.WantFault(t, err, fault.Unavailable)
	cancelled, cancelNow := context.WithCancel(t.Context())
	cancelNow()
	if _, err := f.Entries.Add(cancelled, storetest.Operator, blocks.Fail, storetest.NewBlock(t, "token:a", time.Time{})); !errors.Is(err, context.Canceled) {
		t.Fatalf("Add with a cancelled context: got %v, want context.Canceled", err)
	}
	silent, endSilent := context.WithCancelCause(t.Context())
	time.AfterFunc(200*time.Millisecond, func() { endSilent(fmt.Errorf("it answers nothing: %w", context.DeadlineExceeded)) })
	answered := db.LastAnswer(f.DB)
	_, err = f.Entries.Find(silent, blocks.Filter{Kind: blocks.Block})
	storetest.WantFault(t, err, fault.Unavailable)
	if got := db.LastAnswer(f.DB); answered.IsZero() || !got.Equal(answered) {
		t.Errorf("LastAnswer is %v after a read that was not answered, and was %v before", got, answered)
	}
	server.Continue()
	storetest.AddEntry(t, f, storetest.NewBlock(t, "token:b", time.Time{}), blocks.Fail)
	if got := db.LastAnswer(f.DB); !got.After(answered) {
		t.Errorf("LastAnswer is %v after an answer, and was %v before", got, answered)
	}
}

func TestNewSucceedsWhilePostgresIsDown(t *testing.T) {
	server := storetest.DedicatedPostgres(t)
	server.Kill()
	s, err := sqlstore.New(server.URL, sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	storetest.WantFault(t, s.Prepare(t.Context()), fault.Unavailable)
	server.Restart(false)
	for range 2 {
		if err := s.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if policies, err := s.Policies.Policies(t.Context()); err != nil || len(policies) != 1 {
		t.Errorf("got the policies %v, %v, want one", policies, err)
	}
}

func TestStoreContinuesAfterNodeDiedInTransaction(t *testing.T) {
	f := storetest.OpenPostgres(t)
	db := f.Raw(t)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN; UPDATE revision SET value = value + 1"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = f.Entries.Add(ctx, storetest.Operator, blocks.Fail, storetest.NewBlock(t, "token:a", time.Time{}))
	storetest.WantFault(t, err, fault.Unavailable)
	_ = conn.Close()
	_ = db.Close() // as if the process had died
	added := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", time.Time{}), blocks.Fail)
	if added.Entry.Revision != 2 {
		t.Fatalf("the revision of the failed change was not reused: %d", added.Entry.Revision)
	}
}

func TestStoreClockAndHealth(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		first, err := f.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		second, err := f.Now(t.Context())
		if err != nil || second.Before(first) || first.Year() < 2024 {
			t.Fatalf("Now() = %v, then %v, %v", first, second, err)
		}
		h, err := f.Health(t.Context())
		if err != nil || h.Revision != 1 || h.Migration < 2 || h.Clock.Before(second) {
			t.Fatalf("%+v, %v", h, err)
		}
		if err := f.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// A URL names both servers, and which of them accepts changes is known to neither the URL nor a
// node: a primary that failed comes back as the standby of the other.
func TestConnectionUsesServerThatAcceptsChanges(t *testing.T) {
	standby, primary := servers.DedicatedPostgres(t), servers.DedicatedPostgres(t)
	at := func(hosts string) string { return "postgres://stint@" + hosts + "/postgres?sslmode=disable" }
	old, err := sql.Open("pgx", at(standby.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	for _, statement := range []string{"ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"} {
		if _, err := old.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	servers.Await(t, "the other server refuses changes", func() bool {
		fresh, err := sql.Open("pgx", at(standby.Addr))
		if err != nil {
			return false
		}
		defer fresh.Close()
		var state string
		return fresh.QueryRowContext(t.Context(), "SHOW default_transaction_read_only").Scan(&state) == nil && state == "on"
	})
	s, err := sqlstore.Open(t.Context(), at(standby.Addr+","+primary.Addr), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, storetest.NewBlock(t, "token:a", time.Time{})); err != nil {
		t.Error(err)
	}
}

// pg_restore fills one table after the other, the revision before the settings, tokens and users. A
// node that took what it found for everything would never read the rest.
func TestCatalogWaitsForSettingsOfRestoredDatabase(t *testing.T) {
	f := storetest.OpenPostgres(t)
	c := catalog.New(f, time.Now)
	f.Exec(t, "CREATE TABLE rest AS SELECT * FROM settings")
	f.Exec(t, "DELETE FROM settings")
	storetest.WantFault(t, c.Refresh(t.Context()), fault.Unavailable)
	if c.Loaded() {
		t.Error("the node decides without the settings")
	}
	f.Exec(t, "INSERT INTO settings SELECT * FROM rest")
	if err := c.Refresh(t.Context()); err != nil || len(c.Settings().Secret) == 0 {
		t.Errorf("afterwards the secret has %d bytes, %v", len(c.Settings().Secret), err)
	}
}
