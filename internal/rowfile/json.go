package rowfile

import (
	"errors"
	"io"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func readJSON[T any](from *Reader, s *Schema[T], yield func(T, error) bool) {
	var none T
	lines := &lineCounter{from: from}
	decoder := jsontext.NewDecoder(lines)
	list := decoder.PeekKind() == '['
	if list {
		if _, err := decoder.ReadToken(); err != nil {
			yield(none, badJSON(lines, decoder, err))
			return
		}
	}
	for {
		if list && decoder.PeekKind() == ']' {
			if err := readEnd(lines, decoder); err != nil {
				yield(none, err)
			}
			return
		}
		decoder.PeekKind() // goes to where the row begins
		value, err := decoder.ReadValue()
		if errors.Is(err, io.EOF) && !list {
			return
		}
		if err != nil {
			yield(none, badJSON(lines, decoder, err))
			return
		}
		row, err := s.FromJSON(lines.at(decoder.InputOffset()-int64(len(value))), value)
		if !yield(row, err) {
			return
		}
	}
}

// readEnd reads the end of a list and refuses what follows it.
func readEnd(lines *lineCounter, decoder *jsontext.Decoder) error {
	_, err := decoder.ReadToken()
	if err == nil {
		_, err = decoder.ReadToken()
	}
	switch {
	case err == nil:
		return &FileError{lines.at(decoder.InputOffset()), "something follows the list"}
	case !errors.Is(err, io.EOF):
		return badJSON(lines, decoder, err)
	}
	return nil
}

// Unmarshal reads an object of a file strictly into a struct R. noun and example are for
// its error, a *RowError: what a row is, and how one is written.
func Unmarshal[R any](line int, value jsontext.Value, noun, example string) (row R, err error) {
	err = json.Unmarshal(value, &row, json.RejectUnknownMembers(true))
	var semantic *json.SemanticError
	switch {
	case err == nil && value.Kind() == '{':
		return row, nil
	case errors.Is(err, json.ErrUnknownName) && errors.As(err, &semantic):
		return row, &RowError{line, "it has a field that " + withArticle(noun) + " does not have: " + Clip(semantic.JSONPointer.LastToken())}
	case errors.As(err, &semantic) && semantic.JSONPointer != "":
		needed := "a string"
		if semantic.GoType != nil && semantic.GoType.Kind() == reflect.Slice {
			needed = "a list of strings"
		}
		return row, &RowError{line, "the field " + Clip(strings.TrimPrefix(string(semantic.JSONPointer), "/")) + " must be " + needed}
	}
	return row, &RowError{line, "it is not " + withArticle(noun) + "; write for example " + example}
}

// withArticle returns a noun with its indefinite article.
func withArticle(noun string) string {
	if strings.ContainsAny(noun[:1], "aeiou") {
		return "an " + noun
	}
	return "a " + noun
}

func badJSON(lines *lineCounter, decoder *jsontext.Decoder, err error) error {
	var syntax *jsontext.SyntacticError
	at := decoder.InputOffset()
	problem := "it is not valid JSON"
	switch {
	case errors.Is(err, ErrRowTooLong):
		return Unreadable(lines.at(at), err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return &FileError{lines.at(lines.read), "the file ends in the middle of its JSON"}
	case !errors.As(err, &syntax):
		return err
	case errors.Is(err, jsontext.ErrDuplicateName):
		problem = "a field is given twice"
	}
	if syntax != nil {
		at = syntax.ByteOffset
	}
	return &FileError{lines.at(at), problem}
}

// lineCounter knows on which line an offset of what was read through it lies.
type lineCounter struct {
	from     io.Reader
	read     int64
	passed   int     // line breaks before those in newlines
	newlines []int64 // offsets of line breaks that nobody has asked beyond
}

func (c *lineCounter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	for i, b := range p[:n] {
		if b == '\n' {
			c.newlines = append(c.newlines, c.read+int64(i))
		}
	}
	c.read += int64(n)
	return n, err
}

// at returns the line of an offset, from 1. Offsets are asked in order.
func (c *lineCounter) at(offset int64) int {
	for len(c.newlines) > 0 && c.newlines[0] < offset {
		c.newlines = c.newlines[1:]
		c.passed++
	}
	return c.passed + 1
}
