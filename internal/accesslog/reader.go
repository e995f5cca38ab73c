package accesslog

import (
	"errors"
	"fmt"
	"io"
)

// Reader reads the requests of one log in the order of its lines. It is not
// safe for use by several goroutines.
type Reader struct {
	lines  *lines
	name   string
	format Format
	maxBad int
	parse  func(line []byte) (Record, error)
	tally  Tally
}

// NewReader returns a reader of the log r, whose name stands in its bad lines
// and errors. It reads the beginning to tell gzip from plain text and, unless
// o names it, the format. The error says what a log must look like.
func NewReader(r io.Reader, name string, o Options) (*Reader, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	reader := &Reader{name: name, format: o.Format, maxBad: o.MaxBad}
	if reader.lines, err = newLines(r, o.MaxLine); err != nil {
		return nil, reader.wrap(err)
	}
	if o.Format == Auto {
		head, err := reader.lines.head()
		if err != nil {
			return nil, reader.wrap(err)
		}
		if reader.format, err = detect(head, o); err != nil {
			return nil, reader.wrap(err)
		}
	}
	if reader.parse, err = reader.parser(o); err != nil {
		return nil, reader.wrap(err)
	}
	return reader, nil
}

func (r *Reader) parser(o Options) (func([]byte) (Record, error), error) {
	switch r.format {
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
		header, err := r.header()
		if err != nil {
			return nil, err
		}
		p, err := newCSVParser(header, o)
		if err != nil {
			return nil, err
		}
		return p.parse, nil
	}
	return nil, fmt.Errorf("the log format %q is not known; write auto, common, combined, json or csv", clip(string(r.format)))
}

// header reads the names above a CSV, which a blank line may precede.
func (r *Reader) header() ([]byte, error) {
	for {
		line, long, err := r.lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, errors.New("the CSV has no line of column names")
		case err != nil:
			return nil, err
		case long:
			return nil, fmt.Errorf("the line of column names is longer than %d bytes", r.lines.in.Size())
		case len(line) > 0:
			return line, nil
		}
	}
}

// Next returns the next request. Lines that hold none are counted and passed
// over. The error is io.EOF after the last line; any other one says where the
// log could not be read further.
func (r *Reader) Next() (Record, error) {
	for {
		line, long, err := r.lines.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return Record{}, err
			}
			return Record{}, r.wrap(err)
		}
		if len(line) == 0 {
			continue
		}
		r.tally.Lines++
		if long {
			r.bad(line, fmt.Errorf("the line is longer than %d bytes", r.lines.in.Size()))
			continue
		}
		record, err := r.parse(line)
		if err != nil {
			r.bad(line, err)
			continue
		}
		r.tally.Records++
		return record, nil
	}
}

func (r *Reader) bad(line []byte, why error) {
	r.tally.bad(r.maxBad, BadLine{File: r.name, Line: r.lines.read, Why: why.Error(), Text: shown(line)})
}

func (r *Reader) wrap(err error) error {
	if r.name == "" {
		return err
	}
	return fmt.Errorf("%q: %w", r.name, err)
}

// Format returns the format that is read.
func (r *Reader) Format() Format { return r.format }

// Tally returns what was read so far.
func (r *Reader) Tally() Tally { return r.tally }
