package identities_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

var ann = admin.Caller{Actor: audit.Actor{Kind: audit.User, Name: "ann"}, Address: netip.MustParseAddr("203.0.113.9"), Access: []identity.Access{identity.Admin}}

// fixture is a database and this node's copy of it. Its clock shows noon until a
// test moves it.
type fixture struct {
	store   *sqlstore.Store
	catalog *catalog.Catalog
	now     time.Time
}

// migrated makes databases with the present schema, yet to be seeded.
var migrated = servers.Template{Prepare: db.Migrate}

func onBoth(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Run("sqlite", func(t *testing.T) { test(t, newFixture(t, migrated.SQLite(t))) })
	t.Run("postgres", func(t *testing.T) { test(t, newFixture(t, migrated.Postgres(t).URL)) })
}

func newFixture(t *testing.T, url string) *fixture {
	t.Helper()
	f := &fixture{now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	now := func() time.Time { return f.now }
	store, err := sqlstore.Open(t.Context(), url, sqlstore.Options{Now: now, AfterChange: func(ctx context.Context) error {
		if f.catalog == nil { // the seed comes before it
			return nil
		}
		return f.catalog.Refresh(ctx)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	f.store, f.catalog = store, catalog.New(store, now)
	if err := f.catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

// records returns ann's audit records, the newest first.
func (f *fixture) records(t *testing.T) []*audit.Record {
	t.Helper()
	page, err := f.store.Audit.FindRecords(t.Context(), audit.Filter{Actor: ann.Actor.Name})
	if err != nil {
		t.Fatal(err)
	}
	return page.Records
}

func isField(err error, field string) bool {
	var mistake *fault.Error
	return errors.As(err, &mistake) && mistake.Field == field
}
