package admin

import (
	"errors"
	"iter"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/rowfile"
)

// maxRows is the most that one import takes.
const maxRows = 1_000_000

// MaxShown is how many invalid rows, findings and changes of a file are named one by one.
const MaxShown = 20

// FileFormat is how a file holds its rows.
type FileFormat = rowfile.Format

// BadRow is an invalid row of a file, and what is wrong with it.
type BadRow = rowfile.RowError

// ImportRows counts the rows of a file that is imported.
type ImportRows struct {
	Rows    int // valid and invalid
	Invalid int
	Bad     []BadRow // the first of the invalid rows
}

// Valid counts the rows of a file and yields the valid ones. Without skipBad an invalid row
// ends them once the rest of the file has been read, so that all of them are named. The
// error that ends them is a *fault.Error: Malformed for a file that cannot be read on,
// TooLarge beyond a million rows, Invalid for invalid rows, with what r says of them in its
// details.
func Valid[T any](rows iter.Seq2[T, error], r *ImportRows, skipBad bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		for row, err := range rows {
			isValid, err := r.count(err)
			if err != nil {
				yield(none, err)
				return
			}
			if isValid && (r.Invalid == 0 || skipBad) && !yield(row, nil) {
				return
			}
		}
		if r.Invalid > 0 && !skipBad {
			yield(none, r.refusal())
		}
	}
}

// count counts a row, of which err is what is wrong, and reports whether it is valid. Its
// error ends the import.
func (r *ImportRows) count(err error) (isValid bool, _ error) {
	var bad *rowfile.RowError
	var file *rowfile.FileError
	switch {
	case errors.As(err, &bad):
		r.Invalid++
		if len(r.Bad) < MaxShown {
			r.Bad = append(r.Bad, *bad)
		}
	case errors.As(err, &file):
		return false, fault.New(fault.Malformed, "The file cannot be read: %s.", file)
	case err != nil:
		return false, &fault.Error{Code: fault.Malformed, Message: "The file ended early or could not be read.", Err: err}
	}
	r.Rows++
	if r.Rows > maxRows {
		return false, fault.New(fault.TooLarge, "The file has more than %d rows; split it.", maxRows)
	}
	return err == nil, nil
}

// refusal is the error of invalid rows that end an import.
func (r *ImportRows) refusal() error {
	e := fault.New(fault.Invalid, "%d of the %d rows are invalid, the first in %s. Nothing was imported; correct them, or leave them out (skip_bad, --skip-bad on the command line).",
		r.Invalid, r.Rows, r.Bad[0].Error())
	rows := make([]InvalidRow, len(r.Bad))
	for n, bad := range r.Bad {
		rows[n] = InvalidRow(bad)
	}
	e.Detail = map[string]any{"rows": r.Rows, "invalid": r.Invalid, "invalid_rows": rows}
	return e
}

// MoreBad is how many invalid rows are not named one by one.
func (r *ImportRows) MoreBad() int { return r.Invalid - len(r.Bad) }

// InvalidRow is an invalid row in the details of an error.
type InvalidRow struct {
	Line    int    `json:"line"`
	Problem string `json:"problem"`
}
