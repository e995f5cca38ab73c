package db

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"strings"

	"github.com/golang-migrate/migrate/v4/database"
)

// atomicDriver runs a migration and notes its number in one transaction, where
// golang-migrate marks the database dirty in a transaction before it and clean
// in another after it. Whatever kills a node in between then leaves the database
// at the migration before, and the next start goes on from there.
type atomicDriver struct {
	database.Driver
	ctx     context.Context // of the whole migration
	db      *sql.DB
	before  string // a statement that each migration's transaction begins with, "" for none
	pending int    // the number of the migration that Run is given next
}

// SetVersion notes the number for Run. Run has noted it in the database by the
// time that golang-migrate calls for a clean one.
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
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
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

// failed puts an error into one line; Postgres repeats lines of the migration.
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
