package admin_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

func TestMain(m *testing.M) { servers.Main(m) }

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

var ann = admin.Caller{Actor: audit.Actor{Kind: audit.User, Name: "ann"}, Address: netip.MustParseAddr("203.0.113.9"), Access: []identity.Access{identity.Operate}}

// fixture is a database and this node's copy of it. Its clock shows noon until a
// test moves it.
type fixture struct {
	*admin.Entries
	undo    *admin.Undo
	node    *storetest.Node
	store   *sqlstore.Store // of node, as catalog
	catalog *catalog.Catalog
	now     time.Time
	caller  admin.Caller // of imports
}

func onBoth(t *testing.T, test func(t *testing.T, f *fixture)) {
	storetest.OnBothURLs(t, func(t *testing.T, url string) { test(t, newFixture(t, url)) })
}

func newFixture(t *testing.T, url string) *fixture {
	t.Helper()
	f := &fixture{now: noon, caller: ann}
	now := func() time.Time { return f.now }
	node := storetest.OpenNode(t, url, now)
	f.node, f.store, f.catalog = node, node.Store, node.Catalog
	f.Entries = &admin.Entries{Store: f.store.Entries, View: f.catalog, Offences: f.store.Offences, Now: now}
	f.undo = &admin.Undo{Records: f.store.Audit, Store: f.store, Entries: f.Entries, Policies: f.policies()}
	return f
}

// policies returns the use case of policies. No traffic is recorded.
func (f *fixture) policies() *admin.Policies { return f.policiesOn(nil) }

// policiesOn is policies with recorded traffic.
func (f *fixture) policiesOn(traffic admin.TrafficSource) *admin.Policies {
	return admin.NewPolicies(f.store.Policies, admin.PolicyOptions{View: f.catalog, Traffic: traffic, Now: func() time.Time { return f.now }})
}

// add adds one confirmed entry.
func (f *fixture) add(t *testing.T, kind blocks.Kind, pattern string, expiry blocks.Expiry) *blocks.Entry {
	t.Helper()
	added, err := f.Add(t.Context(), ann, admin.AddEntries{Kind: kind, Patterns: []string{pattern}, AddEntry: wire.AddEntry{ExpiresIn: wire.Duration(expiry.For), ExpiresAt: wire.At(expiry.Until), Confirm: pattern}})
	if err != nil {
		t.Fatal(err)
	}
	return added[0].Entry
}

// run imports a plain list.
func (f *fixture) run(t *testing.T, list string, o admin.ImportOptions) (*admin.ImportResult, error) {
	t.Helper()
	o.Format = blocklist.Plain
	return f.Import(t.Context(), f.caller, strings.NewReader(list), o)
}

// active returns the patterns of the active entries of a kind.
func (f *fixture) active(t *testing.T, kind blocks.Kind) (patterns []string) {
	t.Helper()
	for e, err := range f.Each(t.Context(), blocks.Filter{Kind: kind}) {
		if err != nil {
			t.Fatal(err)
		}
		patterns = append(patterns, e.Pattern.String())
	}
	return patterns
}

// records returns the audit records, the newest first.
func (f *fixture) records(t *testing.T) []*audit.Record {
	t.Helper()
	return f.node.RecordsBy(t, ann.Actor.Name)
}

// recorded is an estimator over a known sample: keys and how often each was checked.
type recorded map[string]int64

func (r recorded) EstimateTraffic(_ context.Context, from, to time.Time, selects func(keys.Key) bool) (*admin.TrafficEstimate, error) {
	t := &admin.TrafficEstimate{From: from, To: to, AllKeys: int64(len(r))}
	for text, checks := range r {
		k, err := keys.Parser{}.Key(text)
		if err != nil {
			return nil, err
		}
		t.AllChecks += checks
		if selects(k) {
			t.Keys++
			t.Checks += checks
		}
	}
	t.Ratio = float64(t.Checks) / float64(t.AllChecks)
	return t, nil
}

// unreachable is an estimator whose database fails.
type unreachable struct{}

func (unreachable) EstimateTraffic(context.Context, time.Time, time.Time, func(keys.Key) bool) (*admin.TrafficEstimate, error) {
	return nil, context.DeadlineExceeded
}
