package db_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/migrations"
	"github.com/stint-dev/stint/test/servers"
)

// statementsOf splits a migration into its statements. A semicolon ends one at
// the end of a line, outside a trigger's or a function's body.
func statementsOf(text string) []string {
	var all []string
	var current strings.Builder
	inBody, quoted := false, false
	for line := range strings.Lines(text) {
		if bare := strings.TrimSpace(line); !strings.HasPrefix(bare, "--") {
			current.WriteString(line)
			switch quotes := strings.Count(bare, "$$"); {
			case quotes == 1: // a body of Postgres begins or ends
				quoted = !quoted
				inBody = quoted
			case quoted:
			case bare == "BEGIN": // a body of SQLite
				inBody = true
			case bare == "END;":
				inBody = false
			}
			if strings.HasSuffix(bare, ";") && !inBody {
				all = append(all, current.String())
				current.Reset()
			}
		}
	}
	return all
}

// killingFiles returns the migrations of a kind, in which number kills the
// node before its statement n, and all before it as they are.
func killingFiles(t *testing.T, kind, file, kill string, n int) fs.FS {
	t.Helper()
	files := fstest.MapFS{}
	names, err := fs.Glob(migrations.Files, kind+"/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(migrations.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		if name == file {
			text = []byte(strings.Join(statementsOf(string(text))[:n], "") + kill)
		}
		files[name] = &fstest.MapFile{Data: text}
	}
	return files
}

// upFiles returns the migrations of a kind, each with its number of statements.
func upFiles(t *testing.T, kind string) map[string]int {
	t.Helper()
	names, err := fs.Glob(migrations.Files, kind+"/*.up.sql")
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, name := range names {
		text, err := fs.ReadFile(migrations.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		counts[name] = len(statementsOf(string(text)))
	}
	return counts
}

// wantStateBefore checks that a database is not dirty and is at the migration before a file.
func wantStateBefore(t *testing.T, url, file string) {
	t.Helper()
	state, err := db.MigrationStatus(t.Context(), url)
	if err != nil || state.Dirty || fmt.Sprintf("%04d", state.Version+1) != filepath.Base(file)[:4] {
		t.Fatalf("the state after the kill is %+v, %v, want the migration before %s", state, err, file)
	}
}

// wantNextStart checks that the next start completes the killed migration.
func wantNextStart(t *testing.T, url, file string) {
	t.Helper()
	wantStateBefore(t, url, file)
	s, err := sqlstore.Open(t.Context(), url, db.Options{})
	if err != nil {
		t.Fatalf("the next start: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// The environment of a test process that is killed in a migration.
const (
	dieDatabase  = "STINT_TEST_DIE_DATABASE"
	dieFile      = "STINT_TEST_DIE_FILE"
	dieStatement = "STINT_TEST_DIE_STATEMENT"
)

func TestMigrationKilledAtEveryStatementResumesOnSQLite(t *testing.T) {
	if path := os.Getenv(dieDatabase); path != "" {
		dieMigrating(t, path)
		return
	}
	for file, statements := range upFiles(t, "sqlite") {
		path := filepath.Join(t.TempDir(), "stint.db")
		for n := range statements + 1 {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
			child.Env = append(os.Environ(), dieDatabase+"="+path, dieFile+"="+file, fmt.Sprintf("%s=%d", dieStatement, n))
			out, _ := child.CombinedOutput()
			if status, ok := child.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				t.Fatalf("%s statement %d: the process was not killed: %v\n%s", file, n, child.ProcessState, out)
			}
			wantStateBefore(t, path, file)
		}
		wantNextStart(t, path, file)
	}
}

func dieMigrating(t *testing.T, path string) {
	db.RegisterDeath()
	var n int
	if _, err := fmt.Sscan(os.Getenv(dieStatement), &n); err != nil {
		t.Fatal(err)
	}
	err := db.MigrateBy(t.Context(), path, killingFiles(t, "sqlite", os.Getenv(dieFile), "SELECT die();", n))
	t.Fatalf("the process was not killed: %v", err)
}

func TestMigrationKilledAtEveryStatementResumesOnPostgres(t *testing.T) {
	for file, statements := range upFiles(t, "postgres") {
		url := servers.Postgres(t).URL
		for n := range statements + 1 {
			err := db.MigrateBy(t.Context(), url, killingFiles(t, "postgres", file, "SELECT pg_terminate_backend(pg_backend_pid());", n))
			if err == nil || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%s statement %d: %v", file, n, err)
			}
			wantStateBefore(t, url, file)
		}
		wantNextStart(t, url, file)
	}
}

func TestFailedMigrationIsRolledBackWithOneLineError(t *testing.T) {
	for kind, url := range map[string]string{"sqlite": filepath.Join(t.TempDir(), "stint.db"), "postgres": servers.Postgres(t).URL} {
		file := kind + "/0002_identity.up.sql"
		err := db.MigrateBy(t.Context(), url, killingFiles(t, kind, file, "SELECT nonsense FROM nowhere;", 1))
		if err == nil || !strings.Contains(err.Error(), "migration 2 failed and was undone") || strings.Contains(err.Error(), "\n") {
			t.Fatalf("%s: %v", kind, err)
		}
		wantNextStart(t, url, file)
	}
}
