package rowfile

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// MaxRow bounds what is held in memory of a file at any time, in bytes: an open quote must
// not swallow the rest. The blank lines before a row are part of it.
const MaxRow = 1 << 20

var byteOrderMark = []byte("\xef\xbb\xbf")

// WithoutMark returns a file's first bytes without its byte order mark.
func WithoutMark(head []byte) []byte { return bytes.TrimPrefix(head, byteOrderMark) }

// ErrRowTooLong is what a Reader fails with when a row has taken more than it may.
var ErrRowTooLong = errors.New("the row is longer than 1 MiB, with the blank lines before it, perhaps because a quote or a brace is left open")

// Reader reads a file without its byte order mark, and no more than MaxRow bytes before
// NextRow is called again.
type Reader struct {
	*bufio.Reader
	bounded *boundedReader
}

// NewReader returns a Reader for the first row.
func NewReader(from io.Reader) *Reader {
	bounded := &boundedReader{from: from, left: MaxRow}
	r := &Reader{bufio.NewReaderSize(bounded, 1<<16), bounded}
	if mark, _ := r.Peek(len(byteOrderMark)); bytes.Equal(mark, byteOrderMark) {
		_, _ = r.Discard(len(mark)) // what was peeked can be discarded
	}
	return r
}

// NextRow says that a row is read, and allows another.
func (r *Reader) NextRow() { r.bounded.left = MaxRow }

// boundedReader fails once a row has taken more than it may.
type boundedReader struct {
	from io.Reader
	left int
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, ErrRowTooLong
	}
	n, err := b.from.Read(p)
	b.left -= n
	return n, err
}

// Unreadable says why a file cannot be read on; what the reader beneath failed with stays
// as it is.
func Unreadable(line int, err error) error {
	if errors.Is(err, ErrRowTooLong) {
		return &FileError{line, ErrRowTooLong.Error()}
	}
	return err
}
