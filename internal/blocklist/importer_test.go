package blocklist_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

var operator = audit.Actor{Kind: audit.User, Name: "ann"}

// fixture is a database and this node's copy of it, at noon.
type fixture struct {
	*blocklist.Importer
	store   *sqlstore.Store
	catalog *catalog.Catalog
}

// migrated makes databases with the present schema, yet to be seeded.
var migrated = servers.Template{Prepare: db.Migrate}

func onBoth(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Run("sqlite", func(t *testing.T) { test(t, newFixture(t, migrated.SQLite(t))) })
	t.Run("postgres", func(t *testing.T) { test(t, newFixture(t, migrated.Postgres(t).URL)) })
}

func newFixture(t *testing.T, url string) *fixture {
	t.Helper()
	now := func() time.Time { return noon }
	var known *catalog.Catalog
	store, err := sqlstore.Open(t.Context(), url, sqlstore.Options{Now: now, AfterChange: func(ctx context.Context) error {
		if known == nil { // the seed comes before it
			return nil
		}
		return known.Refresh(ctx)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	known = catalog.New(store, now)
	if err := known.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &fixture{&blocklist.Importer{Store: store.Entries, View: known, Parser: known.Parser, Now: now}, store, known}
}

func (f *fixture) run(t *testing.T, list string, o blocklist.ImportOptions) (*blocklist.ImportReport, error) {
	t.Helper()
	rows := blocklist.Read(strings.NewReader(list), blocklist.Plain, defaults)
	return f.Import(t.Context(), operator, rows, o)
}

func (f *fixture) block(t *testing.T, text string, expires time.Time) *blocks.Entry {
	t.Helper()
	added, err := f.store.Entries.Add(t.Context(), operator, blocks.Fail, blocks.Entry{Kind: blocks.Block, Pattern: pattern(t, text), Expires: expires})
	if err != nil {
		t.Fatal(err)
	}
	return added[0].Entry
}

func (f *fixture) exempt(t *testing.T, text string) {
	t.Helper()
	if _, err := f.store.Entries.Add(t.Context(), operator, blocks.Fail, blocks.Entry{Kind: blocks.Exemption, Pattern: pattern(t, text)}); err != nil {
		t.Fatal(err)
	}
}

func pattern(t *testing.T, text string) keys.Pattern {
	t.Helper()
	p, err := keys.Parser{}.Pattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const list = `203.0.113.1
203.0.113.2
203.0.113.2
198.51.100.0/24
198.51.100.7
token:known
token:bad*bad
token:mine-1
token:mine-2
`

func TestADryRunForetellsTheImport(t *testing.T) {
	for _, on := range []blocks.Conflict{blocks.Fail, blocks.Extend, blocks.Replace} {
		t.Run(string(on), func(t *testing.T) {
			onBoth(t, func(t *testing.T, f *fixture) {
				f.block(t, "token:known", noon.Add(time.Hour))
				f.exempt(t, "ip:198.51.100.0/25")
				f.exempt(t, "token:mine-*")
				o := blocklist.ImportOptions{On: on, SkipBad: true, DryRun: true}
				before := f.catalog.Revision()
				foretold, err := f.run(t, list, o)
				if err != nil {
					t.Fatal(err)
				}
				if f.catalog.Revision() != before {
					t.Error("a dry run changed something")
				}
				if foretold.Rows != 9 || foretold.Invalid != 1 || foretold.Exempt != 3 || foretold.Created != 6 || foretold.Bad[0].Line != 7 || foretold.Traffic != nil {
					t.Fatalf("got %+v", foretold)
				}
				o.DryRun = false
				did, err := f.run(t, list, o)
				if err != nil {
					t.Fatal(err)
				}
				if did.ImportResult != foretold.ImportResult || did.Exempt != foretold.Exempt || did.Invalid != foretold.Invalid {
					t.Errorf("foretold %+v, did %+v", foretold, did)
				}
			})
		})
	}
}

func TestABadRowImportsNothingAndAllAreTold(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		_, err := f.run(t, list+"bad:*:*\ntoken:good\n", blocklist.ImportOptions{})
		var e *fault.Error
		if !errors.As(err, &e) || e.Code != fault.Invalid || e.Detail["invalid"] != 2 || e.Detail["rows"] != 11 {
			t.Fatalf("got %+v", err)
		}
		told := e.Detail["invalid_rows"].([]blocklist.ToldRow)
		if len(told) != 2 || told[0].Line != 7 || told[1].Line != 10 {
			t.Fatalf("told %+v", told)
		}
		page, err := f.store.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block, At: noon})
		if err != nil || page.Total != 0 {
			t.Fatalf("%d blocks stand, %v", page.Total, err)
		}
	})
}

func TestAFileThatBreaksOffImportsNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		rows := blocklist.Read(strings.NewReader(`[{"pattern":"token:a"},{"pat`), blocklist.JSON, defaults)
		_, err := f.Import(t.Context(), operator, rows, blocklist.ImportOptions{SkipBad: true})
		if !fault.Is(err, fault.Malformed) {
			t.Fatalf("got %v", err)
		}
		page, err := f.store.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block, At: noon})
		if err != nil || page.Total != 0 {
			t.Fatalf("%d blocks stand, %v", page.Total, err)
		}
	})
}

// recorded is an estimator over a known trace: keys and how often each asked.
type recorded map[string]int64

func (r recorded) EstimateTraffic(_ context.Context, from, to time.Time, selects func(keys.Key) bool) (*blocklist.Traffic, error) {
	t := &blocklist.Traffic{From: from, To: to, AllKeys: int64(len(r))}
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
	t.Share = float64(t.Checks) / float64(t.AllChecks)
	return t, nil
}

func TestADryRunSaysWhatOnlyItsNewBlocksWouldHaveRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.Traffic = recorded{"ip:203.0.113.1": 10, "token:known": 20, "ip:198.51.100.7": 30, "ip:192.0.2.1": 40}
		f.block(t, "token:known", time.Time{})
		f.exempt(t, "ip:198.51.100.7")
		got, err := f.run(t, list, blocklist.ImportOptions{SkipBad: true, DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		want := blocklist.Traffic{From: noon.Add(-24 * time.Hour), To: noon, Keys: 1, AllKeys: 4, Checks: 10, AllChecks: 100, Share: 0.1}
		if got.Traffic == nil || *got.Traffic != want {
			t.Fatalf("got %+v, want %+v", got.Traffic, want)
		}
	})
}

func TestTheRadiusOfABlockNamesWhatItTouches(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.block(t, "ip:203.0.0.0/8", time.Time{})
		inner := f.block(t, "ip:203.0.113.9", time.Time{})
		f.block(t, "token:a", time.Time{})
		f.exempt(t, "ip:203.0.113.7")
		s := &blocklist.Surveyor{View: f.catalog, Parser: f.catalog.Parser, Now: func() time.Time { return noon },
			Traffic: recorded{"ip:203.0.113.1": 3, "ip:192.0.2.1": 97}}
		r, err := s.Survey(t.Context(), pattern(t, "ip:203.0.113.0/24"), netip.MustParseAddr("203.0.113.1"))
		if err != nil {
			t.Fatal(err)
		}
		if !r.BlocksCaller || r.Hidden || len(r.Exemptions) != 1 || len(r.CoveredBy) != 1 || len(r.Covers) != 1 || r.Covers[0].ID != inner.ID || r.Traffic.Share != 0.03 {
			t.Fatalf("got %+v", r)
		}
		if !strings.Contains(r.Confirm, "3.0 %") {
			t.Errorf("a block of 3 %% of the traffic says %q", r.Confirm)
		}
		r, err = s.Survey(t.Context(), pattern(t, "ip:203.0.113.7"), netip.MustParseAddr("203.0.113.7"))
		if err != nil || r.BlocksCaller || !r.Hidden || r.Confirm != "" {
			t.Fatalf("the radius of what is exempt is %+v, %v", r, err)
		}
	})
}

func TestOnlyWhatIsWideNeedsAConfirmation(t *testing.T) {
	s := &blocklist.Surveyor{View: emptyView{}, Parser: func() keys.Parser { return keys.Parser{} }, Now: func() time.Time { return noon }}
	for text, wide := range map[string]bool{
		"*": true, "ip:*": true, "token:*": true, "ip:10.0.0.0/8": true, "ip:10.0.0.0/15": true, "ip:2000::/3": true, "ip:2001:db8::/31": true,
		"ip:10.0.0.0/16": false, "ip:10.0.0.1": false, "ip:2001:db8::/32": false, "ip:2001:db8::/64": false, "token:test_*": false, "token:a": false, "a": false,
	} {
		r, err := s.Survey(t.Context(), pattern(t, text), netip.Addr{})
		if err != nil || (r.Confirm != "") != wide {
			t.Errorf("%s needs a confirmation: %q, %v", text, r.Confirm, err)
			continue
		}
		if err := blocklist.NeedConfirm(r.Pattern, r.Confirm); fault.Is(err, fault.NeedConfirm) != wide {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

type emptyView struct{}

func (emptyView) Blocks() *blocks.Set { return blocks.NewSet() }
