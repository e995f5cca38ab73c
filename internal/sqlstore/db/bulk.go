package db

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A statement about many rows gets them as its first parameter, a JSON array of arrays, so that
// the text and the number of statements do not depend on the number of rows.

// maxBulkRows bounds the rows of one statement.
const maxBulkRows = 8000

// The types of a bulk row's columns.
const (
	IntColumn   = "BIGINT"
	TextColumn  = "TEXT"
	BytesColumn = "BYTES" // hexadecimal digits in JSON
)

// Same returns the type of a column that has the same value in all rows: an SQL expression, for
// example a constant. The rows omit the column.
func Same(expression string) string { return sameMark + expression }

// Parameter is Same for a parameter of the statement; numbers start at 2.
func Parameter(number int, kind string) string {
	return Same("CAST($" + strconv.Itoa(number) + " AS " + kind + ")")
}

const sameMark = "="

// BulkSelect returns a query for the rows of a statement, with columns of these types and, if
// given, these names.
func BulkSelect(types []string, names ...string) string {
	var b strings.Builder
	b.WriteString("SELECT ")
	place := 0
	for i, name := range types {
		if i > 0 {
			b.WriteString(", ")
		}
		value, isSame := strings.CutPrefix(name, sameMark)
		if !isSame {
			value = "value ->> " + strconv.Itoa(place)
			place++
		}
		switch name {
		case IntColumn:
			value = "CAST(" + value + " AS BIGINT)"
		case BytesColumn:
			value = "unhex(" + value + ")"
		}
		b.WriteString(value)
		if i < len(names) {
			b.WriteString(" AS " + names[i])
		}
	}
	// Not json_each, which returns each row as text that every column parses again:
	// BenchmarkFlush takes 1.4 times as long. WHERE keeps SQLite from parsing ON CONFLICT as
	// part of a join.
	return b.String() + " FROM jsonb_each(CAST($1 AS TEXT)) WHERE TRUE"
}

// Asked begins a query that joins the given rows under the name asked.
func Asked(types []string, names ...string) string {
	return "WITH asked AS (" + BulkSelect(types, names...) + ")\n"
}

// BulkJSON returns rows as the first parameter of a statement.
func BulkJSON(rows [][]any) (string, error) {
	text := []byte{'['}
	var err error
	for _, row := range rows {
		text = append(text, '[')
		for _, value := range row {
			if text, err = appendValue(text, value); err != nil {
				return "", err
			}
			text = append(text, ',')
		}
		text = append(bytes.TrimSuffix(text, comma), ']', ',')
	}
	return string(append(bytes.TrimSuffix(text, comma), ']')), nil
}

var comma = []byte{','}

func appendValue(text []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case string:
		return jsontext.AppendQuote(text, v)
	case int64:
		return strconv.AppendInt(text, v, 10), nil
	case int:
		return strconv.AppendInt(text, int64(v), 10), nil
	case []byte:
		if v == nil {
			return append(text, "null"...), nil
		}
		return append(hex.AppendEncode(append(text, '"'), v), '"'), nil
	default:
		written, err := json.Marshal(v)
		return append(text, written...), err
	}
}

// inBulk calls do with rows as the parameter of one statement, in batches of maxBulkRows.
func inBulk(rows [][]any, do func(rows string) error) error {
	for len(rows) > 0 {
		n := min(len(rows), maxBulkRows)
		text, err := BulkJSON(rows[:n])
		if err != nil {
			return err
		}
		if err := do(text); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// Upsert writes rows. head names the table and columns, tail is the ON CONFLICT clause; more
// are the parameters from $2 on.
func (t *Tx) Upsert(head, tail string, types []string, rows [][]any, more ...any) error {
	return t.ExecOf(head+BulkSelect(types)+tail, rows, more...)
}

// EachOf runs a query about rows and reads each result with scan; more are the parameters from
// $2 on.
func EachOf[T any](t *Tx, scan func(Row) (T, error), query string, rows [][]any, more ...any) (all []T, err error) {
	err = inBulk(rows, func(text string) error {
		found, err := Each(t, scan, query, append([]any{text}, more...)...)
		all = append(all, found...)
		return err
	})
	return all, err
}

// ExecOf runs a statement about rows; more are the parameters from $2 on.
func (t *Tx) ExecOf(statement string, rows [][]any, more ...any) error {
	return inBulk(rows, func(text string) error {
		_, err := t.Exec(statement, append([]any{text}, more...)...)
		return err
	})
}
