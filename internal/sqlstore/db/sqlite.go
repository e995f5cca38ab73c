package db

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"net/url"

	"github.com/golang-migrate/migrate/v4/database"
	migratesqlite "github.com/golang-migrate/migrate/v4/database/sqlite"
	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

var sqlite = dialect{
	name:        "sqlite",
	clock:       "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)",
	countTables: "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = $1",
	server:      "0",
	using:       " INDEXED BY ",
	open:        openSQLite,
	classify:    classifySQLite,
	migrator:    sqliteMigrator,

	mayHaveCommitted: mayHaveCommittedSQLite,
}

// sqliteReaders is how many queries may run concurrently with the writer.
const sqliteReaders = 8

// openSQLite opens a file twice, because SQLite allows one writer at a time. Waiting for the one
// writing connection of a pool is fair and ends with the context. Waiting for SQLite's file lock
// is not fair and does not end with the context.
func openSQLite(path string) (writer, reader *sql.DB, err error) {
	if writer, err = sql.Open("sqlite", sqliteDSN(path)); err != nil {
		return nil, nil, err
	}
	writer.SetMaxOpenConns(1)
	if reader, err = sql.Open("sqlite", sqliteDSN(path)+"&_pragma=query_only(1)"); err != nil {
		return nil, nil, err
	}
	reader.SetMaxOpenConns(sqliteReaders)
	reader.SetMaxIdleConns(sqliteReaders)
	return writer, reader, nil
}

// sqliteDSN sets pragmas in the DSN, since a PRAGMA through a pool reaches only one connection.
// synchronous is FULL: an acknowledged change survives a power failure. The file is not
// trusted: the schema may not call functions with side effects, nor be changed behind SQLite.
func sqliteDSN(path string) string {
	return fileDSN(path, url.Values{
		"_pragma":    {"busy_timeout(5000)", "foreign_keys(1)", "journal_mode(WAL)", "synchronous(FULL)", "cache_size(-32768)", "trusted_schema(0)"},
		"_txlock":    {"immediate"},
		"_defensive": {"1"},
		"_dqs":       {"0"},
	})
}

// untrustedDSN opens a file from an untrusted source read-only. frozen means that nobody writes
// to it and that it has no log.
func untrustedDSN(path string, frozen bool) string {
	settings := url.Values{
		"_pragma":    {"trusted_schema(0)", "query_only(1)", "cell_size_check(1)", "mmap_size(0)"},
		"_defensive": {"1"},
		"_dqs":       {"0"},
		"mode":       {"ro"},
	}
	if frozen {
		settings.Set("immutable", "1")
	}
	return fileDSN(path, settings)
}

func fileDSN(path string, settings url.Values) string {
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: settings.Encode()}).String()
}

func classifySQLite(err error) trouble {
	if errors.Is(err, errMoved) {
		return moved
	}
	var e *driver.Error
	if !errors.As(err, &e) {
		return breakage
	}
	switch e.Code() & 0xff { // without the extended code
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED:
		return again
	case codes.SQLITE_FULL:
		return full
	case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB:
		return damaged
	case codes.SQLITE_READONLY:
		return readOnlyDatabase
	case codes.SQLITE_IOERR:
		return unreadable
	case codes.SQLITE_CANTOPEN:
		return away
	}
	return breakage
}

// mayHaveCommittedSQLite implements dialect.mayHaveCommitted. If the disk fails, the pages of a
// transaction may still be in the write-ahead log, where SQLite finds them when the file is
// opened again. If a write failed, for example because files may not grow, they are not: the
// page that ends the transaction is written last, and counts only if it is complete.
func mayHaveCommittedSQLite(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && e.Code()&0xff == codes.SQLITE_IOERR && e.Code() != codes.SQLITE_IOERR_WRITE
}

// sqliteConnector opens connections to one SQLite file.
type sqliteConnector struct {
	driver sqldriver.Driver
	dsn    string
}

func (c sqliteConnector) Driver() sqldriver.Driver { return c.driver }

func (c sqliteConnector) Connect(context.Context) (sqldriver.Conn, error) {
	return c.driver.Open(c.dsn)
}

func sqliteMigrator(path string) (*migrator, error) {
	db, _, err := openSQLite(path)
	if err != nil {
		return nil, err
	}
	return &migrator{
		db: db,
		driver: func() (database.Driver, error) {
			return migratesqlite.WithInstance(db, &migratesqlite.Config{})
		},
		hold: func() (func(), error) { return holdFolder(path) },
	}, nil
}
