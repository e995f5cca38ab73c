package sqlstore_test

import (
	"context"
	"database/sql"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/test/servers"
)

// The migration lock stayed with a session of the pooler, and every later start waited for it.
func TestPrepareRejectsPoolerInTransactionMode(t *testing.T) {
	server := servers.DedicatedPostgres(t) // the sessions of a pooler outlive its clients
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 {
		s, err := sqlstore.Open(ctx, servers.PgBouncer(t, server.URL, "transaction"), sqlstore.Options{})
		if err == nil {
			s.Close()
			t.Fatal("transaction pooling was accepted")
		}
		if !strings.Contains(err.Error(), "pool_mode = session") || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %q, want one line that names the setting", err)
		}
	}
	direct, err := sql.Open("pgx", server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	var locks int
	if err := direct.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").Scan(&locks); err != nil || locks > 0 {
		t.Errorf("%d locks are left, %v", locks, err)
	}
	for _, url := range []string{servers.PgBouncer(t, server.URL, "session"), server.URL} {
		s, err := sqlstore.Open(t.Context(), url, sqlstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
}

// initdb without a locale makes databases in SQL_ASCII.
func TestPrepareAcceptsEncodingsThatKeepEveryText(t *testing.T) {
	server := servers.DedicatedPostgres(t)
	admin, err := sql.Open("pgx", server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	for encoding, want := range map[string]string{"UTF8": "", "SQL_ASCII": "", "LATIN1": "in LATIN1, which lacks most letters"} {
		name := "in_" + strings.ToLower(encoding)
		if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+name+" ENCODING '"+encoding+"' LOCALE 'C' TEMPLATE template0"); err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		u.Path = name
		s, err := sqlstore.Open(t.Context(), u.String(), sqlstore.Options{})
		if err == nil {
			s.Close()
		}
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: got %v, want %q", encoding, err, want)
		}
	}
}
