// Package storetest opens stores on private databases of both kinds for tests,
// and makes and checks what tests of several subjects need.
package storetest

import (
	"database/sql"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	_ "github.com/golang-migrate/migrate/v4/database/sqlite"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/test/servers"
)

// Raw opens the database beside the store, as a person with its tools would.
func (f *Fixture) Raw(t testing.TB) *sql.DB {
	t.Helper()
	driver := "sqlite"
	if f.Postgres() {
		driver = "pgx"
	}
	db, err := sql.Open(driver, f.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// Exec runs a statement beside the store.
func (f *Fixture) Exec(t testing.TB, statement string) {
	t.Helper()
	if _, err := f.Raw(t).ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// Operator makes the changes of tests.
var Operator = audit.Actor{Kind: audit.User, ID: "u1", Name: "ann", Address: "192.0.2.1"}

// Clock is a clock that a test moves.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *Clock { return &Clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

// Now returns the clock's time, the same until Advance.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock on.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Fixture is one database and a store on it.
type Fixture struct {
	*sqlstore.Store
	URL   string
	Clock *Clock
}

// Migrated makes databases with the present schema, yet to be seeded.
var Migrated = servers.Template{Prepare: db.Migrate}

// OnBoth runs the same test on a new database of each kind.
func OnBoth(t *testing.T, test func(t *testing.T, f *Fixture)) {
	OnBothURLs(t, func(t *testing.T, url string) { test(t, Open(t, url)) })
}

// OnBothURLs is OnBoth for a test that opens the database itself.
func OnBothURLs(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, Migrated.SQLite(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, Migrated.Postgres(t).URL) })
}

// Open opens a store on a database whose clock starts at noon of a fixed day.
func Open(t testing.TB, url string) *Fixture {
	t.Helper()
	f := &Fixture{URL: url, Clock: newClock()}
	f.Store = f.Another(t)
	return f
}

// Another opens one more store on the same database, as another node does.
func (f *Fixture) Another(t testing.TB) *sqlstore.Store {
	t.Helper()
	return f.open(t, sqlstore.Options{Now: f.Clock.Now})
}

func (f *Fixture) open(t testing.TB, options sqlstore.Options) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), f.URL, options)
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

// Postgres reports whether other stores can open the same database beside.
func (f *Fixture) Postgres() bool { return strings.HasPrefix(f.URL, "postgres") }

// OpenPostgres opens a store on a new Postgres database.
func OpenPostgres(t testing.TB) *Fixture {
	t.Helper()
	return Open(t, Migrated.Postgres(t).URL)
}

// OpenSQLite opens a store on a new SQLite file.
func OpenSQLite(t testing.TB) *Fixture {
	t.Helper()
	return Open(t, Migrated.SQLite(t))
}

// DedicatedPostgres is a server that the test may stop and kill.
func DedicatedPostgres(t testing.TB) *servers.PostgresServer {
	t.Helper()
	return servers.DedicatedPostgres(t)
}
