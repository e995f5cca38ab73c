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

// LineParser parses the lines of a log one by one, for who reads them himself, as from a
// log that grows. It is not safe for concurrent use.
type LineParser struct {
	format Format
	header []byte // of a CSV: a line that holds no request
	parse  func(line []byte) (Record, error)
}

// NewLineParser returns a parser for the log that begins with head, which holds whole
// lines: all that there are, or so many that the format and the header of a CSV are among
// them. The error says what a log must look like.
func NewLineParser(head []byte, o Options) (*LineParser, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	lines := bytes.Split(bytes.TrimPrefix(head, byteOrder), []byte{'\n'})
	p := &LineParser{format: o.Format}
	if p.format == Auto {
		if p.format, err = detect(lines, o); err != nil {
			return nil, err
		}
	}
	p.parse, err = newParser(p.format, o, func() ([]byte, error) {
		for _, line := range lines {
			if line = trimEnd(line); len(line) > 0 {
				p.header = line
				return line, nil
			}
		}
		return nil, errNoHeader
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Format returns the format that is parsed.
func (p *LineParser) Format() Format { return p.format }

// IsBlank reports whether a line holds neither a request nor a mistake: it is empty, or
// the header of a CSV.
func (p *LineParser) IsBlank(line []byte) bool {
	line = trimEnd(bytes.TrimPrefix(line, byteOrder))
	return len(line) == 0 || len(p.header) > 0 && bytes.Equal(line, p.header)
}

// Parse parses a line, with or without its end. The error says in one line that is safe to
// print why it holds no request.
func (p *LineParser) Parse(line []byte) (Record, error) {
	return p.parse(trimEnd(bytes.TrimPrefix(line, byteOrder)))
}

// Quote returns the beginning of a line, quoted and escaped, as BadLine.Text has it.
func Quote(line []byte) string { return shown(line) }

// newParser returns the parser of a format; header returns the first line of a CSV.
func newParser(format Format, o Options, header func() ([]byte, error)) (func([]byte) (Record, error), error) {
	switch format {
	case CLF:
		p, err := newCLFParser(o)
		if err != nil {
			return nil, err
		}
		return p.parse, nil
	case JSON:
		p, err := newJSONParser(o)
		if err != nil {
			return nil, err
		}
		return p.parse, nil
	case CSV:
		names, err := header()
		if err != nil {
			return nil, err
		}
		p, err := newCSVParser(names, o)
		if err != nil {
			return nil, err
		}
		return p.parse, nil
	}
	return nil, fmt.Errorf("the log format %q is not known; write auto, common, combined, json or csv", clip(string(format)))
}
