package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/supervise"
)

const (
	// takeRevision locks the row until the transaction ends, so that every change waits for the
	// previous one and revisions are committed in order.
	takeRevision = `UPDATE revision SET value = value + 1 WHERE id = 1 RETURNING value`
	// ReadRevision selects the revision of the newest committed change.
	ReadRevision = `SELECT value FROM revision WHERE id = 1`
)

// Server returns the SQL expression for catalog.Position.Server.
func Server(t *Tx) string { return t.store.place.dialect.server }

// Tx is a transaction.
type Tx struct {
	ctx   context.Context
	sql   *sql.Tx
	store *DB
	Now   time.Time // one instant for the whole transaction

	// By is the actor of the change. By and the fields below are set only inside a change.
	By       audit.Actor
	Revision int64
	Undoing  int64           // the audit entry that this change undoes, 0 for none
	recorded bool            // audit records were written that are not in the chain yet
	records  []*audit.Record // those records
}

// LogOf returns the logger of a transaction's store, never nil.
func LogOf(t *Tx) *slog.Logger { return t.store.log }

// WarnOnce logs a text unless that was logged already: it is for what every further read finds again.
func WarnOnce(t *Tx, text string, args ...any) {
	if _, was := t.store.warned.LoadOrStore(text, true); !was {
		t.store.log.WarnContext(t.ctx, text, args...)
	}
}

// Change runs do in a transaction that takes the next revision. It locks the revision row, so
// that no other change runs at the same time on any node. do stores t.Revision in the rows that
// it writes, and calls t.AddRecord. It may be called again after a conflict with another
// transaction. If do returns ErrUnchanged, the transaction is rolled back and Change returns
// nil. After a fault of the code Saved everything is committed, and the results of do are
// valid; after one of the code MaybeSaved that is unknown.
func (s *DB) Change(ctx context.Context, by audit.Actor, do func(t *Tx) error) error {
	return s.changeOn(ctx, s.writer, by, do)
}

// beginner is a pool, or one connection of it.
type beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

func (s *DB) changeOn(ctx context.Context, db beginner, by audit.Actor, do func(t *Tx) error) error {
	err := s.commit(ctx, db, by, do)
	unchanged := errors.Is(err, ErrUnchanged)
	if err != nil && !unchanged {
		return err
	}
	// Also without a change: another node may have just made it, and a change that is
	// acknowledged here must be in effect here.
	if err := s.Refresh(ctx); err != nil {
		return &fault.Error{Code: fault.Saved, Err: err, Message: "The change is saved; do not repeat it. It is not in effect on this node yet, because the database could not be read afterwards. It takes effect as soon as the database is back."}
	}
	return nil
}

// Refresh calls Options.AfterChange.
func (s *DB) Refresh(ctx context.Context) error { return s.after(ctx) }

// ChangeWithoutRefresh is Change without waiting for the change to take effect on this node,
// for changes that affect no check.
func (s *DB) ChangeWithoutRefresh(ctx context.Context, by audit.Actor, do func(t *Tx) error) error {
	return s.commit(ctx, s.writer, by, do)
}

func (s *DB) commit(ctx context.Context, db beginner, by audit.Actor, do func(t *Tx) error) error {
	return s.transact(ctx, "change", db, nil, func(t *Tx) error {
		t.By = by
		if _, err := t.One(takeRevision, nil, &t.Revision); err != nil {
			return err
		}
		// Waiting for the lock may have taken long.
		t.Now = s.LocalNow()
		if err := do(t); err != nil {
			return err
		}
		return t.WakeNodes()
	})
}

// WakeNodes makes Postgres wake the other nodes after the transaction is committed.
func (t *Tx) WakeNodes() error {
	if t.store.place.dialect.notify == "" {
		return nil
	}
	_, err := t.Exec(t.store.place.dialect.notify, t.Revision)
	return err
}

// SetNow replaces the time of the transaction.
func (t *Tx) SetNow(now time.Time) { t.Now = now.UTC().Truncate(time.Millisecond) }

// BecomeChange takes the next revision in a transaction that began as a write.
func (t *Tx) BecomeChange(by audit.Actor) error {
	t.By = by
	_, err := t.One(takeRevision, nil, &t.Revision)
	return err
}

// Using returns the clause after a table by which SQLite uses an index. Without statistics,
// SQLite expects a few keys to have more rows than a day. It is empty on Postgres.
func Using(t *Tx, index string) string {
	if t.store.place.dialect.using == "" {
		return ""
	}
	return t.store.place.dialect.using + index
}

// Containing returns the condition that one of two columns contains a text, without regard to the case of
// ASCII letters, and its arguments. It compares both columns at once, joined by a line break, which no
// text has: that takes little more than half the time of two comparisons. LIKE of SQLite ignores the case
// by itself: lower would take a quarter of the time. A text without letters, such as an address, is found
// by instr in two thirds of the time of LIKE.
func (s *DB) Containing(text, one, other string) (clause string, args []any) {
	both := one + ` || '\n' || ` + other
	switch {
	case s.place.dialect != &sqlite:
		both = "lower(" + both + ")"
	case !strings.ContainsFunc(text, func(r rune) bool { return 'a' <= r|0x20 && r|0x20 <= 'z' }):
		return "(instr(" + one + ", ?) > 0 OR instr(" + other + ", ?) > 0)", []any{text, text}
	}
	return both + ` LIKE ? ESCAPE '\'`, []any{LikeContaining(text)}
}

// Context returns the context of the transaction.
func (t *Tx) Context() context.Context { return t.ctx }

// Prepare returns a statement that is valid until the transaction ends.
func (t *Tx) Prepare(statement string) (*sql.Stmt, error) {
	return t.sql.PrepareContext(t.ctx, statement)
}

// Write runs do in a transaction that does not change the catalog: statistics, sessions,
// leases. do may be called again after a conflict with another transaction.
func (s *DB) Write(ctx context.Context, do func(t *Tx) error) error {
	return s.transact(ctx, "write", s.writer, nil, do)
}

// View runs do in a read-only transaction that sees one state of the database.
func (s *DB) View(ctx context.Context, do func(t *Tx) error) error {
	return s.transact(ctx, "read", s.reader, readOnly, do)
}

// Run runs one statement in a transaction as that of Write.
func (s *DB) Run(ctx context.Context, statement string, args ...any) error {
	return s.Write(ctx, func(t *Tx) error {
		_, err := t.Exec(statement, args...)
		return err
	})
}

// Read returns what do returns in a transaction as that of View.
func Read[T any](ctx context.Context, s *DB, do func(t *Tx) (T, error)) (read T, err error) {
	err = s.View(ctx, func(t *Tx) error {
		read, err = do(t)
		return err
	})
	return read, err
}

// List reads every row of a query with scan, in a transaction as that of View.
func List[T any](ctx context.Context, s *DB, scan func(Row) (T, error), query string, args ...any) ([]T, error) {
	return Read(ctx, s, func(t *Tx) ([]T, error) { return Each(t, scan, query, args...) })
}

// maxAttempts bounds the attempts of a transaction that conflicts with others.
const maxAttempts = 6

func (s *DB) transact(ctx context.Context, kind string, db beginner, opts *sql.TxOptions, do func(t *Tx) error) (err error) {
	began := time.Now()
	defer func() {
		own := ownError(err)
		if own == nil {
			s.answered.Store(int64(max(1, time.Since(s.opened))))
		}
		if s.observe != nil {
			s.observe(ctx, kind, began, own)
		}
	}()
	for attempt := 1; ; attempt++ {
		err := s.attempt(ctx, db, opts, do)
		if err == nil || errors.Is(err, ErrUnchanged) {
			return err
		}
		var saving commitError
		if errors.As(err, &saving) || s.place.dialect.classify(err) != again || attempt == maxAttempts || ctx.Err() != nil {
			return s.explain(ctx, err)
		}
		if err := supervise.Sleep(ctx, time.Duration(attempt)*10*time.Millisecond+rand.N(10*time.Millisecond)); err != nil {
			return s.explain(ctx, err)
		}
	}
}

// ownError returns err, or nil if it is only a mistake of the caller.
func ownError(err error) error {
	var mistake *fault.Error
	if errors.Is(err, ErrUnchanged) || errors.As(err, &mistake) && mistake.Code != fault.Unavailable && mistake.Code != fault.MaybeSaved {
		return nil
	}
	return err
}

func (s *DB) attempt(ctx context.Context, db beginner, opts *sql.TxOptions, do func(t *Tx) error) error {
	begun, err := db.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { _ = begun.Rollback() }() // no effect after Commit
	if opts != readOnly {
		if err := s.held.check(s.place); err != nil {
			return err
		}
	}
	t := &Tx{ctx: ctx, sql: begun, store: s, Now: s.LocalNow()}
	if ctx.Value(longKey{}) != nil {
		if err := t.AllowLong(); err != nil {
			return err
		}
	}
	if err := do(t); err != nil {
		return err
	}
	if t.recorded {
		if err := t.ChainAudit(); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err = begun.Commit()
	// ErrTxDone: the context ended and the transaction was rolled back.
	if err == nil || opts == readOnly || errors.Is(err, sql.ErrTxDone) || !s.place.dialect.mayHaveCommitted(err) {
		return err
	}
	return commitError{err}
}

type longKey struct{}

// AllowLong lets statements with the returned context take minutes, for jobs, which nobody
// waits for.
func AllowLong(ctx context.Context) context.Context { return context.WithValue(ctx, longKey{}, true) }

// AllowLong lets the statements of this transaction take minutes, for work that nobody waits
// for or that reads everything.
func (t *Tx) AllowLong() error {
	if t.store.place.dialect.longStatements == "" {
		return nil
	}
	_, err := t.Exec(t.store.place.dialect.longStatements)
	return err
}

// Exec runs a statement and returns the number of affected rows.
func (t *Tx) Exec(statement string, args ...any) (int64, error) {
	result, err := t.sql.ExecContext(t.ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// One reads the first row of a query and reports whether there was one.
func (t *Tx) One(query string, args []any, into ...any) (bool, error) {
	return found(t.sql.QueryRowContext(t.ctx, query, args...).Scan(into...))
}

// Row is the argument of a scan function.
type Row interface{ Scan(into ...any) error }

// Each reads every row of a query with scan.
func Each[T any](t *Tx, scan func(Row) (T, error), query string, args ...any) ([]T, error) {
	rows, err := t.sql.QueryContext(t.ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return Collect(rows, scan)
}

// Find reads the first row of a query with scan. The error is none if there is no row.
func Find[T any](t *Tx, none error, scan func(Row) (T, error), query string, args ...any) (first T, err error) {
	all, err := Each(t, scan, query, args...)
	if err == nil && len(all) == 0 {
		err = none
	}
	if err != nil {
		return first, err
	}
	return all[0], nil
}

// Collect reads all rows and closes them.
func Collect[T any](rows *sql.Rows, scan func(Row) (T, error)) ([]T, error) {
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

// Rows iterates over the rows of a query. After an error there are no more.
func Rows[T any](t *Tx, scan func(Row) (T, error), query string, args ...any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		rows, err := t.sql.QueryContext(t.ctx, query, args...)
		if err != nil {
			yield(none, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			if item, err := scan(rows); !yield(item, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(none, err)
		}
	}
}

// Stream calls do with every row of a query, one at a time.
func Stream[T any](t *Tx, scan func(Row) (T, error), query string, args []any, do func(T) error) error {
	for item, err := range Rows(t, scan, query, args...) {
		if err != nil {
			return err
		}
		if err := do(item); err != nil {
			return err
		}
	}
	return nil
}

// NewID returns a UUIDv7. UUIDv7 sort by creation time.
func NewID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return id.String(), nil
}

// forever is the stored expiry of what never expires, so that expiries compare and sort without
// a special case.
const forever int64 = math.MaxInt64

// ToMS returns the stored form of an instant: Unix milliseconds, 0 for the zero time.
func ToMS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// FromMS is the inverse of ToMS.
func FromMS(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// MS returns what an instant that ToMS stored is scanned into.
func MS(into *time.Time) sql.Scanner { return instant{into, FromMS} }

// Expiry returns what an expiry that ExpiryToMS stored is scanned into.
func Expiry(into *time.Time) sql.Scanner { return instant{into, ExpiryFromMS} }

type instant struct {
	into   *time.Time
	fromMS func(ms int64) time.Time
}

// Scan implements sql.Scanner.
func (i instant) Scan(stored any) error {
	ms, is := stored.(int64)
	if !is {
		return fmt.Errorf("an instant is stored as a number, not as %T", stored)
	}
	*i.into = i.fromMS(ms)
	return nil
}

// ExpiryToMS returns the stored form of an expiry; the zero time means never.
func ExpiryToMS(t time.Time) int64 {
	if t.IsZero() {
		return forever
	}
	return t.UnixMilli()
}

// ExpiryFromMS is the inverse of ExpiryToMS. An expiry that earlier versions accepted and that
// no response can contain becomes the latest that one can.
func ExpiryFromMS(ms int64) time.Time {
	if ms == forever {
		return time.Time{}
	}
	return time.UnixMilli(min(ms, maxInstant)).UTC()
}

// readOnly are the options of a read-only transaction that sees one state of the database.
var readOnly = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}

// ScanText reads a row of one text.
func ScanText(r Row) (text string, err error) {
	err = r.Scan(&text)
	return text, err
}
