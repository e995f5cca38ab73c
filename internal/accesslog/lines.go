package accesslog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
)

// lines splits a log, plain or gzip, into lines of bounded length.
type lines struct {
	in     *bufio.Reader
	packed *Unpacker // nil for a plain log
	read   int64     // lines so far
	long   []byte    // a line longer than the buffer, whose memory is used again
}

// bufferSize is what is read at once. Nearly every line is shorter.
const bufferSize = 64 << 10

// maxKept is how much memory of a long line is used again.
const maxKept = 1 << 20

var (
	gzipMagic = []byte{0x1f, 0x8b}
	byteOrder = []byte("\xef\xbb\xbf") // the mark that some editors put first
)

func newLines(r io.Reader) (*lines, error) {
	packed, plain, err := newUnpacker(r)
	switch {
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, &InputError{err}
	case err != nil:
		return nil, err
	case packed != nil:
		plain = bufio.NewReaderSize(packed, bufferSize)
	}
	if err := skipZeros(plain); err != nil {
		return nil, err
	}
	if head, _ := plain.Peek(len(byteOrder)); bytes.Equal(head, byteOrder) {
		if _, err := plain.Discard(len(byteOrder)); err != nil {
			return nil, err
		}
	}
	return &lines{in: plain, packed: packed}, nil
}

// skipZeros skips the NUL bytes at the beginning: a server that does not append writes behind
// them after its log was truncated, and there may be many megabytes of them.
func skipZeros(in *bufio.Reader) error {
	for {
		if _, err := in.Peek(1); err != nil {
			return nil //nolint:nilerr // the first read meets it again
		}
		head, err := in.Peek(in.Buffered())
		if err != nil {
			return err
		}
		rest := bytes.TrimLeft(head, "\x00")
		if _, err := in.Discard(len(head) - len(rest)); err != nil || len(rest) > 0 {
			return err
		}
	}
}

// head returns the whole lines at the beginning, as far as the buffer reaches,
// without consuming them. The buffer grows where the first line is longer, to MaxLine.
func (l *lines) head() ([][]byte, error) {
	head, err := l.in.Peek(l.in.Size())
	for err == nil && len(head) < MaxLine && bytes.IndexByte(head, '\n') < 0 {
		l.in = bufio.NewReaderSize(l.in, 2*len(head))
		head, err = l.in.Peek(l.in.Size())
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, l.unpackError(err)
	}
	if err == nil { // the last line may go on
		if end := bytes.LastIndexByte(head, '\n'); end >= 0 {
			head = head[:end]
		}
	}
	return bytes.Split(head, []byte{'\n'}), nil
}

// isAllBuffered reports whether head has seen the whole log.
func (l *lines) isAllBuffered() bool { return l.in.Buffered() < l.in.Size() }

// next returns the next line without its end, valid until the next call. Of a
// line longer than MaxLine it returns the beginning and long.
func (l *lines) next() (line []byte, long bool, err error) {
	if cap(l.long) > maxKept { // one of many logs that are open at a time
		l.long = nil
	}
	line, err = l.in.ReadSlice('\n')
	l.read++
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.gather(line)
	}
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return bytes.Clone(line[:maxShown]), true, l.skipLine()
	case err == nil || errors.Is(err, io.EOF) && len(line) > 0:
		return trimEnd(line), len(withoutFeed(line)) > MaxLine, nil
	default:
		l.read--
		return nil, false, l.unpackError(err)
	}
}

// gather reads on a line that begins with what fills the buffer. Its error is
// bufio.ErrBufferFull for one that is longer than MaxLine and does not end here.
func (l *lines) gather(beginning []byte) (line []byte, err error) {
	l.long = append(l.long[:0], beginning...)
	for len(l.long) <= MaxLine {
		var more []byte
		more, err = l.in.ReadSlice('\n')
		if l.long = append(l.long, more...); !errors.Is(err, bufio.ErrBufferFull) {
			return l.long, err
		}
	}
	return l.long, bufio.ErrBufferFull
}

// withoutFeed returns a line without the line feed that ends it.
func withoutFeed(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	return line
}

func (l *lines) skipLine() error {
	for {
		_, err := l.in.ReadSlice('\n')
		switch {
		case err == nil || errors.Is(err, io.EOF):
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return l.unpackError(err)
		}
	}
}

// unpackError says where a broken log ends. io.EOF stays as it is.
func (l *lines) unpackError(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &InputError{fmt.Errorf("the gzip data ends in its middle, after line %d: %w", l.read, err)}
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, new(flate.CorruptInputError)):
		return &InputError{fmt.Errorf("the gzip data is damaged after line %d: %w", l.read, err)}
	default:
		return fmt.Errorf("read after line %d: %w", l.read, err)
	}
}

func trimEnd(line []byte) []byte {
	line = withoutFeed(line)
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}
