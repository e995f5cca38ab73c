package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

func TestEachChangeFromStartYieldsAllActiveState(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		storetest.AddEntry(t, f, storetest.NewBlock(t, "token:expiring", f.Clock.Now().Add(time.Second)), blocks.Fail)
		ended := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:ended", time.Time{}), blocks.Fail).Entry
		if _, err := f.Entries.End(t.Context(), storetest.Operator, blocks.Block, "", ended.ID); err != nil {
			t.Fatal(err)
		}
		storetest.AddEntry(t, f, storetest.NewBlock(t, "token:active", time.Time{}), blocks.Fail)
		if _, err := f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, blocks.Entry{Kind: blocks.Exemption, Pattern: keytest.Pattern(t, "token:x")}); err != nil {
			t.Fatal(err)
		}
		f.Clock.Advance(time.Second)
		got := storetest.ChangesSince(t, f, 0)
		if got.Revision != 6 || !got.PoliciesChanged || len(got.Policies) != 1 || len(got.Exemptions) != 1 || storetest.Patterns(got.Blocks) != "token:active" {
			t.Fatalf("got %+v", got)
		}
		if got.Settings == nil || got.Settings.IPv6Bits != 64 || len(got.Settings.Secret) != 32 {
			t.Fatalf("settings %+v", got.Settings)
		}
		if again := storetest.ChangesSince(t, f, got.Revision); again.Called {
			t.Fatal("apply was called though nothing has changed")
		}
	})
}

func TestEachChangeYieldsOnlyChangesSinceRevision(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		active := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:active", time.Time{}), blocks.Fail).Entry
		since := active.Revision
		added := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:new", time.Time{}), blocks.Fail).Entry
		got := storetest.ChangesSince(t, f, since)
		if got.PoliciesChanged || got.Policies != nil || got.Settings != nil || len(got.Tokens) != 0 || storetest.Patterns(got.Blocks) != "token:new" {
			t.Fatalf("got %+v", got)
		}
		if _, err := f.Entries.End(ctx, storetest.Operator, blocks.Block, "", added.ID); err != nil {
			t.Fatal(err)
		}
		if got := storetest.ChangesSince(t, f, got.Revision); len(got.Blocks) != 1 || got.Blocks[0].Ended().IsZero() {
			t.Fatalf("an ended block: got %+v", got.Blocks)
		}
		since = storetest.ChangesSince(t, f, since).Revision
		if err := f.Policies.DeletePolicy(ctx, storetest.Operator, "default", etag.Any); err != nil {
			t.Fatal(err)
		}
		if got := storetest.ChangesSince(t, f, since); !got.PoliciesChanged || len(got.Policies) != 0 {
			t.Fatalf("a deleted policy: got %+v", got)
		}
		since++
		token := storetest.AddToken(t, f, "ci", identity.Check)
		if got := storetest.ChangesSince(t, f, since); len(got.Tokens) != 1 || got.Tokens[0].ID != token.ID {
			t.Fatalf("a new token: got %+v", got.Tokens)
		}
	})
}

// TestEachChangeSeesLateCommits reads changes while many writers on two nodes commit.
func TestEachChangeSeesLateCommits(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		stores := []*sqlstore.Store{f.Store, f.Store}
		if f.Postgres() {
			stores[1] = f.Another(t)
		}
		const writers, each = 6, 15
		var writing sync.WaitGroup
		for w := range writers {
			writing.Go(func() {
				for n := range each {
					b := storetest.NewBlock(t, fmt.Sprintf("token:%d-%d", w, n), time.Time{})
					if _, err := stores[w%2].Entries.Add(t.Context(), storetest.Operator, blocks.Fail, b); err != nil {
						t.Error(err)
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { writing.Wait(); close(done) }()
		seen, since := map[string]bool{}, int64(0)
		follow := func() {
			got := storetest.ChangesSince(t, f, since)
			for _, b := range got.Blocks {
				seen[b.Pattern.String()] = true
				if b.Revision > got.Revision {
					t.Errorf("a block of revision %d in the changes up to revision %d", b.Revision, got.Revision)
				}
			}
			if got.Called {
				since = got.Revision
			}
		}
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			follow()
		}
		if len(seen) != writers*each {
			t.Fatalf("read %d blocks, want %d", len(seen), writers*each)
		}
	})
}

// TestEachChangeRevisionsCommitInOrder holds the revision row as a slow change does, and checks
// that no later change commits before it.
func TestEachChangeRevisionsCommitInOrder(t *testing.T) {
	f := storetest.OpenPostgres(t)
	db, err := sql.Open("pgx", f.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	slow, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var early int64
	if err := slow.QueryRowContext(t.Context(), "UPDATE revision SET value = value + 1 RETURNING value").Scan(&early); err != nil {
		t.Fatal(err)
	}
	late := make(chan blocks.Added, 1)
	go func() {
		added, err := f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, storetest.NewBlock(t, "token:late", time.Time{}))
		if err != nil {
			t.Error(err)
		}
		late <- added[0]
	}()
	awaitLockWaiter(t, db)
	if got := storetest.ChangesSince(t, f, early-1); got.Called {
		t.Fatalf("saw revision %d while %d is not committed", got.Revision, early)
	}
	if err := slow.Commit(); err != nil {
		t.Fatal(err)
	}
	if added := <-late; added.Entry.Revision != early+1 {
		t.Fatalf("the later change has revision %d, want %d", added.Entry.Revision, early+1)
	}
	if got := storetest.ChangesSince(t, f, early); len(got.Blocks) != 1 {
		t.Fatalf("the later change: got %+v", got)
	}
}

// awaitLockWaiter waits until a connection waits for another's lock.
func awaitLockWaiter(t *testing.T, db *sql.DB) {
	t.Helper()
	for {
		var waiting int
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		if waiting > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func TestListenWakesOtherNodes(t *testing.T) {
	f := storetest.OpenPostgres(t)
	ctx, cancel := context.WithCancel(t.Context())
	woken := make(chan struct{}, 100)
	ended := make(chan struct{})
	go func() {
		f.Another(t).Listen(ctx, func() { woken <- struct{}{} })
		close(ended)
	}()
	<-woken // connected
	storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", time.Time{}), blocks.Fail)
	<-woken
	cancel()
	<-ended
}

func TestListenReconnectsAfterOutage(t *testing.T) {
	server := storetest.DedicatedPostgres(t)
	f := storetest.Open(t, server.URL)
	woken := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		f.Listen(ctx, func() { woken <- struct{}{} })
		close(ended)
	}()
	<-woken
	server.Restart(false)
	<-woken // a new connection
	storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", time.Time{}), blocks.Fail)
	<-woken
	cancel()
	<-ended
}

func TestListenReturnsImmediatelyOnSQLite(t *testing.T) {
	f := storetest.OpenSQLite(t)
	f.Listen(t.Context(), func() { t.Error("woken") })
}

func TestCatalogFollowsBlockChangesOfStore(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		c := catalog.New(f, f.Clock.Now)
		if err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		b := storetest.AddEntry(t, f, storetest.NewBlock(t, "ip:203.0.113.0/24", time.Time{}), blocks.Fail).Entry
		if err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if v := c.Blocks().Match(keytest.Key(t, "ip:203.0.113.7"), f.Clock.Now()); !v.Refuses() {
			t.Fatal("an acknowledged block does not refuse")
		}
		if _, err := f.Entries.End(t.Context(), storetest.Operator, blocks.Block, "", b.ID); err != nil {
			t.Fatal(err)
		}
		if err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if v := c.Blocks().Match(keytest.Key(t, "ip:203.0.113.7"), f.Clock.Now()); v.Refuses() {
			t.Fatal("an ended block refuses")
		}
	})
}

func TestAfterChangeRunsWhenAddLeavesBlockUnchanged(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		var here *catalog.Catalog
		node, err := sqlstore.Open(t.Context(), f.URL, sqlstore.Options{Now: f.Clock.Now, AfterChange: func(ctx context.Context) error {
			return here.Refresh(ctx)
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer node.Close()
		here = catalog.New(node, f.Clock.Now)
		if err := here.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		wanted := storetest.NewBlock(t, "ip:203.0.113.0/24", time.Time{})
		storetest.AddEntry(t, f, wanted, blocks.Fail)
		again, err := node.Entries.Add(t.Context(), storetest.Operator, blocks.Extend, wanted)
		if err != nil || again[0].Outcome != blocks.Unchanged {
			t.Fatalf("got %+v, %v", again, err)
		}
		if v := here.Blocks().Match(keytest.Key(t, "ip:203.0.113.7"), f.Clock.Now()); !v.Refuses() {
			t.Error("a block that was acknowledged on this node does not refuse on it")
		}
	})
}

func TestStoreOrdersTextBytewise(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		for _, name := range []string{"b", "a_b", "a-b", "a.b", "ab", "a0"} {
			storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, name, "token:"+name, "1/s"), etag.New)
		}
		all, err := f.Policies.Policies(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range all {
			names = append(names, p.Name)
		}
		if got, want := strings.Join(names, " "), "a-b a.b a0 a_b ab b default"; got != want {
			t.Fatalf("got the order %s, want %s", got, want)
		}
	})
}

func TestAfterChangeFailureReturnsSavedFaultAndKeepsChange(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		node, err := sqlstore.Open(t.Context(), f.URL, sqlstore.Options{Now: f.Clock.Now, AfterChange: func(context.Context) error {
			return errors.New("unreachable")
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer node.Close()
		_, err = node.Entries.Add(t.Context(), audit.SystemActor("test"), blocks.Fail, blocks.Entry{Kind: blocks.Block, Pattern: keytest.Pattern(t, "token:bad"), Author: "test", Source: blocks.Manual})
		if !fault.Is(err, fault.Saved) || !strings.Contains(err.Error(), "is saved") {
			t.Errorf("got %v", err)
		}
		page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block, At: f.Clock.Now()})
		if err != nil || page.Total != 1 {
			t.Errorf("%d blocks, %v", page.Total, err)
		}
	})
}

// TestEachChangeReportsOtherHistory reads from revisions that the
// database lacks, as after a failover to a replica, and from those of another server.
func TestEachChangeReportsOtherHistory(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		var at catalog.Position
		read := func(since catalog.Position) error {
			return f.EachChange(t.Context(), since, func(ch catalog.Changes) error { at = ch.Position; return nil })
		}
		if err := read(catalog.Position{}); err != nil || at.Revision == 0 {
			t.Fatalf("got %+v, %v", at, err)
		}
		if err := read(at); err != nil {
			t.Errorf("reading from the same position: %v", err)
		}
		if err := read(catalog.Position{Revision: at.Revision + 1, Server: at.Server}); !errors.Is(err, catalog.ErrOtherHistory) {
			t.Errorf("reading from a revision that the database lacks: got %v, want ErrOtherHistory", err)
		}
		if at.Server == 0 {
			return // SQLite
		}
		if err := read(catalog.Position{Revision: at.Revision, Server: at.Server - 1}); !errors.Is(err, catalog.ErrOtherHistory) {
			t.Errorf("reading from another server's position: got %v, want ErrOtherHistory", err)
		}
	})
}
