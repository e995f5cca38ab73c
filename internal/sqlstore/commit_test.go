package sqlstore_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

func TestCommitOverBrokenConnectionReturnsMaybeSaved(t *testing.T) {
	f := storetest.OpenPostgres(t)
	relay := servers.NewCommitBreaker(t, f.URL)
	s, err := sqlstore.Open(t.Context(), relay.URL, sqlstore.Options{Now: f.Clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for pattern, before := range map[string]bool{"token:lost": true, "token:saved": false} {
		relay.BreakNext(pattern, before)
		_, err := s.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, storetest.NewBlock(t, pattern, time.Time{}))
		if !fault.Is(err, fault.MaybeSaved) || !strings.Contains(err.Error(), "may have been saved") || !strings.Contains(err.Error(), "audit log") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want MaybeSaved in one line that names the audit log", pattern, err)
		}
	}
	page, err := s.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block})
	if err != nil || storetest.Patterns(page.Items) != "token:saved" {
		t.Fatalf("%s, %v", storetest.Patterns(page.Items), err)
	}
}

func TestCommitOfTerminatedSessionReturnsMaybeSaved(t *testing.T) {
	f := storetest.OpenPostgres(t)
	end := f.Raw(t)
	err := f.Write(t.Context(), func(tx *db.Tx) error {
		var pid int
		if _, err := tx.One("SELECT pg_backend_pid()", nil, &pid); err != nil {
			return err
		}
		_, err := end.ExecContext(t.Context(), "SELECT pg_terminate_backend($1, 30000)", pid)
		return err
	})
	if !fault.Is(err, fault.MaybeSaved) {
		t.Fatalf("got %v", err)
	}
}

// TestCommitRefusedByPostgresSavesNothing has a deferred trigger refuse it.
func TestCommitRefusedByPostgresSavesNothing(t *testing.T) {
	f := storetest.OpenPostgres(t)
	f.Exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END $$`)
	f.Exec(t, `CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON entries DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`)
	_, err := f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, storetest.NewBlock(t, "token:a", time.Time{}))
	wantUnavailable(t, err, "nothing was changed")
	page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block})
	if err != nil || len(page.Items) != 0 {
		t.Fatalf("%s, %v", storetest.Patterns(page.Items), err)
	}
}

// TestCommitWithCancelledContextReturnsMaybeSaved ends the context while Postgres,
// which hangs, has the COMMIT.
func TestCommitWithCancelledContextReturnsMaybeSaved(t *testing.T) {
	server := storetest.DedicatedPostgres(t)
	f := storetest.Open(t, server.URL)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := f.Write(ctx, func(*db.Tx) error {
		server.Stop()
		time.AfterFunc(3*time.Second, cancel) // COMMIT, which is next, has been sent by then
		return nil
	})
	server.Continue()
	if !fault.Is(err, fault.MaybeSaved) {
		t.Fatalf("got %v", err)
	}
}

func TestTokenIsReturnedWhenAfterChangeFails(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		node, err := sqlstore.Open(t.Context(), f.URL, sqlstore.Options{Now: f.Clock.Now, AfterChange: func(context.Context) error {
			return io.ErrUnexpectedEOF
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer node.Close()
		secret := identity.NewSecret([]identity.Access{identity.Check})
		made, err := node.Identities.AddToken(t.Context(), storetest.Operator, identity.Token{Name: "ci", Hint: secret.Hint, Hash: secret.Hash[:], Scopes: []identity.Access{identity.Check}})
		if !fault.Is(err, fault.Saved) || !errors.Is(err, io.ErrUnexpectedEOF) || made == nil || made.ID == "" {
			t.Fatalf("got %+v, %v", made, err)
		}
		next, old, err := node.Identities.RotateToken(t.Context(), storetest.Operator, made.ID, identity.NewSecret(made.Scopes), 0)
		if !fault.Is(err, fault.Saved) || next == nil || next.Name != "ci-2" || old.Revoked.IsZero() {
			t.Fatalf("got %+v, %+v, %v", next, old, err)
		}
	})
}
