package sqlstore

import (
	"context"
	"database/sql"
	"log/slog"
	"time"
)

// backend holds the connections of a Store and runs its transactions.
type backend struct {
	place  location
	clock  func() time.Time
	log    *slog.Logger
	after  func(context.Context) error
	writer *sql.DB // on SQLite its one connection that writes
	reader *sql.DB // the same as writer on Postgres
}

// Close ends all connections.
func (s *backend) Close() error {
	err := s.writer.Close()
	if s.reader != s.writer {
		if readerErr := s.reader.Close(); err == nil {
			err = readerErr
		}
	}
	return err
}

// Ping asks the database for a sign of life.
func (s *backend) Ping(ctx context.Context) error {
	var one int
	return s.explain(ctx, s.reader.QueryRowContext(ctx, "SELECT 1").Scan(&one))
}

// Now returns the database's clock: that of its server, on SQLite this
// machine's.
func (s *backend) Now(ctx context.Context) (time.Time, error) {
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
func (s *backend) Health(ctx context.Context) (Health, error) {
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
func (s *backend) now() time.Time { return s.clock().UTC().Truncate(time.Millisecond) }
