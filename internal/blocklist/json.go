package blocklist

import (
	"bufio"
	"errors"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// jsonRow is a block as JSON. The fields behind the first five are those of an
// export, which an import takes and leaves.
type jsonRow struct {
	Pattern   string         `json:"pattern"`
	Reason    string         `json:"reason"`
	ExpiresAt string         `json:"expires_at"`
	ExpiresIn string         `json:"expires_in"`
	Scope     string         `json:"scope"`
	ID        jsontext.Value `json:"id"`
	Author    jsontext.Value `json:"author"`
	Source    jsontext.Value `json:"source"`
	Policy    jsontext.Value `json:"policy"`
	Level     jsontext.Value `json:"level"`
	Active    jsontext.Value `json:"active"`
	CreatedAt jsontext.Value `json:"created_at"`
	EndedAt   jsontext.Value `json:"ended_at"`
	EndedBy   jsontext.Value `json:"ended_by"`
	Revision  jsontext.Value `json:"revision"`
}

func readJSON(from *bufio.Reader, d Defaults, yield func(Row, error) bool) {
	lines := &lineCounter{from: from}
	decoder := jsontext.NewDecoder(lines)
	list := decoder.PeekKind() == '['
	if list {
		if _, err := decoder.ReadToken(); err != nil {
			yield(Row{}, badJSON(lines, decoder, err))
			return
		}
	}
	for {
		if list && decoder.PeekKind() == ']' {
			readEnd(lines, decoder, yield)
			return
		}
		decoder.PeekKind() // goes to where the row begins
		value, err := decoder.ReadValue()
		if errors.Is(err, io.EOF) && !list {
			return
		}
		if err != nil {
			yield(Row{}, badJSON(lines, decoder, err))
			return
		}
		line := lines.at(decoder.InputOffset() - int64(len(value)))
		row, err := d.jsonRow(line, value)
		if !yield(row, err) {
			return
		}
	}
}

// readEnd reads the end of a list and refuses what follows it.
func readEnd(lines *lineCounter, decoder *jsontext.Decoder, yield func(Row, error) bool) {
	_, err := decoder.ReadToken()
	if err == nil {
		_, err = decoder.ReadToken()
	}
	if err == nil {
		yield(Row{}, &FileError{lines.at(decoder.InputOffset()), "something follows the list"})
	} else if !errors.Is(err, io.EOF) {
		yield(Row{}, badJSON(lines, decoder, err))
	}
}

func (d *Defaults) jsonRow(line int, value jsontext.Value) (Row, error) {
	var r jsonRow
	err := json.Unmarshal(value, &r, json.RejectUnknownMembers(true))
	var semantic *json.SemanticError
	switch {
	case err == nil && value.Kind() == '{':
		return d.row(line, fields{r.Pattern, r.Reason, r.ExpiresAt, r.ExpiresIn, r.Scope})
	case errors.Is(err, json.ErrUnknownName) && errors.As(err, &semantic):
		return Row{}, &RowError{line, "it has a field that no block has: " + clip(semantic.JSONPointer.LastToken())}
	case errors.As(err, &semantic) && semantic.JSONPointer != "":
		return Row{}, &RowError{line, "the field " + clip(semantic.JSONPointer.LastToken()) + " must be a text"}
	}
	return Row{}, &RowError{line, `it is no block; write for example {"pattern":"ip:203.0.113.7","reason":"scraping"}`}
}

func badJSON(lines *lineCounter, decoder *jsontext.Decoder, err error) error {
	var syntax *jsontext.SyntacticError
	at := decoder.InputOffset()
	problem := "it is no JSON"
	switch {
	case errors.Is(err, errRowTooLong):
		return unreadable(lines.at(at), err)
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
