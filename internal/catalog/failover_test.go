package catalog_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

// replicated is a database and a replica that takes over without the last commits.
type replicated struct {
	primary *sqlstore.Store
	server  int64
}

func (r *replicated) EachChange(ctx context.Context, since catalog.Position, apply func(catalog.Changes) error) error {
	if since.Revision > 0 && since.Server != r.server {
		return catalog.ErrOtherHistory
	}
	return r.primary.EachChange(ctx, catalog.Position{Revision: since.Revision}, func(ch catalog.Changes) error {
		ch.Server = r.server
		return apply(ch)
	})
}

// TestCatalogFollowsTheNewPrimaryAfterAFailover loses changes in a failover, and makes other
// changes on the new primary: fewer, the same number and more.
func TestCatalogFollowsTheNewPrimaryAfterAFailover(t *testing.T) {
	open := func(path string) *sqlstore.Store {
		s, err := sqlstore.Open(t.Context(), path, sqlstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	block := func(s *sqlstore.Store, pattern string) {
		t.Helper()
		if _, err := s.Entries.Add(t.Context(), audit.SystemActor("test"), blocks.Fail, storetest.NewBlock(t, pattern, time.Time{})); err != nil {
			t.Fatal(err)
		}
	}
	for made := range 4 {
		folder := t.TempDir()
		source := &replicated{open(filepath.Join(folder, "primary.db")), 1}
		c := catalog.New(source, time.Now)
		block(source.primary, "token:old")
		path := filepath.Join(folder, "replica.db")
		if err := source.primary.Backup(t.Context(), path); err != nil { // what has been replicated
			t.Fatal(err)
		}
		for _, pattern := range []string{"token:lost-1", "token:lost-2"} {
			block(source.primary, pattern)
		}
		if err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		source.primary, source.server = open(path), 2
		for i := range made {
			block(source.primary, "token:new-"+string(rune('1'+i)))
		}
		if err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{"token:old": true, "token:lost-1": false, "token:lost-2": false, "token:new-1": made > 0, "token:new-2": made > 1, "token:new-3": made > 2}
		for key, blocked := range want {
			if got := c.Blocks().Match(keytest.Key(t, key), time.Now()).Block != nil; got != blocked {
				t.Errorf("after %d changes %s is blocked: %t", made, key, got)
			}
		}
		if h, err := source.primary.Health(t.Context()); err != nil || h.Revision != c.Revision() {
			t.Errorf("the node is at revision %d of %d, %v", c.Revision(), h.Revision, err)
		}
		block(source.primary, "token:later")
		if err := c.Refresh(t.Context()); err != nil || c.Blocks().Match(keytest.Key(t, "token:later"), time.Now()).Block == nil {
			t.Errorf("a later change is not applied: %v", err)
		}
	}
}
