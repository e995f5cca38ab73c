package blocklist

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/rowfile"
	"github.com/stint-dev/stint/internal/wire"
)

// UsualColumns are the columns and members that people write.
var UsualColumns = "pattern, reason, expires_at, expires_in, " + strings.Join(termNames, ", ") + " and literal"

// Read yields the rows of a file as it comes; a range or a list in a row is several rows of one
// line. A file that gzip packed is unpacked. A *rowfile.RowError is about one row, which is left
// out; any other error ends the rows: a *rowfile.FileError, or what the reader failed with.
func Read(from io.Reader, format Format, d Defaults) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		file := bufio.NewReaderSize(from, headSize)
		if start, _ := file.Peek(len(gzipMagic)); bytes.Equal(start, gzipMagic) {
			packed, err := gzip.NewReader(file)
			if err != nil {
				yield(Row{}, &rowfile.FileError{Problem: "it is packed by gzip and cannot be unpacked"})
				return
			}
			file = bufio.NewReaderSize(&unpacked{from: packed, left: maxUnpacked}, headSize)
		}
		head, _ := file.Peek(headSize) // a short file has less
		if format == Auto {
			format = Detect("", head)
		}
		if format == Plain && d.Column != "" {
			format = CSV
		}
		var rows iter.Seq2[Row, error]
		switch {
		case format == Plain:
			rows = readPlain(file, d)
		case format == JSON && isDocument(head, d.Column):
			rows = readDocument(file, d)
		default:
			rows = readTable(file, format, d)
		}
		rows(yield)
	}
}

// headSize is how much of a file is looked at to find what it is.
const headSize = 1 << 16

var gzipMagic = []byte("\x1f\x8b")

// maxUnpacked bounds what is unpacked of a file.
const maxUnpacked = 1 << 30

// unpacked reads a file that gzip packed.
type unpacked struct {
	from io.Reader
	left int64
}

func (u *unpacked) Read(p []byte) (int, error) {
	n, err := u.from.Read(p)
	if u.left -= int64(n); u.left < 0 {
		return 0, &rowfile.FileError{Problem: "it is larger than 1 GiB when it is unpacked"}
	}
	if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) {
		err = &rowfile.FileError{Problem: "it is packed by gzip and damaged"}
	}
	return n, err
}

func readTable(from io.Reader, format Format, d Defaults) iter.Seq2[Row, error] {
	lines := rowfile.Read(from, format, rowfile.Schema[[]Row]{
		Columns: columns, Required: []string{"pattern", "value"}, Usual: UsualColumns, Header: "pattern,reason,expires_at",
		Names: tableNames(d.Column),
		FromCSV: func(line int, cell func(int) string) ([]Row, error) {
			f := fields{cell(0), cell(1), cell(2), cell(3), cell(4), cell(5), cell(6), cell(7), cell(8), cell(9), cell(10), cell(11), wire.EntryTerms{}}
			at := len(ownColumns)
			for _, text := range f.Texts() {
				*text = cell(at)
				at++
			}
			return d.rows(line, f)
		},
		FromJSON: func(line int, value jsontext.Value) ([]Row, error) {
			r, err := rowfile.Unmarshal[jsonRow](line, value, string(cmp.Or(d.Kind, blocks.Block)), `{"pattern":"ip:203.0.113.7","reason":"scraping"}`)
			if err != nil {
				return nil, err
			}
			notNull := func(v jsontext.Value) string { return strings.TrimPrefix(string(v), "null") }
			return d.rows(line, fields{
				r.Pattern, r.Reason, r.ExpiresAt, r.ExpiresIn, r.EndedAt, r.Kind, notNull(r.ID), notNull(r.Literal), r.Value, r.Duration, r.Type, notNull(r.Simulated), r.EntryTerms,
			})
		},
	})
	return func(yield func(Row, error) bool) {
		for rows, err := range lines {
			if !yieldRows(rows, err, yield) {
				return
			}
		}
	}
}

// yieldRows yields the rows of one line, or its error.
func yieldRows(rows []Row, err error, yield func(Row, error) bool) bool {
	if err != nil {
		return yield(Row{}, err)
	}
	for _, row := range rows {
		if !yield(row, nil) {
			return false
		}
	}
	return true
}

// The columns are those of people, of CrowdSec (value, duration, type) and of an export. The reader
// takes them in any order and looks at ownColumns and termNames.
var (
	ownColumns = []string{"pattern", "reason", "expires_at", "expires_in", "ended_at", "kind", "id", "literal", "value", "duration", "type", "simulated"}
	termNames  = func() (names []string) {
		for name := range new(wire.EntryTerms).Texts() {
			names = append(names, name)
		}
		return names
	}()
	columns = slices.Concat(ownColumns, termNames, []string{"author", "source", "policy", "level", "active", "created_at", "ended_by", "revision", "sources"})
)

// jsonRow is an entry as JSON. The fields behind the terms are those of an export, which an import
// takes and leaves.
type jsonRow struct {
	Pattern   string         `json:"pattern"`
	Reason    string         `json:"reason"`
	ExpiresAt string         `json:"expires_at"`
	ExpiresIn string         `json:"expires_in"`
	EndedAt   string         `json:"ended_at"`
	Kind      string         `json:"kind"`
	ID        jsontext.Value `json:"id"` // of any type: others than ours have ids too
	Literal   jsontext.Value `json:"literal"`
	Value     string         `json:"value"`
	Duration  string         `json:"duration"`
	Type      string         `json:"type"`
	Simulated jsontext.Value `json:"simulated"`
	wire.EntryTerms
	Author    jsontext.Value `json:"author"`
	Source    jsontext.Value `json:"source"`
	Policy    jsontext.Value `json:"policy"`
	Level     jsontext.Value `json:"level"`
	Active    jsontext.Value `json:"active"`
	CreatedAt jsontext.Value `json:"created_at"`
	EndedBy   jsontext.Value `json:"ended_by"`
	Revision  jsontext.Value `json:"revision"`
	Sources   jsontext.Value `json:"sources"`
}

// Detect returns a file's format by its name, or by its first bytes where the
// name does not say.
func Detect(name string, head []byte) Format {
	if format := rowfile.Detect(name, head); format != "" {
		return format
	}
	head = rowfile.WithoutMark(head)
	if bytes.HasPrefix(head, gzipMagic) {
		return Auto
	}
	cells := firstCells(head)
	isTable := slices.ContainsFunc(cells, isPatternColumn) || len(cells) > 1 && slices.ContainsFunc(cells, isAddressColumn) || len(cells) > 1 && isAddress(cells[0]) && cells[1] != "" && !isAddress(cells[1]) && !strings.ContainsAny(cells[1], ".:/#;")
	if isTable {
		return CSV
	}
	return Plain
}

// firstCells returns the first line of a table without comments, in lower case.
func firstCells(head []byte) []string {
	for line := range bytes.Lines(head) {
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		table := csv.NewReader(bytes.NewReader(line))
		if bytes.ContainsRune(line, ';') && !bytes.ContainsRune(line, ',') {
			table.Comma = ';'
		}
		cells, err := table.Read()
		if err != nil {
			return nil
		}
		for i, cell := range cells {
			cells[i] = strings.ToLower(strings.TrimSpace(cell))
		}
		return cells
	}
	return nil
}
