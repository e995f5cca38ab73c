package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
)

const (
	// takeRevision locks the one row until the transaction ends, which makes
	// every change wait for the one before and commits revisions in order.
	takeRevision = `UPDATE revision SET value = value + 1 WHERE id = 1 RETURNING value`
	readRevision = `SELECT value FROM revision WHERE id = 1`
)

// tx is one transaction as the store's methods see it.
type tx struct {
	ctx   context.Context
	sql   *sql.Tx
	store *backend
	now   time.Time // one instant for the whole transaction

	// Only inside change:
	by       audit.Actor
	revision int64
	undoing  int64           // the audit entry that this change undoes, 0 for none
	recorded bool            // audit records were written that are not in the chain yet
	entries  []*audit.Record // those records, as they were written
}

// change runs do in a transaction that takes the next revision, with the
// revision row locked, so that no other change runs beside it on any node. do
// stamps what it writes with t.revision, calls t.record, and may be called
// again when two transactions met. errUnchanged from do undoes all and is no
// error.
func (s *backend) change(ctx context.Context, by audit.Actor, do func(t *tx) error) error {
	return s.changeOn(ctx, s.writer, by, do)
}

// beginner is a pool, or one connection of it.
type beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

func (s *backend) changeOn(ctx context.Context, db beginner, by audit.Actor, do func(t *tx) error) error {
	err := s.commit(ctx, db, by, do)
	unchanged := errors.Is(err, errUnchanged)
	if err != nil && !unchanged {
		return err
	}
	// What is as wanted already may have become so on another node a moment
	// ago, and what is acknowledged here must govern here.
	if err := s.after(ctx); err != nil {
		return &fault.Error{Code: fault.Unavailable, Err: err, Message: "The change is kept, and does not govern this node yet: the database became unreachable behind it. It will as soon as the database is back; do not repeat it."}
	}
	return nil
}

// commit is change without waiting until the change governs this node, for
// what governs no check.
func (s *backend) commit(ctx context.Context, db beginner, by audit.Actor, do func(t *tx) error) error {
	return s.transact(ctx, db, nil, func(t *tx) error {
		t.by = by
		if _, err := t.one(takeRevision, nil, &t.revision); err != nil {
			return err
		}
		// The wait for the lock may have been long.
		t.now = s.now()
		if err := do(t); err != nil {
			return err
		}
		if s.place.dialect.notify == "" {
			return nil
		}
		_, err := t.exec(s.place.dialect.notify, t.revision)
		return err
	})
}

// write runs do in a transaction that is no change of the catalog: statistics,
// sessions, leases. do may be called again when two transactions met.
func (s *backend) write(ctx context.Context, do func(t *tx) error) error {
	return s.transact(ctx, s.writer, nil, do)
}

// view runs do in a transaction that only reads and sees one state of the
// database throughout.
func (s *backend) view(ctx context.Context, do func(t *tx) error) error {
	return s.transact(ctx, s.reader, readOnly, do)
}

// maxAttempts bounds how often a transaction is tried that met another.
const maxAttempts = 6

func (s *backend) transact(ctx context.Context, db beginner, opts *sql.TxOptions, do func(t *tx) error) error {
	for attempt := 1; ; attempt++ {
		err := s.attempt(ctx, db, opts, do)
		if err == nil || errors.Is(err, errUnchanged) {
			return err
		}
		if s.place.dialect.classify(err) != again || attempt == maxAttempts || ctx.Err() != nil {
			return s.explain(ctx, err)
		}
		if err := pause(ctx, time.Duration(attempt)*10*time.Millisecond+rand.N(10*time.Millisecond)); err != nil {
			return s.explain(ctx, err)
		}
	}
}

func (s *backend) attempt(ctx context.Context, db beginner, opts *sql.TxOptions, do func(t *tx) error) error {
	begun, err := db.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { _ = begun.Rollback() }() // does nothing after Commit
	t := &tx{ctx: ctx, sql: begun, store: s, now: s.now()}
	if ctx.Value(longKey{}) != nil {
		if err := t.allowLong(); err != nil {
			return err
		}
	}
	if err := do(t); err != nil {
		return err
	}
	if t.recorded {
		if err := t.chainAudit(); err != nil {
			return err
		}
	}
	if err := begun.Commit(); err != nil {
		return commitError{err}
	}
	return nil
}

type longKey struct{}

// AllowLong lets the statements that run under the context it returns take
// minutes: for jobs, which nobody waits for.
func AllowLong(ctx context.Context) context.Context { return context.WithValue(ctx, longKey{}, true) }

// allowLong lets the statements of this transaction take minutes, for work that
// nobody waits for or that reads everything.
func (t *tx) allowLong() error {
	if t.store.place.dialect.longStatements == "" {
		return nil
	}
	_, err := t.exec(t.store.place.dialect.longStatements)
	return err
}

// exec runs a statement and returns the number of rows it touched.
func (t *tx) exec(statement string, args ...any) (int64, error) {
	result, err := t.sql.ExecContext(t.ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// one reads the first row of a query and reports whether there was one.
func (t *tx) one(query string, args []any, into ...any) (bool, error) {
	return found(t.sql.QueryRowContext(t.ctx, query, args...).Scan(into...))
}

// row is what a scan function reads from.
type row interface{ Scan(into ...any) error }

// each reads every row of a query with scan.
func each[T any](t *tx, scan func(row) (T, error), query string, args ...any) ([]T, error) {
	rows, err := t.sql.QueryContext(t.ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, scan)
}

// collect reads rows to their end and closes them.
func collect[T any](rows *sql.Rows, scan func(row) (T, error)) ([]T, error) {
	defer rows.Close()
	var all []T
	for rows.Next() {
		item, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, item)
	}
	return all, rows.Err()
}

// stream hands every row of a query to do, one at a time.
func stream[T any](t *tx, scan func(row) (T, error), query string, args []any, do func(T) error) error {
	rows, err := t.sql.QueryContext(t.ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		item, err := scan(rows)
		if err != nil {
			return err
		}
		if err := do(item); err != nil {
			return err
		}
	}
	return rows.Err()
}

// newID returns a UUIDv7, which sorts by the time it was made.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return id.String(), nil
}

// forever is the expiry of what never expires, so that an expiry compares and
// sorts without a special case.
const forever int64 = math.MaxInt64

// toMS returns an instant as rows keep it, 0 for the zero time.
func toMS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// fromMS undoes toMS.
func fromMS(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// expiryToMS returns an expiry as rows keep it; the zero time never comes.
func expiryToMS(t time.Time) int64 {
	if t.IsZero() {
		return forever
	}
	return t.UnixMilli()
}

// expiryFromMS undoes expiryToMS.
func expiryFromMS(ms int64) time.Time {
	if ms == forever {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// The statements of one subject within a transaction.
type (
	policyTx   struct{ *tx }
	identityTx struct{ *tx }
	offenceTx  struct{ *tx }
)

func policiesIn(t *tx) policyTx     { return policyTx{t} }
func identitiesIn(t *tx) identityTx { return identityTx{t} }
func offencesIn(t *tx) offenceTx    { return offenceTx{t} }
