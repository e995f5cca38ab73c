package servers

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Template makes databases that begin as Prepare left one of each kind, which
// takes a fraction of preparing each. It is safe for use by many goroutines; a
// variable of the package serves all its tests.
type Template struct {
	// Prepare fills the empty database of a URL and closes its connections.
	Prepare func(ctx context.Context, url string) error

	sqlite struct {
		sync.Once
		content []byte
		err     error
	}
	postgres struct {
		sync.Once
		name string
		err  error
	}
}

// SQLite returns the path of a prepared file, which is removed when the test ends.
func (x *Template) SQLite(t testing.TB) string {
	t.Helper()
	x.sqlite.Do(func() {
		path := filepath.Join(t.TempDir(), "template.db")
		if x.sqlite.err = x.Prepare(context.WithoutCancel(t.Context()), path); x.sqlite.err != nil {
			return
		}
		x.sqlite.content, x.sqlite.err = os.ReadFile(path)
	})
	if x.sqlite.err != nil {
		t.Fatalf("the template of an SQLite database: %v", x.sqlite.err)
	}
	path := filepath.Join(t.TempDir(), "stint.db")
	if err := os.WriteFile(path, x.sqlite.content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Postgres returns a prepared database on the server that Postgres would use.
// It is dropped when the test ends.
func (x *Template) Postgres(t testing.TB) *PostgresServer {
	t.Helper()
	server := sharedPostgres(t)
	x.postgres.Do(func() {
		x.postgres.name = randomName("stint_template_")
		if x.postgres.err = execute(server, "CREATE DATABASE "+pgx.Identifier{x.postgres.name}.Sanitize()); x.postgres.err != nil {
			return
		}
		AtExit(func() { _ = dropDatabase(server, x.postgres.name) }) // a server of ours may have ended
		x.postgres.err = x.Prepare(context.WithoutCancel(t.Context()), databaseURL(t, server, x.postgres.name).String())
	})
	if x.postgres.err != nil {
		t.Fatalf("the template of a Postgres database: %v", x.postgres.err)
	}
	return databaseOn(t, server, x.postgres.name)
}

// databaseURL is the URL of another database on the same server.
func databaseURL(t testing.TB, serverURL, name string) *url.URL {
	t.Helper()
	u := mustParse(t, serverURL)
	u.Path = "/" + name
	return u
}

func dropDatabase(serverURL, name string) error {
	return execute(serverURL, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
}
