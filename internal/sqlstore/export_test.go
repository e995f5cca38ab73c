package sqlstore

import (
	"context"
	sqldriver "database/sql/driver"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	driver "modernc.org/sqlite"
)

// MigrationLock is the lock that nodes migrate under, for tests that hold it.
const MigrationLock = migrationLock

// MigrateBy runs the migrations of other files than this program's.
func MigrateBy(ctx context.Context, url string, files fs.FS) error {
	place, err := locate(url)
	if err != nil {
		return err
	}
	place.files = files
	return place.migrate(ctx)
}

// RegisterDeath makes SELECT die() kill this process.
func RegisterDeath() {
	driver.MustRegisterScalarFunction("die", 0, func(*driver.FunctionContext, []sqldriver.Value) (sqldriver.Value, error) {
		return nil, syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	})
}

// Setting returns a setting of Postgres as a transaction sees it.
func (s *Store) Setting(t testing.TB, ctx context.Context, name string) (value string) {
	t.Helper()
	err := s.view(ctx, func(t *tx) error {
		_, err := t.one("SELECT current_setting($1)", []any{name}, &value)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// Sleep has Postgres do nothing for some seconds.
func (s *Store) Sleep(ctx context.Context, seconds string) error {
	return s.view(ctx, func(t *tx) error {
		_, err := t.exec("SELECT pg_sleep(CAST($1 AS DOUBLE PRECISION))", seconds)
		return err
	})
}

// LimitPages bounds the SQLite file as a full disk does.
func (s *Store) LimitPages(t testing.TB, pages int) {
	t.Helper()
	if _, err := s.writer.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
		t.Fatal(err)
	}
}

// BulkJSON returns rows as the parameter of a statement.
var BulkJSON = bulkJSON
