package blocklist

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/rowfile"
)

// UsualColumns are the columns and members that people write.
const UsualColumns = "pattern, reason, expires_at, expires_in, scope and literal"

// Read yields the rows of a file as it comes; a range or a list in a row is several rows of one
// line. A *rowfile.RowError is about one row, which is left out; any other error ends the rows: a
// *rowfile.FileError, or what the reader failed with.
func Read(from io.Reader, format Format, d Defaults) iter.Seq2[Row, error] {
	if format == Plain {
		return readPlain(from, d)
	}
	lines := rowfile.Read(from, format, rowfile.Schema[[]Row]{
		Columns: columns, Required: []string{"pattern", "value"}, Usual: UsualColumns, Header: "pattern,reason,expires_at",
		FromCSV: func(line int, cell func(int) string) ([]Row, error) {
			return d.rows(line, fields{cell(0), cell(1), cell(2), cell(3), cell(4), cell(5), cell(6), cell(7), cell(8), cell(9), cell(10), cell(11)})
		},
		FromJSON: func(line int, value jsontext.Value) ([]Row, error) {
			r, err := rowfile.Unmarshal[jsonRow](line, value, string(cmp.Or(d.Kind, blocks.Block)), `{"pattern":"ip:203.0.113.7","reason":"scraping"}`)
			if err != nil {
				return nil, err
			}
			notNull := func(v jsontext.Value) string { return strings.TrimPrefix(string(v), "null") }
			return d.rows(line, fields{
				r.Pattern, r.Reason, r.ExpiresAt, r.ExpiresIn, r.Scope, r.EndedAt, r.Kind, notNull(r.ID), notNull(r.Literal), r.Value, r.Duration, r.Type,
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

// columns are those of people, of CrowdSec (value, duration, type) and of an export. The reader
// takes them in any order and looks at the first twelve.
var columns = []string{"pattern", "reason", "expires_at", "expires_in", "scope", "ended_at", "kind", "id", "literal", "value", "duration", "type",
	"author", "source", "policy", "level", "active", "created_at", "ended_by", "revision", "sources"}

// jsonRow is an entry as JSON. The fields behind the first twelve are those of an
// export, which an import takes and leaves.
type jsonRow struct {
	Pattern   string         `json:"pattern"`
	Reason    string         `json:"reason"`
	ExpiresAt string         `json:"expires_at"`
	ExpiresIn string         `json:"expires_in"`
	Scope     string         `json:"scope"`
	EndedAt   string         `json:"ended_at"`
	Kind      string         `json:"kind"`
	ID        jsontext.Value `json:"id"` // of any type: others than ours have ids too
	Literal   jsontext.Value `json:"literal"`
	Value     string         `json:"value"`
	Duration  string         `json:"duration"`
	Type      string         `json:"type"`
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
	first, _, _ := bytes.Cut(bytes.TrimSpace(rowfile.WithoutMark(head)), []byte("\n"))
	cells, err := csv.NewReader(bytes.NewReader(first)).Read()
	if err == nil && slices.ContainsFunc(cells, func(cell string) bool {
		return slices.Contains([]string{"pattern", "value"}, strings.ToLower(strings.TrimSpace(cell)))
	}) {
		return CSV
	}
	return Plain
}
