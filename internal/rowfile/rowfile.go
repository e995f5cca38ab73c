// Package rowfile reads the files that operators import, row by row as they come: CSV with
// named columns, or JSON, a list of objects or one object after another. What a row holds
// is for packages blocklist and profilelist to say, by a Schema.
package rowfile

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/escape"
)

// Format is how a file holds its rows.
type Format string

// The formats that every kind of file may have.
const (
	CSV  Format = "csv"  // a header, then a row a line
	JSON Format = "json" // a list of objects, or an object a line
)

// Schema says what the rows of a file are.
type Schema[T any] struct {
	// Columns are those that the header of a CSV may name, in any order. Required are those of
	// which it must have one, the usual one first; nil means the first of Columns.
	Columns, Required []string
	// Usual and Header name the columns that people are meant to write: "key, plan
	// and note", "key,plan,note".
	Usual, Header string
	// Names returns the names of the columns by the cells of the first line, Ignored for those that
	// no row needs, and whether the line is a row itself. Nil takes the cells as names. Its error is
	// a *FileError.
	Names func(cells []string) (names []string, isRow bool, err error)
	// FromCSV makes a row of its cells, which are asked for by their place in Columns and
	// are "" for a column that the file lacks. Its error is a *RowError.
	FromCSV func(line int, cell func(column int) string) (T, error)
	// FromJSON makes a row of an object, for example by Unmarshal. Its error is a *RowError.
	FromJSON func(line int, value jsontext.Value) (T, error)
}

// Ignored is the name of a column that no row needs. No file can name one so.
const Ignored = "\x00"

// RowError says what is wrong with one row; the rows after it can still be read.
type RowError struct {
	Line    int    // of the file, from 1
	Problem string // one clause, safe to print
}

// Error names the line and the problem.
func (e *RowError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Problem) }

// FileError says why a file cannot be read any further.
type FileError struct {
	Line    int // 0 where no line is to blame
	Problem string
}

// Error names the line, where there is one, and the problem.
func (e *FileError) Error() string {
	if e.Line == 0 {
		return e.Problem
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Problem)
}

// Read yields the rows of a file as it comes. A *RowError is about one row, which is left
// out; any other error ends the rows: a *FileError, or what the reader failed with.
func Read[T any](from io.Reader, format Format, s Schema[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		r := NewReader(from)
		next := func(row T, err error) bool {
			r.NextRow()
			return yield(row, err)
		}
		if format == JSON {
			readJSON(r, &s, next)
			return
		}
		readCSV(r, &s, next)
	}
}

// Detect returns a file's format by its name, or JSON by its first bytes where the name
// does not say; "" for neither.
func Detect(name string, head []byte) Format {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".csv":
		return CSV
	case ".json", ".jsonl", ".ndjson":
		return JSON
	}
	if head = bytes.TrimSpace(WithoutMark(head)); len(head) > 0 && (head[0] == '{' || head[0] == '[') {
		return JSON
	}
	return ""
}

// Clip shortens what a message repeats of a file.
func Clip(text string) string { return escape.Clip(text, 80) }
