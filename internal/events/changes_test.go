package events_test

import (
	"context"
	"iter"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/sqlstore"
)

// replacedAudit is the audit log of a database that another one replaces.
type replacedAudit struct {
	audit.Store
	now atomic.Pointer[sqlstore.Store]
}

func (r *replacedAudit) EachRecord(ctx context.Context, f audit.Filter) iter.Seq2[*audit.Record, error] {
	return r.now.Load().Audit.EachRecord(ctx, f)
}

func TestFollowerPublishesChangesAfterDatabaseWentBack(t *testing.T) {
	open := func(path string) *sqlstore.Store {
		s, err := sqlstore.Open(t.Context(), path, sqlstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	add := func(s *sqlstore.Store, name string) {
		t.Helper()
		b := blocks.Entry{Kind: blocks.Block, Pattern: pattern(t, "token:"+name)}
		if _, err := s.Entries.Add(t.Context(), audit.SystemActor("test"), blocks.Fail, b); err != nil {
			t.Error(err)
		}
	}
	folder := t.TempDir()
	before := open(filepath.Join(folder, "before.db"))
	if err := before.Backup(t.Context(), filepath.Join(folder, "after.db")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		add(before, name)
	}
	store := &replacedAudit{Store: before.Audit}
	store.now.Store(before)
	h := events.New(events.Options{})
	l := &reader{Listener: h.Listen(events.Filter{}, "")}
	f := events.NewFollower(h, store)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { f.Run(ctx) })
	// Run begins behind what it finds, so a change is made again and again until one is seen.
	seen := make(chan struct{})
	running.Go(func() {
		for name := "d"; ; name += "d" {
			add(before, name)
			f.Changed(catalog.Changed{})
			select {
			case <-seen:
				return
			default:
			}
		}
	})
	l.next()
	seen <- struct{}{}
	after := open(filepath.Join(folder, "after.db"))
	store.now.Store(after)
	f.Changed(catalog.Changed{})
	e := l.next()
	for e.Kind == events.Block {
		e = l.next()
	}
	if e.Kind != events.Notice {
		t.Errorf("got %+v, want that changes are missing", e)
	}
	add(after, "new")
	f.Changed(catalog.Changed{})
	if e := l.next(); e.Kind != events.Block || len(e.Patterns) != 1 || e.Patterns[0] != pattern(t, "token:new") {
		t.Errorf("got %+v, want the new block", e)
	}
}
