package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/stint-dev/stint/internal/fault"
)

// trouble is a kind of database error.
type trouble int

const (
	breakage         trouble = iota // a bug or a broken database
	again                           // a conflict of two transactions; a retry may succeed
	away                            // the database is unreachable
	locked                          // another program has held a lock for too long
	slow                            // a statement exceeded its time limit
	full                            // the disk is full
	damaged                         // the data is damaged
	unreadable                      // the disk fails
	readOnlyDatabase                // the database is read-only
	moved                           // the file was deleted or replaced
	shared                          // a pooler mixes up sessions
	unfit                           // a table or column is missing, or this user has no right to it
)

// messages describe each trouble to callers.
var messages = map[trouble]string{
	again:            "is busy",
	away:             "cannot be reached",
	locked:           "is locked by another program",
	slow:             "did not answer in time",
	full:             "has no disk space left; free room",
	damaged:          "is damaged; restore a backup",
	unreadable:       "cannot be read or written: the disk or its file system fails",
	readOnlyDatabase: "can only be read: its file, folder or server allows no changes",
	moved:            "has lost its file, which was deleted or replaced; end the node, then put the file back or restore a backup",
	shared:           sharedSessions,
	unfit:            "lacks a table or a column of Stint, or refuses its user a right to it",
}

// ErrUnchanged, returned inside Change, rolls back the transaction and releases its revision:
// there was nothing to change.
var ErrUnchanged = errors.New("nothing to change")

// ErrUnfit is matched by an Unavailable error because a table or a column is missing, or the user
// has no right to it. A node that starts does not treat it as an outage.
var ErrUnfit = errors.New("the database lacks a table, a column or a right that this program needs")

// ErrRefusesWrites is matched by an Unavailable error because the database can only be read, or
// its disk is full.
var ErrRefusesWrites = errors.New("the database accepts no writes")

// commitError marks an error of a COMMIT that may still have succeeded.
type commitError struct{ error }

func (e commitError) Unwrap() error { return e.error }

// explain converts a driver's error: a *fault.Error stays as it is, a COMMIT with an unknown
// result is MaybeSaved, a cancelled context is context.Canceled, and an unreachable database or
// one that did not answer in time is Unavailable; then nothing was saved. A context whose cause
// is context.DeadlineExceeded has ended because the database did not answer in time.
func (s *DB) explain(ctx context.Context, err error) error {
	var known *fault.Error
	var saving commitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.As(err, &saving):
		return maybeSaved(ctx, s.place.dialect, err)
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return unavailable(err, "did not answer in time")
	case ctx.Err() != nil:
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return unavailable(err, "did not answer in time")
	}
	kind := s.place.dialect.classify(err)
	if kind == again && s.place.dialect == &sqlite {
		kind = locked // this node's own transactions queue for the writer
	}
	switch kind {
	case unfit:
		return unavailable(fmt.Errorf("%w: %w", ErrUnfit, err), messages[unfit]+" ("+reasonOf(err)+")")
	case readOnlyDatabase, full:
		err = fmt.Errorf("%w: %w", ErrRefusesWrites, err)
	}
	if what, known := messages[kind]; known {
		return unavailable(err, what)
	}
	return fmt.Errorf("%s database: %w", s.place.dialect.name, err)
}

func unavailable(err error, what string) error {
	return &fault.Error{Code: fault.Unavailable, Message: "The database " + what + "; nothing was changed.", Err: err}
}

// FileError converts an error about a file next to an SQLite database to the fault that the
// same trouble of the database has. It returns any other error unchanged.
func FileError(err error) error {
	var known *fault.Error
	switch {
	case errors.As(err, &known):
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return unavailable(err, messages[full])
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return unavailable(err, messages[readOnlyDatabase])
	case errors.Is(err, syscall.EIO):
		return unavailable(err, messages[unreadable])
	case errors.Is(err, fs.ErrNotExist):
		return unavailable(err, messages[away])
	}
	return err
}

// maybeSaved returns the fault for a COMMIT that may have succeeded.
func maybeSaved(ctx context.Context, d *dialect, err error) error {
	what, known := messages[d.classify(err)]
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		what = "did not answer in time"
	case !known:
		what = "failed"
	}
	return &fault.Error{Code: fault.MaybeSaved, Err: err, Message: "The database " + what + " while the change was being saved; it may have been saved. " +
		"Before you repeat it, look whether the audit log has it: it names every change that was saved (page Audit, \"audit list\", /v1/audit)."}
}

// found separates "no such row" from other errors.
func found(err error) (bool, error) {
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// CheckText refuses text that Postgres cannot store, so that both databases behave alike.
func CheckText(field, text string) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return fault.Field(field, "must be valid UTF-8 without NUL")
	}
	return nil
}

// CleanText replaces what CheckText refuses. It is for texts of which no caller can change a
// word, such as errors: a mail server may explain a refusal in Latin-1.
func CleanText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
