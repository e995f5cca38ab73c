package blocklist

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/escape"
)

// columns are those that an export has. The reader takes them in any order and
// looks at the first five.
var columns = []string{"pattern", "reason", "expires_at", "expires_in", "scope",
	"id", "author", "source", "policy", "level", "active", "created_at", "ended_at", "ended_by", "revision"}

func readCSV(from *bufio.Reader, d Defaults, yield func(Row, error) bool) {
	rows := csv.NewReader(from)
	rows.Comma = separator(from)
	rows.FieldsPerRecord = -1
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		yield(Row{}, badHeader(err))
		return
	}
	at, err := places(header)
	if err != nil {
		yield(Row{}, err)
		return
	}
	wide, line := len(header), 1
	for {
		record, err := rows.Read()
		var syntax *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			return
		case errors.As(err, &syntax):
			if !yield(Row{}, &RowError{syntax.StartLine, "it is no CSV: " + strings.TrimPrefix(syntax.Err.Error(), "csv: ")}) {
				return
			}
			continue
		case err != nil:
			yield(Row{}, unreadable(line+1, err))
			return
		}
		line, _ = rows.FieldPos(0)
		row, err := Row{}, error(nil)
		if len(record) != wide {
			err = &RowError{line, "it has " + strconv.Itoa(len(record)) + " cells, and the header has " + strconv.Itoa(wide)}
		} else {
			row, err = d.row(line, at.fields(record))
		}
		if !yield(row, err) {
			return
		}
	}
}

// separator guesses between the comma and the semicolon of some spreadsheets
// from the header.
func separator(from *bufio.Reader) rune {
	start, _ := from.Peek(512) // a short file has less
	header, _, _ := bytes.Cut(start, []byte("\n"))
	if bytes.ContainsRune(header, ';') && !bytes.ContainsRune(header, ',') {
		return ';'
	}
	return ','
}

func badHeader(err error) error {
	var syntax *csv.ParseError
	if errors.Is(err, io.EOF) || errors.As(err, &syntax) {
		return &FileError{1, "there is no header; the first line must name the columns, for example pattern,reason,expires_at"}
	}
	return unreadable(1, err)
}

// csvPlaces are the places of the columns, -1 for one that is not there.
type csvPlaces struct{ pattern, reason, expiresAt, expiresIn, scope int }

func places(header []string) (csvPlaces, error) {
	named := make([]string, len(header))
	for i, cell := range header {
		name := strings.ToLower(strings.TrimSpace(escape.FromCSV(cell)))
		switch {
		case !slices.Contains(columns, name):
			return csvPlaces{}, &FileError{1, "the header has the column " + strconv.Quote(clip(cell)) + "; the columns are pattern, reason, expires_at, expires_in and scope, beside those of an export"}
		case slices.Contains(named[:i], name):
			return csvPlaces{}, &FileError{1, "the header has the column " + name + " twice"}
		}
		named[i] = name
	}
	at := csvPlaces{slices.Index(named, "pattern"), slices.Index(named, "reason"), slices.Index(named, "expires_at"), slices.Index(named, "expires_in"), slices.Index(named, "scope")}
	if at.pattern < 0 {
		return at, &FileError{1, "the header has no column pattern"}
	}
	return at, nil
}

func (at csvPlaces) fields(record []string) fields {
	cell := func(i int) string {
		if i < 0 {
			return ""
		}
		return strings.TrimSpace(escape.FromCSV(record[i]))
	}
	// The record is used again for the next row.
	return fields{strings.Clone(cell(at.pattern)), strings.Clone(cell(at.reason)), cell(at.expiresAt), cell(at.expiresIn), strings.Clone(cell(at.scope))}
}
