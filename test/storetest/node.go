package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/sqlstore"
)

// Node is a store and a node's copy of it, which each change refreshes before it returns.
type Node struct {
	Store   *sqlstore.Store
	Catalog *catalog.Catalog
}

// OpenNode opens a node on a database.
func OpenNode(t testing.TB, url string, now func() time.Time) *Node {
	t.Helper()
	n := &Node{}
	store, err := sqlstore.Open(t.Context(), url, sqlstore.Options{Now: now, AfterChange: func(ctx context.Context) error {
		if n.Catalog == nil { // the seed comes before it
			return nil
		}
		return n.Catalog.Refresh(ctx)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	n.Store, n.Catalog = store, catalog.New(store, now)
	if err := n.Catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

// RecordsBy returns the audit records of an actor, the newest first.
func (n *Node) RecordsBy(t testing.TB, actor string) []*audit.Record {
	t.Helper()
	page, err := n.Store.Audit.FindRecords(t.Context(), audit.Filter{Actor: actor})
	if err != nil {
		t.Fatal(err)
	}
	return page.Records
}
