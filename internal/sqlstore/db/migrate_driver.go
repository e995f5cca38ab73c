package db

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"strings"

	"github.com/golang-migrate/migrate/v4/database"
)

// atomicDriver runs a migration and stores its number in one transaction. golang-migrate
// instead marks the database dirty in a transaction before and clean in one after. With
// atomicDriver, a node killed in between leaves the database at the previous migration, and the
// next start continues from there.
type atomicDriver struct {
	database.Driver
	ctx     context.Context // of all migrations
	db      *sql.DB
	before  string // the first statement in each migration's transaction, "" for none
	pending int    // the number of the migration that Run gets next
}

// SetVersion keeps the number for Run. When golang-migrate calls it to mark the database clean,
// Run has already stored the number.
func (d *atomicDriver) SetVersion(version int, dirty bool) error {
	if dirty {
		d.pending = version
	}
	return nil
}

// Run runs one migration, all or nothing.
func (d *atomicDriver) Run(migration io.Reader) error {
	text, err := io.ReadAll(migration)
	if err != nil {
		return err
	}
	tx, err := d.db.BeginTx(d.ctx, nil)
	if err != nil {
		return d.failed(err)
	}
	defer func() { _ = tx.Rollback() }() // no effect after Commit
	if d.before != "" {
		if _, err := tx.ExecContext(d.ctx, d.before); err != nil {
			return d.failed(err)
		}
	}
	for _, s := range []statement{
		{"DELETE FROM schema_migrations", nil},
		{"INSERT INTO schema_migrations (version, dirty) VALUES ($1, $2)", []any{d.pending, false}},
		{string(text), nil},
	} {
		if _, err := tx.ExecContext(d.ctx, s.text, s.args...); err != nil {
			return d.failed(err)
		}
	}
	if err := tx.Commit(); err != nil {
		return d.failed(err)
	}
	return nil
}

// failed converts an error to one line: an error of Postgres may contain lines of the
// migration.
func (d *atomicDriver) failed(err error) error {
	return migrationError{
		text: fmt.Sprintf("migration %d failed and was undone: %s", d.pending, strings.Join(strings.Fields(err.Error()), " ")),
		err:  err,
	}
}

type migrationError struct {
	text string
	err  error
}

func (e migrationError) Error() string { return e.text }
func (e migrationError) Unwrap() error { return e.err }
