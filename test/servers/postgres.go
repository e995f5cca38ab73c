package servers

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// PostgresServer is a Postgres with an empty database for one test.
type PostgresServer struct {
	// URL is of the test's own database.
	URL  string
	Addr string // host:port

	t      testing.TB
	server *postgresProcess // nil unless dedicated to this test
}

// shared is the server that all tests of this binary use.
var shared struct {
	sync.Once
	*postgresProcess
	err error
}

// Postgres returns a fresh database on the server that STINT_TEST_DATABASE_URL
// names, or else on a private one that all tests of the binary share. The
// database is dropped when the test ends.
func Postgres(t testing.TB) *PostgresServer {
	t.Helper()
	return databaseOn(t, sharedPostgres(t), "")
}

// sharedPostgres returns the URL of the server that Postgres makes databases on.
func sharedPostgres(t testing.TB) string {
	t.Helper()
	if given := os.Getenv(DatabaseURLVariable); given != "" {
		return given
	}
	atExit.Lock()
	inMain := atExit.inMain
	atExit.Unlock()
	if !inMain {
		t.Fatal("servers.Postgres needs `func TestMain(m *testing.M) { servers.Main(m) }` in this package, which stops the server")
	}
	shared.Do(func() {
		shared.postgresProcess, shared.err = newPostgres()
		if shared.err != nil {
			return
		}
		AtExit(shared.remove)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.url
}

// DedicatedPostgres returns a fresh database on a private server that ends with
// the test, for tests that kill or stop it.
func DedicatedPostgres(t testing.TB) *PostgresServer {
	t.Helper()
	server, err := newPostgres()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.remove)
	s := createDatabase(t, server.url, "")
	s.server = server
	return s
}

// databaseOn creates a database for t on the server of serverURL, a copy of
// template unless that is empty, and drops it when t ends.
func databaseOn(t testing.TB, serverURL, template string) *PostgresServer {
	t.Helper()
	s := createDatabase(t, serverURL, template)
	t.Cleanup(func() {
		if err := dropDatabase(serverURL, strings.TrimPrefix(mustParse(t, s.URL).Path, "/")); err != nil {
			t.Errorf("the test's database could not be dropped: %v", err)
		}
	})
	return s
}

func createDatabase(t testing.TB, serverURL, template string) *PostgresServer {
	t.Helper()
	name := randomName("stint_test_")
	statement := "CREATE DATABASE " + pgx.Identifier{name}.Sanitize()
	if template != "" {
		statement += " TEMPLATE " + pgx.Identifier{template}.Sanitize()
	}
	if err := execute(serverURL, statement); err != nil {
		t.Fatalf("the test's database could not be created: %v", err)
	}
	u := databaseURL(t, serverURL, name)
	return &PostgresServer{URL: u.String(), Addr: u.Host, t: t}
}

func mustParse(t testing.TB, serverURL string) *url.URL {
	t.Helper()
	u, err := url.Parse(serverURL)
	if err != nil || u.Host == "" {
		t.Fatalf("%s is not the URL of a Postgres; write for example postgres://user@127.0.0.1:5432/postgres", DatabaseURLVariable)
	}
	return u
}

func execute(serverURL, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	connection, err := pgx.Connect(ctx, serverURL)
	if err != nil {
		return err
	}
	defer connection.Close(ctx)
	_, err = connection.Exec(ctx, statement)
	return err
}

// Kill ends the server and all its connections as kill -9 does.
func (s *PostgresServer) Kill() {
	s.t.Helper()
	if err := s.own().process.kill(); err != nil {
		s.t.Fatalf("Postgres could not be killed: %v", err)
	}
}

// Stop freezes the server: it takes connections and answers nothing, nor do
// the connections that are open.
func (s *PostgresServer) Stop() {
	s.t.Helper()
	if _, err := s.own().process.freeze(); err != nil {
		s.t.Fatalf("Postgres could not be stopped: %v", err)
	}
}

// Continue ends what Stop began.
func (s *PostgresServer) Continue() {
	s.t.Helper()
	if err := s.own().process.resume(); err != nil {
		s.t.Fatalf("Postgres could not be continued: %v", err)
	}
}

// Restart kills the server if it still runs and starts it again at the same
// address, with all that was committed or, if empty, with an empty database.
func (s *PostgresServer) Restart(empty bool) {
	s.t.Helper()
	s.Kill()
	port, err := strconv.Atoi(s.Addr[strings.LastIndexByte(s.Addr, ':')+1:])
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.own().restart(port); err != nil {
		s.t.Fatalf("Postgres did not start again: %v", err)
	}
	if !empty {
		return
	}
	database := pgx.Identifier{strings.TrimPrefix(mustParse(s.t, s.URL).Path, "/")}.Sanitize()
	for _, statement := range []string{"DROP DATABASE " + database + " WITH (FORCE)", "CREATE DATABASE " + database} {
		if err := execute(s.own().url, statement); err != nil {
			s.t.Fatalf("the database could not be emptied: %v", err)
		}
	}
}

func (s *PostgresServer) own() *postgresProcess {
	s.t.Helper()
	if s.server == nil {
		s.t.Fatal("a shared Postgres cannot be killed or stopped: this test needs DedicatedPostgres")
	}
	return s.server
}

// postgresData is the folder of the database cluster inside a server's folder.
func postgresData(dir string) string { return filepath.Join(dir, "data") }
