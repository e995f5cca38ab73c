package admin

import (
	"errors"
	"iter"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/rowfile"
)

// maxRows bounds the rows of one import.
const maxRows = 1_000_000

// MaxShown bounds the invalid rows, findings and changes of a file that are listed
// individually.
const MaxShown = 20

// FileFormat is the format of a file of rows.
type FileFormat = rowfile.Format

// BadRow is an invalid row of a file, and its problem.
type BadRow = rowfile.RowError

// ImportRows counts the rows of an imported file.
type ImportRows struct {
	Rows    int // valid and invalid
	Invalid int
	Bad     []BadRow // the first invalid rows
}

// Valid counts the rows of a file and yields the valid ones. Without skipBad, an invalid row
// leads to an error after the rest of the file has been read, so that the error covers all
// invalid rows. The error is a *fault.Error: Malformed if the rest of the file cannot be read,
// TooLarge beyond a million rows, or Invalid for invalid rows, with details from r.
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

// count counts a row with the problem err, and reports whether the row is valid. The returned
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

// refusal returns the error for invalid rows that end an import.
func (r *ImportRows) refusal() error {
	verb := "are"
	if r.Invalid == 1 {
		verb = "is"
	}
	e := fault.New(fault.Invalid, "%d of the %d rows %s invalid, the first in %s. Nothing was imported; correct them, or leave them out (skip_bad, --skip-bad on the command line).",
		r.Invalid, r.Rows, verb, r.Bad[0].Error())
	rows := make([]InvalidRow, len(r.Bad))
	for n, bad := range r.Bad {
		rows[n] = InvalidRow(bad)
	}
	e.Detail = map[string]any{"rows": r.Rows, "invalid": r.Invalid, "invalid_rows": rows}
	return e
}

// MoreBad returns the number of invalid rows that are not listed individually.
func (r *ImportRows) MoreBad() int { return r.Invalid - len(r.Bad) }

// InvalidRow is an invalid row in the details of an error.
type InvalidRow struct {
	Line    int    `json:"line"`
	Problem string `json:"problem"`
}
