// Package profilelist reads and writes the plans, labels and notes of keys as files: CSV
// with named columns, or JSON lines. Both are streamed.
package profilelist

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
)

// Format is how a file holds profiles.
type Format string

// The formats.
const (
	CSV  Format = "csv"
	JSON Format = "json" // one object on each line
)

// maxRow bounds one row of a file, in bytes.
const maxRow = 1 << 16

// columns are those that a file may have. The last three are those of an export, which an
// import takes and leaves: a limit has an author and a record of its own.
var columns = []string{"key", "plan", "labels", "note", "limit", "limit_expires_at", "limit_reason"}

// Read yields the rows of a file as it comes, normalized. A *blocklist.RowError is about
// one row, which is left out; any other error ends the rows: a *blocklist.FileError, or
// what the reader failed with.
func Read(from io.Reader, format Format, parser keys.Parser) iter.Seq2[*profiles.Profile, error] {
	return func(yield func(*profiles.Profile, error) bool) {
		lines := bufio.NewReaderSize(from, maxRow)
		if mark, _ := lines.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
			_, _ = lines.Discard(3) // what was peeked can be discarded
		}
		if format == JSON {
			readJSON(lines, parser, yield)
			return
		}
		readCSV(lines, parser, yield)
	}
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

func (r *row) profile(line int, parser keys.Parser) (*profiles.Profile, error) {
	k, err := parser.Key(r.Key)
	if err != nil {
		return nil, &blocklist.RowError{Line: line, Problem: err.Error()}
	}
	p := &profiles.Profile{Key: strings.Clone(k.String()), Plan: r.Plan, Labels: r.Labels, Note: r.Note}
	if err := p.Normalize(); err != nil {
		return nil, &blocklist.RowError{Line: line, Problem: err.Error()}
	}
	if p.IsZero() {
		return nil, &blocklist.RowError{Line: line, Problem: "it has neither a plan nor labels nor a note"}
	}
	return p, nil
}

func readJSON(lines *bufio.Reader, parser keys.Parser, yield func(*profiles.Profile, error) bool) {
	for number := 1; ; number++ {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			yield(nil, tooLong(number))
			return
		}
		if err != nil && !errors.Is(err, io.EOF) {
			yield(nil, err)
			return
		}
		isLast := err != nil
		if line = bytes.TrimSpace(line); len(line) > 0 {
			var r row
			var p *profiles.Profile
			if wrong := json.Unmarshal(line, &r, json.RejectUnknownMembers(true)); wrong != nil || line[0] != '{' {
				err = &blocklist.RowError{Line: number, Problem: `it is no key; write for example {"key":"token:abc","plan":"gold","labels":["region=eu"]}`}
			} else {
				p, err = r.profile(number, parser)
			}
			if !yield(p, err) {
				return
			}
		}
		if isLast {
			return
		}
	}
}

func tooLong(line int) error {
	return &blocklist.FileError{Line: line, Problem: "the row is longer than 64 KiB; is a quote left open?"}
}

// boundedReader fails once a row has taken more than it may.
type boundedReader struct {
	from io.Reader
	left int
}

var errRowTooLong = errors.New("the row is too long")

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errRowTooLong
	}
	n, err := b.from.Read(p)
	b.left -= n
	return n, err
}

func readCSV(from io.Reader, parser keys.Parser, yield func(*profiles.Profile, error) bool) {
	bounded := &boundedReader{from: from, left: 2 * maxRow}
	table := csv.NewReader(bounded)
	table.FieldsPerRecord = -1
	table.ReuseRecord = true
	at := make([]int, len(columns))
	wide := 0
	for {
		record, err := table.Read()
		bounded.left = 2 * maxRow
		var syntax *csv.ParseError
		switch {
		case errors.Is(err, io.EOF) && wide > 0:
			return
		case errors.Is(err, errRowTooLong):
			yield(nil, tooLong(0))
			return
		case wide == 0 && (errors.Is(err, io.EOF) || errors.As(err, &syntax)):
			yield(nil, noHeader)
			return
		case errors.As(err, &syntax):
			if !yield(nil, &blocklist.RowError{Line: syntax.StartLine, Problem: "it is no CSV: " + strings.TrimPrefix(syntax.Err.Error(), "csv: ")}) {
				return
			}
			continue
		case err != nil:
			yield(nil, err)
			return
		}
		if wide == 0 {
			wide = len(record)
			if err := places(record, at); err != nil {
				yield(nil, err)
				return
			}
			continue
		}
		line, _ := table.FieldPos(0)
		var p *profiles.Profile
		if len(record) != wide {
			err = &blocklist.RowError{Line: line, Problem: "it has " + strconv.Itoa(len(record)) + " cells, and the header has " + strconv.Itoa(wide)}
		} else {
			r := rowOf(record, at)
			p, err = r.profile(line, parser)
		}
		if !yield(p, err) {
			return
		}
	}
}

var noHeader = &blocklist.FileError{Line: 1, Problem: "there is no header; the first line must name the columns, for example key,plan,labels,note"}

// places finds the columns of a header, -1 for one that is not there.
func places(header []string, at []int) error {
	for i := range at {
		at[i] = -1
	}
	for i, cell := range header {
		name := strings.ToLower(strings.TrimSpace(escape.FromCSV(cell)))
		column := slices.Index(columns, name)
		if column < 0 || at[column] >= 0 {
			return &blocklist.FileError{Line: 1, Problem: "the header has an unknown or repeated column in place " + strconv.Itoa(i+1) + "; the columns are key, plan, labels and note, beside those of an export"}
		}
		at[column] = i
	}
	if at[0] < 0 {
		return &blocklist.FileError{Line: 1, Problem: "the header has no column key"}
	}
	return nil
}

func rowOf(record []string, at []int) row {
	cell := func(column int) string {
		if at[column] < 0 {
			return ""
		}
		return strings.Clone(strings.TrimSpace(escape.FromCSV(record[at[column]])))
	}
	return row{Key: cell(0), Plan: cell(1), Labels: SplitLabels(cell(2)), Note: cell(3)}
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

// Write adds a profile, with its limit if it holds at now.
func (w *Writer) Write(p *profiles.Profile, now time.Time) error {
	r := row{Key: p.Key, Plan: p.Plan, Labels: p.Labels, Note: p.Note}
	if l := p.LimitAt(now); l != nil {
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
