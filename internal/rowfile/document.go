package rowfile

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// Members are the members of one object of a document, without its lists and objects. A text that
// is alone in a list is the member "".
type Members map[string]jsontext.Value

// Text returns a member as text: a string without its quotes, a number or a boolean as written, ""
// for null and for a member that is missing.
func (m Members) Text(name string) string {
	v := m[name]
	switch v.Kind() {
	case '"':
		text, _ := jsontext.AppendUnquote(nil, v) // the decoder has checked it
		return string(text)
	case '0', 't', 'f':
		return string(v)
	}
	return ""
}

// maxMembers bounds the members of an object, whose names are in memory together.
const maxMembers = 10_000

// Document says what the rows of a JSON document are that others publish. Its lists may be of any
// length: only one object is in memory at a time.
type Document[T any] struct {
	// IsList reports whether the rows are in the list or object of a member with this name. All
	// others are skipped. Rows are also in the lists and objects at the top.
	IsList func(name string) bool
	// IsText reports whether the texts alone in the list of a member with this name are rows, "" at
	// the top. nil means that all are.
	IsText func(list string) bool
	// Row makes a row of an object or a text, unless the object is none: is is false then. Its
	// error is a *RowError. An error of another type ends the document.
	Row func(line int, m Members) (row T, is bool, err error)
}

// Read yields the rows of a document as it comes, with the errors of Read. Several documents may
// follow one another, such as an object a line.
func (d Document[T]) Read(from io.Reader) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		r := NewReader(from)
		lines := &lineCounter{from: r}
		w := &walk[T]{Document: d, reader: r, lines: lines, decoder: jsontext.NewDecoder(lines), yield: yield}
		for !w.hasStopped {
			w.next()
			if _, err := w.value(true, ""); err != nil {
				if w.hasStopped || errors.Is(err, io.EOF) && w.decoder.StackDepth() == 0 {
					return
				}
				var row *FileError
				if !errors.As(err, &row) {
					err = badJSON(lines, w.decoder, err)
				}
				var none T
				yield(none, err)
				return
			}
		}
	}
}

type walk[T any] struct {
	Document[T]
	reader     *Reader
	lines      *lineCounter
	decoder    *jsontext.Decoder
	yield      func(T, error) bool
	hasStopped bool
}

var errStopped = errors.New("the reader of the rows has stopped")

// next allows the next token to be as long as a row, and goes to where it begins.
func (w *walk[T]) next() jsontext.Kind {
	w.reader.NextRow()
	w.line() // forgets the line breaks before it
	return w.decoder.PeekKind()
}

func (w *walk[T]) line() int { return w.lines.at(w.decoder.InputOffset()) }

// value reads the value of a member and yields the rows in it if it has any. It returns the value if
// that is neither a list nor an object.
func (w *walk[T]) value(hasRows bool, name string) (jsontext.Value, error) {
	switch w.next() {
	case '[':
		return nil, w.list(hasRows, name)
	case '{':
		return nil, w.object(hasRows)
	}
	v, err := w.decoder.ReadValue()
	return v.Clone(), err
}

func (w *walk[T]) list(hasRows bool, name string) error {
	if _, err := w.decoder.ReadToken(); err != nil {
		return err
	}
	hasTexts := hasRows && (w.IsText == nil || w.IsText(name))
	for w.next() != ']' {
		v, err := w.value(hasRows, name)
		if err != nil {
			return err
		}
		if hasTexts && v.Kind() == '"' {
			if err := w.row(w.line(), Members{"": v}); err != nil {
				return err
			}
		}
	}
	_, err := w.decoder.ReadToken()
	return err
}

func (w *walk[T]) object(hasRows bool) error {
	if _, err := w.decoder.ReadToken(); err != nil {
		return err
	}
	line, members, count := w.line(), Members{}, 0
	for w.next() != '}' {
		token, err := w.decoder.ReadToken()
		if err != nil {
			return err
		}
		if count++; count > maxMembers {
			return &FileError{line, fmt.Sprintf("an object has more than %d members", maxMembers)}
		}
		name := token.String()
		v, err := w.value(hasRows && w.IsList(name), name)
		if err != nil {
			return err
		}
		if hasRows && v != nil {
			members[name] = v
		}
	}
	if _, err := w.decoder.ReadToken(); err != nil || !hasRows {
		return err
	}
	return w.row(line, members)
}

func (w *walk[T]) row(line int, m Members) error {
	row, is, err := w.Row(line, m)
	var bad *RowError
	if err != nil && !errors.As(err, &bad) {
		return err
	}
	if (is || err != nil) && !w.yield(row, err) {
		w.hasStopped = true
		return errStopped
	}
	return nil
}
