package db

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"
)

// location is the address of a database and its dialect.
type location struct {
	dialect *dialect
	// target is the path of an SQLite file or the URL of a Postgres, which may contain a
	// password and is never printed.
	target string
	files  fs.FS // the migrations, nil for this program's own
}

// dialect contains all differences between the two databases except their migrations.
type dialect struct {
	name   string // also the folder of its migrations
	clock  string // the query for its clock in Unix milliseconds
	notify string // the statement that wakes the other nodes, "" for none
	// countTables counts the tables of a name that unqualified queries see.
	countTables string
	open        func(target string) (writer, reader *sql.DB, err error)
	classify    func(error) trouble
	// mayHaveCommitted reports whether a COMMIT may have succeeded although it returned an
	// error.
	mayHaveCommitted func(error) bool
	// beforeMigration is the first statement in the transaction of a migration, "" for none.
	beforeMigration string
	// server is an expression whose value changes when another server takes over.
	server string
	// using begins the clause that names the index for reading a table, "" if the planner has
	// statistics of the table.
	using string
	// longStatements is the statement that lifts the time limit of a transaction's statements,
	// "" if there is no limit.
	longStatements string
	migrator       func(target string) (*migrator, error)
}

func (l location) open() (writer, reader *sql.DB, err error) { return l.dialect.open(l.target) }

// locate parses a database URL. Its errors do not contain the URL, since a malformed one may
// have a password in any place.
func locate(text string) (location, error) {
	scheme, rest, found := strings.Cut(text, ":")
	switch {
	case text == "":
		return location{}, errors.New("the database URL is empty; write postgres://user:password@host:5432/name or the path of an SQLite file")
	case found && (scheme == "postgres" || scheme == "postgresql"):
		if _, err := postgresConfig(text); err != nil {
			return location{}, refusedURL(err)
		}
		return location{dialect: &postgres, target: text}, nil
	case found && scheme == "sqlite":
		path, err := url.PathUnescape(strings.TrimPrefix(rest, "//"))
		if err != nil || path == "" {
			return location{}, errors.New("the database URL names no SQLite file; write sqlite:///path/to/stint.db")
		}
		return sqliteFile(path)
	case strings.Contains(text, "://"):
		return location{}, errors.New("the database URL has an unknown scheme; write postgres://..., sqlite:///path or the path of an SQLite file")
	}
	return sqliteFile(text)
}

// refusedURL returns what is wrong with a Postgres URL.
func refusedURL(err error) error {
	var file *fs.PathError
	switch cause := errors.Unwrap(err); {
	case errors.As(err, &file):
		return fmt.Errorf("a file that the database URL names cannot be read: %w", file)
	case cause != nil && cause.Error() == "sslmode is invalid":
		return errors.New("the database URL has an unknown sslmode; it is disable, allow, prefer, require, verify-ca or verify-full")
	case cause != nil && cause.Error() == "unable to add CA to cert pool":
		return errors.New("the file that the database URL names as sslrootcert holds no certificate in PEM")
	}
	return errors.New("the database URL is not one of Postgres; write postgres://user:password@host:5432/name, with special characters of the password percent-encoded")
}

func sqliteFile(path string) (location, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return location{}, err
	}
	return location{dialect: &sqlite, target: full}, nil
}

// Place identifies the database without credentials. It is the same for every node with the
// same URL.
func (s *DB) Place() string {
	if s.place.dialect != &postgres {
		return "sqlite:" + s.place.target
	}
	config, err := postgresConfig(s.place.target)
	if err != nil {
		return "postgres:" // cannot happen: New has parsed the same URL
	}
	return "postgres:" + strings.Join(hostsOf(config), ",") + "/" + config.Database + "?" + config.RuntimeParams["search_path"]
}
