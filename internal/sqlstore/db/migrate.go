package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/stint-dev/stint/migrations"
)

// migrator runs migrations over its own connections, since golang-migrate closes the handle
// that it gets.
type migrator struct {
	db     *sql.DB
	driver func() (database.Driver, error)
	lock   func(context.Context) (unlock func(), err error) // nil if no other process can migrate
	// check returns an error if the way to the database does not allow to use it; nil if any way does.
	check func(context.Context) error
	// hold keeps nodes from using the database until release is called, or returns an ErrInUse.
	// It is nil if only the heartbeat shows that a node is running.
	hold func() (release func(), err error)
}

// MigrationState is the schema version of a database. A new database is at 0.
type MigrationState struct {
	Version uint // of the newest migration that ran
	Latest  uint // of the newest migration that this program knows
	// Dirty means that migration Version is running, or failed and was not repaired.
	Dirty bool
}

// Migrate runs the migrations that the database of url lacks. Nodes that migrate at the same
// time wait for each other.
func Migrate(ctx context.Context, url string) error {
	place, err := locate(url)
	if err != nil {
		return err
	}
	return place.migrate(ctx)
}

// MigrationStatus reads the schema version of the database of url. It changes nothing.
func MigrationStatus(ctx context.Context, url string) (MigrationState, error) {
	place, err := locate(url)
	if err != nil {
		return MigrationState{}, err
	}
	m, err := place.dialect.migrator(place.target)
	if err != nil {
		return MigrationState{}, err
	}
	defer m.db.Close()
	return place.state(ctx, m.db)
}

// migrationLockWait bounds the wait for golang-migrate's own lock. Stint's lock excludes other
// nodes, so only a foreign tool can hold it.
const migrationLockWait = time.Minute

func (l location) migrate(ctx context.Context) error {
	m, err := l.dialect.migrator(l.target)
	if err != nil {
		return err
	}
	defer m.db.Close()
	if m.check != nil {
		if err := m.check(ctx); err != nil {
			return l.unreachable(ctx, err)
		}
	}
	state, err := l.state(ctx, m.db)
	if err != nil || state.upToDate() {
		return err
	}
	if m.lock != nil {
		unlock, err := m.lock(ctx)
		if err != nil {
			return l.unreachable(ctx, fmt.Errorf("wait for another node's migration: %w", err))
		}
		defer unlock()
		// Another node may have migrated in the meantime. Only with the lock held does dirty
		// mean that a migration failed, not that one is running.
		if state, err = l.state(ctx, m.db); err != nil || state.upToDate() {
			return err
		}
	}
	if state.Dirty {
		return state.dirtyError()
	}
	return l.run(ctx, m, (*migrate.Migrate).Up)
}

// MigrateDown undoes the migrations of the database of url that are newer than to; other nodes
// that migrate wait. What only the newer schema can store is lost. If a node uses the database,
// or did so within the last minute, it returns ErrInUse and changes nothing. The error names
// the allowed values of to.
func MigrateDown(ctx context.Context, url string, to uint) error {
	place, err := locate(url)
	if err != nil {
		return err
	}
	m, err := place.dialect.migrator(place.target)
	if err != nil {
		return err
	}
	defer m.db.Close()
	if m.check != nil {
		if err := m.check(ctx); err != nil {
			return place.unreachable(ctx, err)
		}
	}
	if m.lock != nil {
		unlock, err := m.lock(ctx)
		if err != nil {
			return place.unreachable(ctx, fmt.Errorf("wait for another node's migration: %w", err))
		}
		defer unlock()
	}
	state, err := place.state(ctx, m.db)
	switch {
	case err != nil:
		return err
	case state.Dirty:
		return state.dirtyError()
	case state.Version > state.Latest:
		return fmt.Errorf("the database has version %d, which only a newer program can undo; this one knows %d", state.Version, state.Latest)
	case to < 1 || to >= state.Version:
		return fmt.Errorf("the version to go back to must be from 1 to %d; the database has version %d", state.Version-1, state.Version)
	}
	if m.hold != nil {
		release, err := m.hold()
		if err != nil {
			return err
		}
		defer release()
	} else if err := place.checkNodesGone(ctx, m.db); err != nil {
		return err
	}
	return place.run(ctx, m, func(down *migrate.Migrate) error { return down.Migrate(to) })
}

// migrateTo brings an empty SQLite file to a version of the schema.
func (l location) migrateTo(ctx context.Context, version uint) error {
	m, err := l.dialect.migrator(l.target)
	if err != nil {
		return err
	}
	defer m.db.Close()
	return l.run(ctx, m, func(up *migrate.Migrate) error { return up.Migrate(version) })
}

// run calls golang-migrate. A migration that has begun is completed even if ctx ends, since it
// may take longer than a caller waits.
func (l location) run(ctx context.Context, m *migrator, do func(*migrate.Migrate) error) error {
	files, err := iofs.New(l.migrations(), l.dialect.name)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	driver, err := m.driver()
	if err != nil {
		return l.unreachable(ctx, fmt.Errorf("prepare the %s database for migrations: %w", l.dialect.name, err))
	}
	atomic := &atomicDriver{Driver: driver, ctx: context.WithoutCancel(ctx), db: m.db, before: l.dialect.beforeMigration}
	run, err := migrate.NewWithInstance("iofs", files, l.dialect.name, atomic)
	if err != nil {
		return err
	}
	defer run.Close()
	run.LockTimeout = migrationLockWait
	if err := do(run); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return l.unreachable(ctx, err)
	}
	return nil
}

// migrations returns the migration files.
func (l location) migrations() fs.FS {
	if l.files != nil {
		return l.files
	}
	return migrations.Files
}

// upToDate reports whether there is no migration to run. A database newer than this program is
// up to date.
func (m MigrationState) upToDate() bool { return !m.Dirty && m.Version >= m.Latest }

func (m MigrationState) dirtyError() error {
	undo := fmt.Sprintf("set version to %d and dirty to false in the table schema_migrations", m.Version-1)
	if m.Version <= 1 {
		undo = "empty the table schema_migrations"
	}
	return fmt.Errorf("migration %d failed in this database under an older release or another tool and left it marked dirty; "+
		"nothing is forced by itself: find out why it failed (its file is one transaction, which was undone), then %s, and start again", m.Version, undo)
}

// state reads the version without golang-migrate, whose drivers create their table when they
// are opened.
func (l location) state(ctx context.Context, db *sql.DB) (MigrationState, error) {
	state, err := l.latest()
	if err != nil {
		return state, err
	}
	var tables int
	if err := db.QueryRowContext(ctx, l.dialect.countTables, "schema_migrations").Scan(&tables); err != nil {
		return state, l.unreachable(ctx, err)
	}
	if tables == 0 {
		return state, nil
	}
	_, err = found(db.QueryRowContext(ctx, "SELECT version, dirty FROM schema_migrations").Scan(&state.Version, &state.Dirty))
	return state, l.unreachable(ctx, err)
}

func (l location) latest() (MigrationState, error) {
	files, err := iofs.New(l.migrations(), l.dialect.name)
	if err != nil {
		return MigrationState{}, fmt.Errorf("read the migrations: %w", err)
	}
	defer files.Close()
	version, err := files.First()
	for err == nil {
		var next uint
		if next, err = files.Next(version); err == nil {
			version = next
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return MigrationState{}, fmt.Errorf("read the migrations: %w", err)
	}
	return MigrationState{Latest: version}, nil
}

// unreachable explains an error that occurred before there was a store.
func (l location) unreachable(ctx context.Context, err error) error {
	explained := (&DB{place: l}).explain(ctx, err)
	if errors.Is(explained, ErrUnfit) {
		return fmt.Errorf("%s database: %w", l.dialect.name, err) // waiting does not help a migration
	}
	return explained
}

// Prepare runs the migrations that the database lacks and checks that this program can use the
// result.
func (s *DB) Prepare(ctx context.Context) error {
	if err := s.place.migrate(ctx); err != nil {
		return err
	}
	return s.CheckCompatible(ctx)
}

// CheckCompatible refuses a database that a newer release has changed incompatibly.
func (s *DB) CheckCompatible(ctx context.Context) error {
	latest, err := s.place.latest()
	if err != nil {
		return err
	}
	return s.View(ctx, func(t *Tx) error {
		var text string
		if _, err := t.One("SELECT value FROM settings WHERE name = 'compatible_from'", nil, &text); err != nil {
			return err
		}
		from, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return fmt.Errorf("the setting compatible_from is %q, not a migration's number", text)
		}
		if uint(from) > latest.Latest {
			return fmt.Errorf("the database needs a program that knows migration %d, and this one knows %d; upgrade this node", from, latest.Latest)
		}
		return nil
	})
}
