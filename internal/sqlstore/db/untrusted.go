package db

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/stint-dev/stint/internal/fault"
)

// untrusted is a database file that may be malicious. It is a private copy: nobody else writes
// to it.
type untrusted struct {
	path   string
	folder string // for temporary files
}

const (
	// maxValue bounds one value of a backup, in bytes.
	maxValue = 64 << 20
	// maxNumber bounds ids and revisions of a backup, so that there is room for later ones.
	maxNumber = 1 << 53
	// maxInstant is the latest time that a response can contain, the end of the year 9999, in
	// milliseconds.
	maxInstant = 253402300799999
)

// check returns an Invalid fault for a file that is damaged, not from Stint, or newer than this
// program. It executes nothing from the file and changes nothing.
func (u untrusted) check(ctx context.Context) error {
	db, err := sql.Open("sqlite", untrustedDSN(u.path, true))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if err := limitValues(ctx, db); err != nil {
		return u.damaged(ctx, err)
	}
	found, err := schemaOf(ctx, db)
	if err != nil {
		return u.damaged(ctx, err)
	}
	version, err := u.version(ctx, db, found)
	if err != nil {
		return err
	}
	wanted, err := referenceAt(ctx, u.folder, version)
	if err != nil {
		return err
	}
	if wrong := wanted.schema.difference(found); wrong != "" {
		return NotABackup(nil, "%s", wrong)
	}
	if err := u.checkPages(ctx, db); err != nil {
		return err
	}
	return u.checkNumbers(ctx, db, wanted)
}

// limitValues prevents the one connection of db from building huge values.
func limitValues(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = driver.Limit(conn, codes.SQLITE_LIMIT_LENGTH, maxValue)
	return err
}

// damaged returns the fault for an SQLite error about the file.
func (u untrusted) damaged(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &fault.Error{Code: fault.Invalid, Field: "path", Message: "names a backup that is damaged", Err: err}
}

// version reads the schema version of the file.
func (u untrusted) version(ctx context.Context, db *sql.DB, found schema) (uint, error) {
	if !slices.ContainsFunc(found, func(o schemaObject) bool { return o.kind == "table" && o.name == "schema_migrations" }) {
		return 0, NotABackup(nil, "it has no table schema_migrations")
	}
	var rows, version, dirty int64
	const query = `SELECT count(*), coalesce(max(version), 0), coalesce(max(dirty), 0) FROM schema_migrations`
	if err := db.QueryRowContext(ctx, query).Scan(&rows, &version, &dirty); err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return 0, NotABackup(err, "its table schema_migrations cannot be read")
	}
	state, err := location{dialect: &sqlite, target: u.path}.latest()
	switch {
	case err != nil:
		return 0, err
	case rows != 1 || version < 1:
		return 0, NotABackup(nil, "it does not say its schema version")
	case dirty != 0:
		return 0, fault.Field("path", "names a backup of a database whose migration %d had failed", version)
	case version > int64(state.Latest):
		return 0, fault.Field("path", "names a backup at migration %d, and this program knows %d; upgrade it first", version, state.Latest)
	}
	return uint(version), nil
}

// checkPages makes SQLite read every page, index, type and constraint.
func (u untrusted) checkPages(ctx context.Context, db *sql.DB) error {
	var result string
	if err := db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&result); err != nil {
		return u.damaged(ctx, err)
	}
	if result != "ok" {
		return u.damaged(ctx, fmt.Errorf("integrity check: %s", Clip(result)))
	}
	var table string
	known, err := found(db.QueryRowContext(ctx, "SELECT \"table\" FROM pragma_foreign_key_check LIMIT 1").Scan(&table))
	if err != nil {
		return u.damaged(ctx, err)
	}
	if known {
		return u.damaged(ctx, fmt.Errorf("rows of %s refer to rows that are not there", Quote(table)))
	}
	return nil
}

// checkNumbers refuses values that are well formed but harmful later: ids and revisions so high
// that none can follow, rows newer than the database itself, times that no response can
// contain, and values of many megabytes.
func (u untrusted) checkNumbers(ctx context.Context, db *sql.DB, made reference) error {
	var rows, revision int64
	if err := db.QueryRowContext(ctx, "SELECT count(*), coalesce(max(value), -1) FROM revision").Scan(&rows, &revision); err != nil {
		return u.damaged(ctx, err)
	}
	if rows != 1 || revision < 0 || revision > maxNumber {
		return NotABackup(nil, "its revision is %d", revision)
	}
	for _, table := range made.schema.tables() {
		if table == "schema_migrations" {
			continue
		}
		for _, column := range made.columns[table] {
			if err := u.checkColumn(ctx, db, table, column, revision); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u untrusted) checkColumn(ctx context.Context, db *sql.DB, table, column string, revision int64) error {
	var longest, low, high, latest int64
	name := quoted(column)
	query := "SELECT coalesce(max(octet_length(" + name + ")), 0)," +
		" coalesce(min(CASE WHEN typeof(" + name + ") = 'integer' THEN " + name + " END), 0)," +
		" coalesce(max(CASE WHEN typeof(" + name + ") = 'integer' THEN " + name + " END), 0)," +
		" coalesce(max(CASE WHEN typeof(" + name + ") = 'integer' AND " + name + " < $1 THEN " + name + " END), 0) FROM " + quoted(table)
	if err := db.QueryRowContext(ctx, query, forever).Scan(&longest, &low, &high, &latest); err != nil {
		return u.damaged(ctx, err)
	}
	where := table + "." + column
	switch {
	case longest > maxValue:
		return NotABackup(nil, "%s has a value of %d bytes", where, longest)
	case column == "revision" && (low < 0 || high > revision):
		return NotABackup(nil, "%s goes beyond the revision of the whole, %d", where, revision)
	case (column == "at" || strings.HasSuffix(column, "_at")) && (low < 0 || latest > maxInstant):
		return NotABackup(nil, "%s has a time outside the years 1970 to 9999", where)
	case (column == "id" || strings.HasSuffix(column, "_id") || column == "version" || column == "generation") && (low < 0 || high > maxNumber):
		return NotABackup(nil, "%s has a number outside 0 to %d", where, int64(maxNumber))
	}
	return nil
}
