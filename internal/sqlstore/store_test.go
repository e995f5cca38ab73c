package sqlstore_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

var operator = audit.Actor{Kind: audit.User, ID: "u1", Name: "ann", Address: "192.0.2.1"}

// clock is a clock that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// fixture is one database and a store on it.
type fixture struct {
	*sqlstore.Store
	url   string
	clock *clock
}

// migrated makes databases with the present schema, yet to be seeded.
var migrated = servers.Template{Prepare: sqlstore.Migrate}

// onBoth runs the same test on a new database of each kind.
func onBoth(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Run("sqlite", func(t *testing.T) { test(t, newSQLiteFixture(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, newPostgresFixture(t)) })
}

func newFixture(t testing.TB, url string) *fixture {
	t.Helper()
	f := &fixture{url: url, clock: newClock()}
	f.Store = f.another(t)
	return f
}

// another opens one more store on the same database, as another node does.
func (f *fixture) another(t testing.TB) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), f.url, sqlstore.Options{Now: f.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestOpen_seeds_a_new_database_once(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		if !f.Seeded {
			t.Fatal("the first store on a new database must have seeded it")
		}
		if f.another(t).Seeded {
			t.Fatal("the second store must not seed again")
		}
		policies, err := f.Policies(t.Context())
		if err != nil || len(policies) != 1 {
			t.Fatalf("policies: %v, %v", policies, err)
		}
		p := policies[0]
		if p.Name != "default" || p.Rules.String() != "1/1s 20/1m 200/1h 800/1d" || p.Match[0].String() != "*" || p.Version != 1 {
			t.Fatalf("seeded %+v", p)
		}
		if p.Retention.Entries != 800 || p.Retention.Window != 24*time.Hour {
			t.Fatalf("retention %+v", p.Retention)
		}
	})
}

func TestOpen_a_deleted_seed_does_not_come_back(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		if err := f.DeletePolicy(t.Context(), operator, "default", 1); err != nil {
			t.Fatal(err)
		}
		policies, err := f.another(t).Policies(t.Context())
		if err != nil || len(policies) != 0 {
			t.Fatalf("policies: %v, %v", policies, err)
		}
	})
}

func TestOpen_five_nodes_at_once_on_an_empty_database(t *testing.T) {
	url := servers.Postgres(t).URL
	var nodes sync.WaitGroup
	seeders := make(chan bool, 5)
	for range 5 {
		nodes.Go(func() {
			s, err := sqlstore.Open(t.Context(), url, sqlstore.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if s.Seeded {
				seeders <- true
			}
		})
	}
	nodes.Wait()
	if len(seeders) != 1 {
		t.Fatalf("%d nodes seeded, want exactly one", len(seeders))
	}
}

// postgres reports whether other stores can open the same database beside.
func (f *fixture) postgres() bool { return strings.HasPrefix(f.url, "postgres") }

func newPostgresFixture(t testing.TB) *fixture {
	t.Helper()
	return newFixture(t, migrated.Postgres(t).URL)
}

func newSQLiteFixture(t testing.TB) *fixture {
	t.Helper()
	return newFixture(t, migrated.SQLite(t))
}

// dedicatedPostgres is a server that the test may stop and kill.
func dedicatedPostgres(t testing.TB) *servers.PostgresServer {
	t.Helper()
	return servers.DedicatedPostgres(t)
}
