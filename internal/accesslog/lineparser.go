package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/stint-dev/stint/internal/conditions"
)

// MaxLine is the longest line read, in bytes without its end. A server such as Caddy writes the
// headers of a request into its line, a megabyte of them by default, and six bytes for one: a
// client must not hide a request from the log by their length.
const MaxLine = 8 << 20

// ErrLongLine is why a longer line is bad.
var ErrLongLine = fmt.Errorf("the line is longer than %d bytes", MaxLine)

// ErrSkipped is returned by LineParser.Parse for a request that Options.SkipPaths leaves out, and
// for a line in which Options.Filter finds no failure.
var ErrSkipped = errors.New("the line is skipped")

// LineParser parses the lines of a log one by one, for callers that read them themselves, for
// example from a log that grows. It is not safe for concurrent use.
type LineParser struct {
	format Format
	title  string // of the format, for people
	header []byte // of a CSV: a line that holds no request
	skip   conditions.When
	// hasDirectives says that lines name the columns of those behind them.
	hasDirectives bool
	// beginsFree says that the lines are described to begin with any text.
	beginsFree bool
	lines      unwrapper
	columns    Columns
	parse      func(line []byte) (Record, error)
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
// is that of the innermost lines. Where the lines begin with any text, which would swallow what is in front of
// them, a wrapper that all of them have comes first.
func newParser(head [][]byte, o Options) (*LineParser, error) {
	p, err := newPlainParser(head, o)
	if err == nil && !p.beginsFree {
		return p, nil
	}
	for i := range wrappers {
		w := &wrappers[i]
		inner := w.unwrapHead(head)
		if len(inner) == 0 || err == nil && len(inner) < countLines(head) {
			continue
		}
		within, wrapped := newPlainParser(inner, o)
		switch {
		case wrapped == nil:
			within.lines.wrapper, within.lines.isLoose = w, err == nil
			return within, nil
		case err != nil:
			err = fmt.Errorf("within the lines of %s: %w", w.name, wrapped)
		}
	}
	return p, err
}

// countLines counts the lines at the beginning that are not blank.
func countLines(head [][]byte) (n int) {
	for _, line := range head[:min(len(head), layoutLines)] {
		if len(bytes.TrimSpace(line)) > 0 {
			n++
		}
	}
	return n
}

func newPlainParser(head [][]byte, o Options) (p *LineParser, err error) {
	p = &LineParser{format: o.Format, skip: o.SkipPaths}
	if o.Filter != nil {
		p.filter(o)
		return p, nil
	}
	if o.LogFormat != "" {
		p.format = described
		return p, p.describe(head, o.description(), o)
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
			p.title, p.parse, p.columns = "Common Log Format", clf.parse, clf.columns
		}
	case JSON:
		var json *jsonParser
		if json, err = newJSONParser(head, o); err == nil {
			p.title, p.parse, p.columns = "JSON", json.parse, json.columns
		}
	case CSV:
		if p.header = firstLine(head); len(p.header) == 0 {
			return nil, errNoHeader
		}
		var csv *rowParser
		if csv, err = newCSVParser(p.header, o); err == nil {
			p.title, p.parse, p.columns = "CSV", csv.parse, csv.columns
		}
	case W3C:
		var w3c *w3cParser
		if w3c, err = newW3CParser(head, o); err == nil {
			p.title, p.parse, p.columns, p.hasDirectives = "W3C Extended Log Format", w3c.parse, w3c.rows.columns, true
		}
	default:
		if !isDescribed(p.format) {
			return nil, fmt.Errorf("the log format %q is not known; write %s", clip(string(p.format)), FormatNames)
		}
		for _, line := range head {
			if d := describedAs(p.format, trimEnd(line)); d != nil {
				return p, p.describe(head, d, o)
			}
		}
		return nil, fmt.Errorf("none of the first %d lines is as in the format %s", len(head), p.format)
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

// Wrapper returns the name of the format that wraps the lines, "" for none.
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
	format := p.title
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

// Direct takes over what a line of a log that is read from its middle says of those behind it. It
// reports whether there may be such lines.
func (p *LineParser) Direct(line []byte) bool {
	if p.hasDirectives && isDirective(line) {
		_, _ = p.parse(trimEnd(line))
	}
	return p.hasDirectives
}

// Parse parses a line, with or without its end. The error says in one line that is safe to
// print why it holds no request; it is ErrPart for a part of a line and for one that describes
// others, and ErrSkipped for a request that Options.SkipPaths leaves out.
func (p *LineParser) Parse(line []byte) (Record, error) {
	line, err := p.lines.take(trimEnd(bytes.TrimPrefix(line, byteOrder)))
	if err != nil {
		return Record{}, err
	}
	r, err := p.parse(line)
	if err == nil && !p.skip.IsZero() && isSkipped(p.skip, r.Path) {
		return Record{}, ErrSkipped
	}
	return r, err
}

// isSkipped reports whether paths include the path of a target. They do not where programs may
// read the target in several ways: a client must not skip its request by a spelling.
func isSkipped(paths conditions.When, target string) bool {
	spelled, _, _ := strings.Cut(strings.ToLower(target), "?")
	for _, odd := range [...]string{"..", ";", `\`, "%2e", "%2f", "%5c", "%25", "%3b"} {
		if strings.Contains(spelled, odd) {
			return false
		}
	}
	return paths.Meets(conditions.RequestOf(conditions.Path, conditions.NormalizePath(target)))
}

// Quote returns the beginning of a line, quoted and escaped, as BadLine.Text has it.
func Quote(line []byte) string { return shown(line) }
