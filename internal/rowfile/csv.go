package rowfile

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

func readCSV[T any](from *Reader, s *Schema[T], yield func(T, error) bool) {
	var none T
	skipped := skipComments(from)
	rows := csv.NewReader(from)
	rows.Comma = separator(from)
	rows.FieldsPerRecord = -1
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		yield(none, badHeader(err, s.Header))
		return
	}
	isRow := false // the first line
	names := header
	if s.Names != nil {
		if names, isRow, err = s.Names(header); err != nil {
			yield(none, err)
			return
		}
	}
	at, err := places(names, s.Columns, s.Required, s.Usual)
	if err != nil {
		yield(none, err)
		return
	}
	var record []string
	cell := func(column int) string {
		if at[column] < 0 {
			return ""
		}
		// A clone keeps the row's other cells from staying in memory with this one.
		return strings.Clone(escape.FromCSV(record[at[column]]))
	}
	wide, line := len(header), 1+skipped
	for {
		if isRow {
			record, isRow = header, false
		} else {
			record, err = rows.Read()
		}
		var syntax *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			return
		case errors.As(err, &syntax):
			syntax.StartLine, syntax.Line = syntax.StartLine+skipped, syntax.Line+skipped
			if !yield(none, badRow(syntax)) {
				return
			}
			continue
		case err != nil:
			yield(none, Unreadable(line+1, err))
			return
		}
		line, _ = rows.FieldPos(0)
		line += skipped
		row, err := none, error(nil)
		if len(record) != wide && strings.HasPrefix(record[0], "#") {
			continue // a comment behind the rows
		}
		if len(record) != wide {
			err = &RowError{line, "it has " + strconv.Itoa(len(record)) + " cells, and the header has " + strconv.Itoa(wide)}
		} else {
			row, err = s.FromCSV(line, cell)
		}
		var wrong *RowError
		if errors.As(err, &wrong) {
			err = &RowError{wrong.Line, wrong.Problem + openTo(line, line+lineBreaks(record))}
		}
		if !yield(row, err) {
			return
		}
	}
}

func badRow(syntax *csv.ParseError) *RowError {
	return &RowError{syntax.StartLine, "it is not valid CSV: " + strings.TrimPrefix(syntax.Err.Error(), "csv: ") + openTo(syntax.StartLine, syntax.Line)}
}

// openTo says of an invalid row that it is of several lines: an open quote takes the rows behind it
// along, which nobody would miss if only the first was named. It returns "" for a row of one line.
func openTo(first, last int) string {
	if first == last {
		return ""
	}
	return "; its quote is open to line " + strconv.Itoa(last) + ", and no row up to there was read"
}

// lineBreaks returns how many line breaks are in the cells of a row.
func lineBreaks(record []string) (n int) {
	for _, cell := range record {
		n += strings.Count(cell, "\n")
	}
	return n
}

// separator guesses between the comma, the semicolon of some spreadsheets, the tab and the bar from
// the header.
func separator(from *Reader) rune {
	start, _ := from.Peek(512) // a short file has less
	header, _, _ := bytes.Cut(start, []byte("\n"))
	for _, other := range ";\t|" {
		if bytes.ContainsRune(header, other) && !bytes.ContainsRune(header, ',') {
			return other
		}
	}
	return ','
}

// skipComments skips the lines before the header that begin with #, with the empty ones behind them,
// and returns their number.
func skipComments(from *Reader) (lines int) {
	for {
		start, err := from.Peek(1)
		if err != nil || start[0] != '#' && (lines == 0 || start[0] != '\n' && start[0] != '\r') {
			return lines
		}
		if start[0] == '#' {
			from.NextRow()
		}
		for {
			_, err := from.ReadSlice('\n')
			if err == nil {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return lines
			}
		}
		lines++
	}
}

func badHeader(err error, example string) error {
	var syntax *csv.ParseError
	if errors.Is(err, io.EOF) || errors.As(err, &syntax) {
		return &FileError{1, "there is no header; the first line must name the columns, for example " + example}
	}
	return Unreadable(1, err)
}

// places returns where the header has each column, -1 for one that it has not.
func places(header, columns, required []string, usual string) ([]int, error) {
	if required == nil {
		required = columns[:1]
	}
	named := make([]string, len(header))
	for i, cell := range header {
		name := strings.ToLower(escape.FromCSV(cell))
		switch {
		case cell == Ignored:
			continue
		case !slices.Contains(columns, name):
			return nil, &FileError{1, "the header has the column " + strconv.Quote(Clip(cell)) + "; the columns are " + usual + ", beside those of an export"}
		case slices.Contains(named[:i], name):
			return nil, &FileError{1, "the header has the column " + name + " twice"}
		}
		named[i] = name
	}
	if !slices.ContainsFunc(required, func(name string) bool { return slices.Contains(named, name) }) {
		return nil, &FileError{1, "the header has no column " + required[0]}
	}
	at := make([]int, len(columns))
	for i, name := range columns {
		at[i] = slices.Index(named, name)
	}
	return at, nil
}
