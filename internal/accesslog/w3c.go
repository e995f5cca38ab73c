package accesslog

import (
	"bytes"
	"errors"
	"net/url"
	"slices"
	"strings"
)

// w3cParser reads W3C Extended Log Format, whose columns are named by lines of "#Fields:", also
// others later in a file. IIS writes a plus for a space, CloudFront tabs between values and
// percent signs within.
type w3cParser struct {
	options Options
	named   string
	rows    *rowParser // nil as long as err says what is wrong with the names
	err     error
}

var (
	fieldsDirective = []byte("#Fields:")
	errNoFields     = errors.New("no line of #Fields: is before it")
)

// isDirective reports whether a line of W3C Extended Log Format holds no request.
func isDirective(line []byte) bool { return len(line) > 0 && line[0] == '#' }

func newW3CParser(head [][]byte, o Options) (*w3cParser, error) {
	p := &w3cParser{options: o, err: errNoFields}
	at := slices.IndexFunc(head, func(line []byte) bool { return bytes.HasPrefix(line, fieldsDirective) })
	if at < 0 {
		return nil, errNoFields
	}
	p.direct(trimEnd(head[at]))
	return p, p.err
}

// direct reads a line that begins with a number sign.
func (p *w3cParser) direct(line []byte) {
	fields, found := bytes.CutPrefix(line, fieldsDirective)
	if !found || string(fields) == p.named {
		return
	}
	p.named = string(fields)
	p.rows, p.err = newW3CRows(strings.Fields(p.named), p.options)
}

func newW3CRows(names []string, o Options) (*rowParser, error) {
	p, err := newRowParser(names, o)
	if err != nil {
		return nil, err
	}
	if date, clock := column(names, "date", nil), column(names, "time", nil); o.Time == "" && date >= 0 && clock >= 0 {
		p.date, p.time = date, clock
	}
	if p.request[0] == column(names, "cs-uri-stem", nil) {
		p.query = column(names, "cs-uri-query", nil)
	}
	p.split = func(line []byte) ([]string, error) {
		// Only CloudFront writes tabs, and no space. Where a client can write tabs, the spaces count.
		if values := strings.Split(string(line), " "); len(values) == len(names) {
			p.agent = func(agent string) string { return strings.ReplaceAll(agent, "+", " ") }
			return values, nil
		}
		p.agent = unescapePercent
		return strings.Split(string(line), "\t"), nil
	}
	return p, nil
}

// unescapePercent returns an agent of CloudFront, which it has escaped once or twice.
func unescapePercent(text string) string {
	for range 2 {
		plain, err := url.PathUnescape(text)
		if err != nil {
			break
		}
		text = plain
	}
	return text
}

func (p *w3cParser) parse(line []byte) (Record, error) {
	switch {
	case isDirective(line):
		p.direct(line)
		return Record{}, ErrPart
	case p.err != nil:
		return Record{}, p.err
	}
	return p.rows.parse(line)
}
