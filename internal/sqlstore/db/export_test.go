package db

import (
	"context"
	sqldriver "database/sql/driver"
	"io/fs"
	"syscall"

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
