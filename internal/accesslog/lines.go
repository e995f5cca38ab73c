package accesslog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

// lines splits a log, plain or gzip, into lines of bounded length.
type lines struct {
	in   *bufio.Reader
	read int64 // lines so far
}

var (
	gzipMagic = []byte{0x1f, 0x8b}
	byteOrder = []byte("\xef\xbb\xbf") // the mark that some editors put first
)

func newLines(r io.Reader, maxLine int) (*lines, error) {
	plain := bufio.NewReaderSize(r, maxLine)
	head, err := plain.Peek(len(gzipMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if bytes.Equal(head, gzipMagic) {
		unpacked, err := gzip.NewReader(plain)
		if err != nil {
			return nil, fmt.Errorf("unpack gzip: %w", err)
		}
		plain = bufio.NewReaderSize(unpacked, maxLine)
	}
	if head, _ := plain.Peek(len(byteOrder)); bytes.Equal(head, byteOrder) {
		if _, err := plain.Discard(len(byteOrder)); err != nil {
			return nil, err
		}
	}
	return &lines{in: plain}, nil
}

// head returns the whole lines at the beginning, as far as the buffer reaches,
// without consuming them.
func (l *lines) head() ([][]byte, error) {
	head, err := l.in.Peek(l.in.Size())
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

// next returns the next line without its end, valid until the next call. Of a
// line longer than the buffer it returns the beginning and long.
func (l *lines) next() (line []byte, long bool, err error) {
	line, err = l.in.ReadSlice('\n')
	l.read++
	switch {
	case err == nil:
		return trimEnd(line), false, nil
	case errors.Is(err, io.EOF) && len(line) > 0:
		return trimEnd(line), false, nil
	case errors.Is(err, bufio.ErrBufferFull):
		beginning := bytes.Clone(line[:maxShown])
		return beginning, true, l.skipLine()
	default:
		l.read--
		return nil, false, l.unpackError(err)
	}
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
		return fmt.Errorf("the gzip data ends in its middle, after line %d: %w", l.read, err)
	default:
		return fmt.Errorf("read after line %d: %w", l.read, err)
	}
}

func trimEnd(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}
