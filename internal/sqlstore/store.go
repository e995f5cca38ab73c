// Package sqlstore keeps policies, blocks, exemptions, identities and the audit
// in SQLite or Postgres, with one set of queries. The two differ in opening, in
// classifying errors and in their migrations, and nowhere else.
//
// Every change an operator can see takes the next number of the one locked
// revision row, stamps its rows with it and writes its audit entry in the same
// transaction, so that a node that follows the numbers misses nothing however
// late a transaction commits.
package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"time"
)

// Options are what a store needs beside its place. The zero value is usable.
type Options struct {
	// Now is this node's clock, nil for time.Now. Rows are stamped with it.
	Now func() time.Time
	// Logger hears of connections lost and found again, nil for none.
	Logger *slog.Logger
	// AfterChange is called after each committed change and before its method
	// returns, so that what is acknowledged governs this node already; nil for
	// nothing. It is called too where all was as wanted already: another node
	// may have made it so. Its
	// error makes the change Unavailable, not undone: it is not acknowledged.
	AfterChange func(context.Context) error
}

// Store is safe for use by many goroutines and, on Postgres, by many nodes.
// See Open.
type Store struct {
	// Seeded reports whether Prepare found a new database and filled it: the
	// caller is then the one node that makes the first credentials.
	Seeded bool

	place  location
	clock  func() time.Time
	log    *slog.Logger
	after  func(context.Context) error
	writer *sql.DB // on SQLite its one connection that writes
	reader *sql.DB // the same as writer on Postgres
}

// Open returns a store that is ready for use: it brings the schema up to date
// and seeds a new database. url is "postgres://...", "postgresql://...",
// "sqlite:///path" or the path of an SQLite file. An unreachable database is a
// *fault.Error of code Unavailable. No error names a password.
func Open(ctx context.Context, url string, opts Options) (*Store, error) {
	s, err := New(url, opts)
	if err != nil {
		return nil, err
	}
	if err := s.Prepare(ctx); err != nil {
		_ = s.Close() // the error that matters is the one before
		return nil, err
	}
	return s, nil
}

// New returns a store that has not spoken to its database yet, for a node that
// must start while the database is away; call Prepare before anything else.
func New(url string, opts Options) (*Store, error) {
	place, err := locate(url)
	if err != nil {
		return nil, err
	}
	s := &Store{place: place, clock: opts.Now, log: opts.Logger, after: opts.AfterChange}
	if s.clock == nil {
		s.clock = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.after == nil {
		s.after = func(context.Context) error { return nil }
	}
	if s.writer, s.reader, err = place.open(); err != nil {
		return nil, fmt.Errorf("open the %s database: %w", place.dialect.name, err)
	}
	return s, nil
}

// Prepare brings the schema up to date and seeds a new database; see Seeded. It
// may be called by any number of nodes at once, and again after it failed.
func (s *Store) Prepare(ctx context.Context) error {
	if err := s.place.migrate(ctx); err != nil {
		return err
	}
	if err := s.checkCompatible(ctx); err != nil {
		return err
	}
	return s.seed(ctx)
}

// Close ends all connections.
func (s *Store) Close() error {
	err := s.writer.Close()
	if s.reader != s.writer {
		if readerErr := s.reader.Close(); err == nil {
			err = readerErr
		}
	}
	return err
}

// Ping asks the database for a sign of life.
func (s *Store) Ping(ctx context.Context) error {
	var one int
	return s.explain(ctx, s.reader.QueryRowContext(ctx, "SELECT 1").Scan(&one))
}

// Now returns the database's clock: that of its server, on SQLite this
// machine's.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	var now int64
	if err := s.reader.QueryRowContext(ctx, s.place.dialect.clock).Scan(&now); err != nil {
		return time.Time{}, s.explain(ctx, err)
	}
	return time.UnixMilli(now).UTC(), nil
}

// Health is what a status page says of the database.
type Health struct {
	Backend   string // "postgres" or "sqlite"
	Migration uint   // the number of the schema
	Revision  int64  // of the newest change
	Clock     time.Time
}

// Health reads the state of the database.
func (s *Store) Health(ctx context.Context) (Health, error) {
	h := Health{Backend: s.place.dialect.name}
	err := s.view(ctx, func(t *tx) error {
		if _, err := t.one("SELECT version FROM schema_migrations", nil, &h.Migration); err != nil {
			return err
		}
		_, err := t.one(readRevision, nil, &h.Revision)
		return err
	})
	if err != nil {
		return Health{}, err
	}
	h.Clock, err = s.Now(ctx)
	return h, err
}

// now returns this node's clock as rows keep it: whole milliseconds, UTC.
func (s *Store) now() time.Time { return s.clock().UTC().Truncate(time.Millisecond) }
