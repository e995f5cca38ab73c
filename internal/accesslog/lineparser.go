package accesslog

import (
	"bytes"
	"fmt"
)

// MaxLine is the longest line read, in bytes without its end. A server such as Caddy writes the
// headers of a request into its line, a megabyte of them by default, and six bytes for one: a
// client must not hide a request from the log by their length.
const MaxLine = 8 << 20

// ErrLongLine is why a longer line is bad.
var ErrLongLine = fmt.Errorf("the line is longer than %d bytes", MaxLine)

// LineParser parses the lines of a log one by one, for callers that read them themselves, for
// example from a log that grows. It is not safe for concurrent use.
type LineParser struct {
	format  Format
	header  []byte // of a CSV: a line that holds no request
	lines   unwrapper
	columns Columns
	parse   func(line []byte) (Record, error)
}

// NewLineParser returns a parser for the log that begins with head, which holds whole
// lines: all that there are, or so many that the format, the layout of the fields and the
// header of a CSV are among them. The error says what a log must look like.
func NewLineParser(head []byte, o Options) (*LineParser, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return newParser(bytes.Split(bytes.TrimPrefix(head, byteOrder), []byte{'\n'}), o)
}

// newParser returns a parser for the lines as they are, or else within a known wrapper. The error
// is that of the innermost lines.
func newParser(head [][]byte, o Options) (*LineParser, error) {
	p, err := newPlainParser(head, o)
	if err == nil {
		return p, nil
	}
	for i := range wrappers {
		w := &wrappers[i]
		inner := w.unwrapHead(head)
		if len(inner) == 0 {
			continue
		}
		p, wrapped := newPlainParser(inner, o)
		if wrapped == nil {
			p.lines.wrapper = w
			return p, nil
		}
		err = fmt.Errorf("within the lines of %s: %w", w.name, wrapped)
	}
	return nil, err
}

func newPlainParser(head [][]byte, o Options) (p *LineParser, err error) {
	p = &LineParser{format: o.Format}
	if o.LogFormat != "" {
		return p, p.describe(head, o)
	}
	if p.format == Auto {
		if p.format, err = detect(head, o); err != nil {
			return nil, err
		}
	}
	switch p.format {
	case CLF:
		var clf *clfParser
		if clf, err = newCLFParser(head, o); err == nil {
			p.parse, p.columns = clf.parse, clf.columns
		}
	case JSON:
		var json *jsonParser
		if json, err = newJSONParser(head, o); err == nil {
			p.parse, p.columns = json.parse, json.columns
		}
	case CSV:
		if p.header = firstLine(head); len(p.header) == 0 {
			return nil, errNoHeader
		}
		var csv *csvParser
		if csv, err = newCSVParser(p.header, o); err == nil {
			p.parse, p.columns = csv.parse, csv.columns
		}
	default:
		err = fmt.Errorf("the log format %q is not known; write auto, common, combined, json or csv", clip(string(p.format)))
	}
	return p, err
}

// firstLine returns the first line that is not blank, without its end.
func firstLine(head [][]byte) []byte {
	for _, line := range head {
		if line = trimEnd(line); len(line) > 0 {
			return bytes.Clone(line)
		}
	}
	return nil
}

// Format returns the format that is parsed.
func (p *LineParser) Format() Format { return p.format }

// Wrapper returns the name of what is around the lines, "" for nothing.
func (p *LineParser) Wrapper() string {
	if p.lines.wrapper == nil {
		return ""
	}
	return p.lines.name
}

// Columns says what the lines hold, as far as those at the beginning show.
func (p *LineParser) Columns() Columns { return p.columns }

// Describe says how the lines are read and what they hold, in one line that is safe to print.
func (p *LineParser) Describe() string {
	format := map[Format]string{CLF: "Common Log Format", JSON: "JSON", CSV: "CSV", described: "lines of --log-format"}[p.format]
	if w := p.Wrapper(); w != "" {
		format += " within lines of " + w
	}
	return format + ": " + p.columns.String()
}

// IsBlank reports whether a line holds neither a request nor a mistake: it is empty, or
// the header of a CSV.
func (p *LineParser) IsBlank(line []byte) bool {
	line = trimEnd(bytes.TrimPrefix(line, byteOrder))
	return len(line) == 0 || len(p.header) > 0 && bytes.Equal(line, p.header)
}

// Parse parses a line, with or without its end. The error says in one line that is safe to
// print why it holds no request; it is ErrPart for a part of a line.
func (p *LineParser) Parse(line []byte) (Record, error) {
	line, err := p.lines.take(trimEnd(bytes.TrimPrefix(line, byteOrder)))
	if err != nil {
		return Record{}, err
	}
	return p.parse(line)
}

// Quote returns the beginning of a line, quoted and escaped, as BadLine.Text has it.
func Quote(line []byte) string { return shown(line) }
