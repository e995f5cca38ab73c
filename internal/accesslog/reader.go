package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

var errNoHeader = errors.New("the CSV has no line of column names")

// InputError is the error of a log, or of Options for it, that the caller must change.
type InputError struct{ Err error }

// Error returns the text of Err.
func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *InputError) Unwrap() error { return e.Err }

// Reader reads the requests of one log in the order of its lines. It is not
// safe for concurrent use.
type Reader struct {
	lines  *lines
	name   string
	parser *LineParser
	maxBad int
	counts Counts
}

// NewReader returns a reader of the log r. Its bad lines and errors contain name. It reads
// the beginning to detect gzip and, unless o names it, the format. The error says what a
// log must look like; it is an *InputError unless reading failed.
func NewReader(r io.Reader, name string, o Options) (*Reader, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	reader := &Reader{name: name, maxBad: o.MaxBad}
	if reader.lines, err = newLines(r); err != nil {
		return nil, reader.wrap(err)
	}
	head, err := reader.lines.head()
	if err != nil {
		return nil, reader.wrap(err)
	}
	if o.Format == Auto && len(bytes.TrimSpace(bytes.Join(head, nil))) == 0 && reader.lines.isAllBuffered() {
		o.Time, o.Key, o.Cost, o.Account = "", "", "", "" // no line has fields that could be missing
	}
	if reader.parser, err = newParser(head, o); err != nil {
		return nil, &InputError{reader.wrap(err)}
	}
	return reader, nil
}

// Next returns the next request. Lines without one are counted and skipped. The error is
// io.EOF after the last line; any other says where reading failed.
func (r *Reader) Next() (Record, error) {
	for {
		line, long, err := r.lines.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return Record{}, err
			}
			return Record{}, r.wrap(err)
		}
		if r.parser.IsBlank(line) {
			continue
		}
		r.counts.Lines++
		if long {
			r.bad(line, ErrLongLine)
			continue
		}
		record, err := r.parser.Parse(line)
		if errors.Is(err, ErrPart) {
			r.counts.Lines--
			continue
		}
		if errors.Is(err, ErrSkipped) {
			r.counts.Skipped++
			continue
		}
		if err != nil {
			r.bad(line, err)
			continue
		}
		r.counts.Records++
		return record, nil
	}
}

func (r *Reader) bad(line []byte, why error) {
	r.counts.addBad(r.maxBad, BadLine{File: r.name, Line: r.lines.read, Why: why.Error(), Text: shown(line)})
}

func (r *Reader) wrap(err error) error {
	if r.name == "" {
		return err
	}
	return fmt.Errorf("%q: %w", r.name, err)
}

// Format returns the format that is read.
func (r *Reader) Format() Format { return r.parser.Format() }

// Parser returns the parser of the lines.
func (r *Reader) Parser() *LineParser { return r.parser }

// Counts returns the counts so far.
func (r *Reader) Counts() Counts {
	counts := r.counts
	if packed := r.lines.packed; packed != nil && packed.Ignored() > 0 {
		counts.Warnings = []string{r.wrap(errors.New(IgnoredText(packed.Ignored()))).Error()}
	}
	return counts
}
