// Package db opens the database and runs transactions: changes with their revision and audit record,
// migrations, backups and errors. All that differs between SQLite and Postgres is here.
package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Options are the options of a store besides its location. The zero value is usable.
type Options struct {
	// Now is this node's clock, nil for time.Now. Rows are stamped with it.
	Now func() time.Time
	// Logger logs lost and restored connections, nil for none.
	Logger *slog.Logger
	// AfterChange is called after each committed change and before the method returns, so that
	// an acknowledged change is already in effect on this node; nil for nothing. It is also
	// called if there was nothing to change, since another node may have just made the change.
	// If it returns an error, the change is saved but not acknowledged: the method returns a
	// fault of the code Saved.
	AfterChange func(context.Context) error
	// Observe is called after each transaction with its kind (read, write or change) and its
	// error, nil if a mistake of the caller ended it; nil for nothing.
	Observe func(ctx context.Context, kind string, began time.Time, err error)
	// WrapConnector, if set, returns the connector of the connection that writes to an SQLite
	// file, given the original one. Tests use it to count statements.
	WrapConnector func(driver.Connector) driver.Connector
}

// Open returns the connections of a database without contacting it. Its errors contain no
// password.
func Open(url string, opts Options) (*DB, error) {
	place, err := locate(url)
	if err != nil {
		return nil, err
	}
	d := &DB{place: place, clock: opts.Now, log: opts.Logger, after: opts.AfterChange, observe: opts.Observe, opened: time.Now()}
	if d.clock == nil {
		d.clock = time.Now
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.after == nil {
		d.after = func(context.Context) error { return nil }
	}
	if d.writer, d.reader, err = place.open(); err != nil {
		return nil, fmt.Errorf("open the %s database: %w", place.dialect.name, err)
	}
	if opts.WrapConnector != nil && place.dialect == &sqlite {
		wrapped := opts.WrapConnector(sqliteConnector{d.writer.Driver(), sqliteDSN(place.target)})
		_ = d.writer.Close() // it has no connection yet
		d.writer = sql.OpenDB(wrapped)
		d.writer.SetMaxOpenConns(1)
	}
	return d, nil
}

// DB holds the connections of a Store and runs its transactions.
type DB struct {
	place location
	clock func() time.Time
	log   *slog.Logger
	after func(context.Context) error
	// observe is Options.Observe.
	observe func(ctx context.Context, kind string, began time.Time, err error)
	writer  *sql.DB // on SQLite the only connection that writes
	reader  *sql.DB // the same as writer on Postgres
	held    heldFile

	warned   sync.Map     // what WarnOnce has logged
	opened   time.Time    // on the monotonic clock, unlike rows
	answered atomic.Int64 // nanoseconds after opened until the last answer, 0 for none
}

// LastAnswer returns when the database last carried out a transaction for s, or refused it because
// of a mistake of the caller; zero if it never has. It is on the monotonic clock.
func LastAnswer(s *DB) time.Time {
	after := time.Duration(s.answered.Load())
	if after == 0 {
		return time.Time{}
	}
	return s.opened.Add(after)
}

// Close ends all connections.
func (s *DB) Close() error {
	err := s.writer.Close()
	if s.reader != s.writer {
		if readerErr := s.reader.Close(); err == nil {
			err = readerErr
		}
	}
	return err
}

// Ping checks that the database responds.
func (s *DB) Ping(ctx context.Context) error {
	var one int
	return s.explain(ctx, s.reader.QueryRowContext(ctx, "SELECT 1").Scan(&one))
}

// Now returns the time of the database: the server's clock, on SQLite this machine's.
func (s *DB) Now(ctx context.Context) (time.Time, error) {
	var now int64
	if err := s.reader.QueryRowContext(ctx, s.place.dialect.clock).Scan(&now); err != nil {
		return time.Time{}, s.explain(ctx, err)
	}
	return time.UnixMilli(now).UTC(), nil
}

// Health is the state of the database for a status page.
type Health struct {
	Backend   string // "postgres" or "sqlite"
	Migration uint   // the number of the schema
	Revision  int64  // of the newest change
	Clock     time.Time
}

// Health reads the state of the database.
func (s *DB) Health(ctx context.Context) (Health, error) {
	h := Health{Backend: s.place.dialect.name}
	err := s.View(ctx, func(t *Tx) error {
		if _, err := t.One("SELECT version FROM schema_migrations", nil, &h.Migration); err != nil {
			return err
		}
		_, err := t.One(ReadRevision, nil, &h.Revision)
		return err
	})
	if err != nil {
		return Health{}, err
	}
	h.Clock, err = s.Now(ctx)
	return h, err
}

// LocalNow returns this node's time in the precision of rows: whole milliseconds, UTC.
func (s *DB) LocalNow() time.Time { return s.clock().UTC().Truncate(time.Millisecond) }
