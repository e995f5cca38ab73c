package identities_test

import (
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
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

func TestMain(m *testing.M) { servers.Main(m) }

var ann = admin.Caller{Actor: audit.Actor{Kind: audit.User, Name: "ann"}, Address: netip.MustParseAddr("203.0.113.9"), Access: []identity.Access{identity.Admin}}

// fixture is a database and this node's copy of it. Its clock shows noon until a
// test moves it.
type fixture struct {
	node    *storetest.Node
	store   *sqlstore.Store // of node, as catalog
	catalog *catalog.Catalog
	now     time.Time
}

func onBoth(t *testing.T, test func(t *testing.T, f *fixture)) {
	storetest.OnBothURLs(t, func(t *testing.T, url string) { test(t, newFixture(t, url)) })
}

func newFixture(t *testing.T, url string) *fixture {
	t.Helper()
	f := &fixture{now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	now := func() time.Time { return f.now }
	node := storetest.OpenNode(t, url, now)
	f.node, f.store, f.catalog = node, node.Store, node.Catalog
	return f
}

// records returns ann's audit records, the newest first.
func (f *fixture) records(t *testing.T) []*audit.Record {
	t.Helper()
	return f.node.RecordsBy(t, ann.Actor.Name)
}

func isField(err error, field string) bool {
	var mistake *fault.Error
	return errors.As(err, &mistake) && mistake.Field == field
}
