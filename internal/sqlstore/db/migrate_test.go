package db_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-migrate/migrate/v4"
	_ "github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/filelock"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/nodes"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/migrations"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

func TestMigrationStatusReportsVersionOfDatabase(t *testing.T) {
	for name, url := range map[string]string{
		"sqlite": filepath.Join(t.TempDir(), "new.db"), "postgres": servers.Postgres(t).URL,
	} {
		t.Run(name, func(t *testing.T) {
			state, err := db.MigrationStatus(t.Context(), url)
			if err != nil || state.Version != 0 || state.Latest < 2 || state.Dirty {
				t.Fatalf("MigrationStatus of a new database = %+v, %v", state, err)
			}
			for range 2 {
				if err := db.Migrate(t.Context(), url); err != nil {
					t.Fatal(err)
				}
			}
			if state, err = db.MigrationStatus(t.Context(), url); err != nil || state.Version != state.Latest {
				t.Fatalf("MigrationStatus after Migrate = %+v, %v", state, err)
			}
		})
	}
}

func TestOpenRejectsDirtyDatabase(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		f.Exec(t, "UPDATE schema_migrations SET version = 2, dirty = TRUE")
		_, err := sqlstore.Open(t.Context(), f.URL, db.Options{})
		if err == nil || !strings.Contains(err.Error(), "migration 2 failed") || !strings.Contains(err.Error(), "dirty") {
			t.Fatalf("got %v", err)
		}
		state, err := db.MigrationStatus(t.Context(), f.URL)
		if err != nil || state.Version != 2 || !state.Dirty {
			t.Fatalf("Open changed the state to %+v, %v", state, err)
		}
	})
}

func TestOpenAcceptsNewerSchemaUnlessIncompatible(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		f.Exec(t, "UPDATE schema_migrations SET version = 900")
		f.Another(t)
		f.Exec(t, "UPDATE settings SET value = '900' WHERE name = 'compatible_from'")
		_, err := sqlstore.Open(t.Context(), f.URL, db.Options{})
		if err == nil || !strings.Contains(err.Error(), "upgrade this node") {
			t.Fatalf("got %v", err)
		}
	})
}

// migrator migrates the database of a fixture step by step.
func migrator(t *testing.T, f *storetest.Fixture) *migrate.Migrate {
	t.Helper()
	kind, url := "sqlite", "sqlite://"+f.URL
	if f.Postgres() {
		kind, url = "postgres", strings.Replace(f.URL, "postgres://", "pgx5://", 1)
	}
	files, err := iofs.New(migrations.Files, kind)
	if err != nil {
		t.Fatal(err)
	}
	m, err := migrate.NewWithSourceInstance("iofs", files, url)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMigrationKeepsTriggerOfJobRuns(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx, at := t.Context(), f.Clock.Now()
		begin := func(job, by string) {
			t.Helper()
			if _, err := f.Jobs.BeginRun(ctx, wire.JobRun{Job: job, Node: "a", DueAt: wire.At(at), StartedAt: wire.At(at), TriggeredBy: by}); err != nil {
				t.Fatal(err)
			}
		}
		begin("asked", jobs.ByOperator)
		begin("due", jobs.BySchedule)
		m := migrator(t, f)
		defer m.Close()
		const before = 9 // the last migration with the column asked
		if err := m.Migrate(before); err != nil {
			t.Fatalf("down: %v", err)
		}
		f.Exec(t, "UPDATE job_runs SET asked = 1 - asked")
		if err := m.Up(); err != nil {
			t.Fatalf("up: %v", err)
		}
		for job, want := range map[string]string{"asked": jobs.BySchedule, "due": jobs.ByOperator} {
			run, err := f.Jobs.LastRun(ctx, job, at)
			if err != nil || run == nil || run.TriggeredBy != want {
				t.Errorf("%s: got %+v, %v, want %q", job, run, err, want)
			}
		}
	})
}

func TestMigrationsRunDownAndUpAgain(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		m := migrator(t, f)
		defer m.Close()
		if err := m.Down(); err != nil {
			t.Fatalf("down: %v", err)
		}
		if err := m.Up(); err != nil {
			t.Fatalf("up again: %v", err)
		}
	})
}

func TestMigrateDownRefusesWhileNodeIsAlive(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		state, err := db.MigrationStatus(t.Context(), f.URL)
		if err != nil {
			t.Fatal(err)
		}
		stop := runNode(t, f)
		if err := db.MigrateDown(t.Context(), f.URL, state.Latest-1); !errors.Is(err, db.ErrInUse) {
			t.Errorf("MigrateDown beside a running node: got %v, want ErrInUse", err)
		}
		if after, err := db.MigrationStatus(t.Context(), f.URL); err != nil || after != state {
			t.Errorf("MigrateDown changed the state to %+v, %v", after, err)
		}
		stop()
		if err := db.MigrateDown(t.Context(), f.URL, state.Latest-1); err != nil {
			t.Errorf("MigrateDown after the node has ended: %v", err)
		}
	})
}

// runNode leaves the marks of a running node: the lock of an SQLite file's folder, or a
// heartbeat. stop leaves those of one that was killed over a minute ago.
func runNode(t *testing.T, f *storetest.Fixture) (stop func()) {
	t.Helper()
	beat := func(seen time.Time) {
		if err := f.Nodes.PutNode(t.Context(), nodes.Node{ID: "n1", Name: "edge-1", Started: seen, Seen: seen}); err != nil {
			t.Fatal(err)
		}
	}
	beat(f.Clock.Now())
	if strings.HasPrefix(f.URL, "postgres") {
		return func() { beat(f.Clock.Now().Add(-2 * time.Minute)) }
	}
	lock, err := os.Create(filepath.Join(filepath.Dir(f.URL), db.FolderLock))
	if err == nil {
		err = filelock.Lock(lock)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { lock.Close() }
}

func TestOpenStopsWaitingForMigrationLockWithContext(t *testing.T) {
	url := servers.Postgres(t).URL
	holder, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	conn, err := holder.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "SELECT pg_advisory_lock($1)", db.MigrationLock); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = sqlstore.Open(ctx, url, db.Options{})
	storetest.WantFault(t, err, fault.Unavailable)
}

// All who use a table wait behind a migration that waits for it, and a backup may hold every table
// for hours.
func TestNodesWorkWhileAMigrationWaitsForALock(t *testing.T) {
	f := storetest.OpenPostgres(t)
	if err := db.MigrateDown(t.Context(), f.URL, 10); err != nil {
		t.Fatal(err)
	}
	direct, err := sql.Open("pgx", f.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	backup, err := direct.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer backup.Rollback() //nolint:errcheck // it has changed nothing
	if _, err := backup.ExecContext(t.Context(), `DO $$ DECLARE name text; BEGIN
		FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() LOOP EXECUTE format('LOCK TABLE %I IN ACCESS SHARE MODE', name); END LOOP; END $$`); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	go func() { migrated <- db.Migrate(t.Context(), f.URL) }()
	var table string
	servers.Await(t, "the migration waits for a table", func() bool {
		return direct.QueryRowContext(t.Context(), `SELECT relation::regclass FROM pg_locks
			WHERE NOT granted AND locktype = 'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&table) == nil
	})
	if err := f.View(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec("SELECT FROM " + table)
		return err
	}); err != nil {
		t.Errorf("a node cannot read %s: %v", table, err)
	}
	err = <-migrated
	storetest.WantFault(t, err, fault.Unavailable)
	if !strings.Contains(err.Error(), "locked by another program") {
		t.Errorf("got %v, want that another program holds a lock", err)
	}
	if err := backup.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := db.Migrate(t.Context(), f.URL); err != nil {
		t.Error(err)
	}
}

func TestOpenRejectsBadURLsWithoutPrintingPasswords(t *testing.T) {
	for _, url := range []string{
		"", "mysql://root:hunter2@db/x", "postgres://u:hunter2@[bad/x", "postgres://u:hun/ter2@db:x/x", "postgres://u:hunter2@db:99999999/x",
		"postgres://u:hunter2@db/x?sslmode=perhaps", "sqlite://", "postgresql://u:hunter2%zz@db/x", "postgres://u:hunter2@127.0.0.1:1/x",
	} {
		_, err := sqlstore.Open(t.Context(), url, db.Options{})
		if err == nil {
			t.Errorf("Open(%q) succeeded", url)
			continue
		}
		for _, secret := range []string{"hunter2", "ter2", "hun"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows the password: %v", err)
			}
		}
	}
	_, err := sqlstore.Open(t.Context(), filepath.Join(t.TempDir(), "no", "such", "folder.db"), db.Options{})
	storetest.WantFault(t, err, fault.Unavailable)
}

func TestOpenAcceptsAllFormsOfSQLitePath(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	for _, url := range []string{"plain.db", filepath.Join(folder, "a b%3f?#.db"), "sqlite://" + folder + "/slashes.db", "sqlite:relative.db"} {
		s, err := sqlstore.Open(t.Context(), url, db.Options{})
		if err != nil {
			t.Fatalf("%q: %v", url, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if names, err := filepath.Glob(filepath.Join(folder, "*.db")); err != nil || len(names) != 4 {
		t.Fatalf("files %q, %v", names, err)
	}
}
