// Package profilelist reads and writes the plans, labels and notes of keys as files: CSV
// with named columns, or JSON. Both are streamed.
package profilelist

import (
	"cmp"
	"encoding/csv"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rowfile"
)

// Format is how a file holds profiles.
type Format = rowfile.Format

// The formats.
const (
	CSV  = rowfile.CSV
	JSON = rowfile.JSON // an export has one object on each line
)

// Detect returns a file's format by its name or, where the name does not say, by its first
// bytes.
func Detect(name string, head []byte) Format { return cmp.Or(rowfile.Detect(name, head), CSV) }

// columns are those that a file may have. The last three are those of an export, which an
// import takes and leaves: a limit has an author and a record of its own.
var columns = []string{"key", "plan", "labels", "note", "limit", "limit_expires_at", "limit_reason"}

// Row is one key of a file.
type Row struct {
	Line              int  // of the file, from 1
	HasLimit          bool // the row has a limit, as those of an export
	*profiles.Profile      // nil if the row has only a limit
}

// Read yields the rows of a file as it comes, normalized. A *rowfile.RowError is about one row, which is left out; any other
// error ends the rows: a *rowfile.FileError, or what the reader failed with.
func Read(from io.Reader, format Format, reading keys.Reading) iter.Seq2[Row, error] {
	return rowfile.Read(from, format, rowfile.Schema[Row]{
		Columns: columns, Usual: "key, plan, labels and note", Header: "key,plan,labels,note",
		FromCSV: func(line int, cell func(int) string) (Row, error) {
			return (&row{Key: cell(0), Plan: cell(1), Labels: SplitLabels(cell(2)), Note: cell(3), Limit: cell(4)}).parse(line, reading)
		},
		FromJSON: func(line int, value jsontext.Value) (Row, error) {
			r, err := rowfile.Unmarshal[row](line, value, "key", `{"key":"token:abc","plan":"gold","labels":["region=eu"]}`)
			if err != nil {
				return Row{}, err
			}
			return r.parse(line, reading)
		},
	})
}

// row is a profile as a file holds it.
type row struct {
	Key    string   `json:"key"`
	Plan   string   `json:"plan,omitzero"`
	Labels []string `json:"labels,omitzero"`
	Note   string   `json:"note,omitzero"`
	// Of an export.
	Limit          string `json:"limit,omitzero"`
	LimitExpiresAt string `json:"limit_expires_at,omitzero"`
	LimitReason    string `json:"limit_reason,omitzero"`
}

// parse reads the row. The error is a *rowfile.RowError.
func (r *row) parse(line int, reading keys.Reading) (Row, error) {
	k, err := reading.Key(r.Key)
	if err != nil {
		return Row{}, &rowfile.RowError{Line: line, Problem: err.Error()}
	}
	p := &profiles.Profile{Key: strings.Clone(k.String()), Plan: r.Plan, Labels: r.Labels, Note: r.Note}
	if err := p.Normalize(); err != nil {
		return Row{}, &rowfile.RowError{Line: line, Problem: err.Error()}
	}
	if p.IsZero() {
		if r.Limit != "" {
			return Row{Line: line, HasLimit: true}, nil
		}
		return Row{}, &rowfile.RowError{Line: line, Problem: "it has neither a plan nor labels nor a note"}
	}
	return Row{Line: line, HasLimit: r.Limit != "", Profile: p}, nil
}

// SplitLabels returns the labels of a text: they are separated by spaces, commas or
// semicolons, none of which a label may have.
func SplitLabels(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,;\t\r\n", r) })
}

// Writer writes profiles as Read reads them. See NewWriter.
type Writer struct {
	to    io.Writer
	table *csv.Writer // nil for JSON
}

// NewWriter returns a writer of a format; Close ends the file.
func NewWriter(to io.Writer, format Format) *Writer {
	w := &Writer{to: to}
	if format == CSV {
		w.table = csv.NewWriter(to)
		_ = w.table.Write(columns) // Close returns what went wrong
	}
	return w
}

// Write adds a profile, with its limit if it holds at now. It leaves out a profile that had only
// a limit, which has expired.
func (w *Writer) Write(p *profiles.Profile, now time.Time) error {
	r := row{Key: p.Key, Plan: p.Plan, Labels: p.Labels, Note: p.Note}
	l := p.LimitAt(now)
	if l == nil && p.Plan == "" && len(p.Labels) == 0 && p.Note == "" {
		return nil
	}
	if l != nil {
		r.Limit, r.LimitReason = l.Rules.String(), l.Reason
		if !l.Expires.IsZero() {
			r.LimitExpiresAt = l.Expires.UTC().Format(time.RFC3339)
		}
	}
	if w.table != nil {
		return w.table.Write([]string{escape.CSV(r.Key), r.Plan, strings.Join(r.Labels, " "), escape.CSV(r.Note), r.Limit, r.LimitExpiresAt, escape.CSV(r.LimitReason)})
	}
	if err := json.MarshalWrite(w.to, r); err != nil {
		return err
	}
	_, err := io.WriteString(w.to, "\n")
	return err
}

// Close ends the file.
func (w *Writer) Close() error {
	if w.table == nil {
		return nil
	}
	w.table.Flush()
	return w.table.Error()
}
