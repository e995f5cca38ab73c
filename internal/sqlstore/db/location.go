package db

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// location is where a database is and how it is spoken to.
type location struct {
	dialect *dialect
	// target is the URL of a Postgres, which may hold a password and is never
	// printed, or the path of an SQLite file.
	target string
	files  fs.FS // the migrations, nil for those of this program
}

// dialect is all that differs between the two databases beside their
// migrations.
type dialect struct {
	name   string // also the folder of its migrations
	clock  string // the query for its clock in Unix milliseconds
	notify string // the statement that wakes the other nodes, "" for none
	// countTables counts the tables of a name that unqualified queries see.
	countTables string
	open        func(target string) (writer, reader *sql.DB, err error)
	classify    func(error) trouble
	// mayHaveCommitted reports whether a COMMIT that failed with an error may have been
	// carried out.
	mayHaveCommitted func(error) bool
	// beforeMigration begins the transaction of a migration, "" for nothing.
	beforeMigration string
	// server is an expression that differs between a server and one that takes over from it.
	server string
	// using begins the clause after a table that names the index to read it by, "" where
	// the planner knows which rows a table has.
	using string
	// middle is Middle.
	middle func(t *Tx, table string) (column string, middle any, err error)
	// lengthsHold is the query for whether octet_length counts the bytes as which this program
	// gets a text: a database may keep it in another encoding.
	lengthsHold string
	// longStatements lets the statements of a transaction take longer than
	// others, "" where none is limited.
	longStatements string
	migrator       func(target string) (*migrator, error)
}

func (l location) open() (writer, reader *sql.DB, err error) { return l.dialect.open(l.target) }

// locate reads a database URL. Its errors do not repeat the URL, which may hold
// a password in a place where no parser finds it.
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

// refusedURL returns what is wrong with a URL of Postgres.
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

// Place names the database without any credential, the same for every node
// that uses it by the same URL.
func (s *DB) Place() string {
	if s.place.dialect != &postgres {
		return "sqlite:" + s.place.target
	}
	config, err := postgresConfig(s.place.target)
	if err != nil {
		return "postgres:" // New has read the same URL
	}
	hosts := []string{fmt.Sprintf("%s:%d", config.Host, config.Port)}
	for _, other := range config.Fallbacks {
		hosts = append(hosts, fmt.Sprintf("%s:%d", other.Host, other.Port))
	}
	slices.Sort(hosts)
	return "postgres:" + strings.Join(slices.Compact(hosts), ",") + "/" + config.Database + "?" + config.RuntimeParams["search_path"]
}
