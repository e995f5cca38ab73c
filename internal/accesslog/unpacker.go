package accesslog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

// Unpacker unpacks gzip data: its members one after another, and zeros between and behind them
// are skipped, with which tapes and backups fill up. Like gzip(1), it ignores any other data
// behind the last member; see Ignored. It is not safe for concurrent use.
type Unpacker struct {
	from    offsetReader
	in      *bufio.Reader // of from
	member  *gzip.Reader
	ignored int64
	err     error // of the end
}

// offsetReader counts what was read through it.
type offsetReader struct {
	io.Reader
	offset int64
}

func (r *offsetReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.offset += int64(n)
	return n, err
}

// newUnpacker returns an Unpacker for what r holds, and a reader of the same for any other data.
// The Unpacker is nil unless r begins like gzip data.
func newUnpacker(r io.Reader) (*Unpacker, *bufio.Reader, error) {
	u := &Unpacker{from: offsetReader{Reader: r}}
	u.in = bufio.NewReaderSize(&u.from, bufferSize)
	isPacked, err := u.isAtMember()
	if err != nil || !isPacked {
		return nil, u.in, err
	}
	u.member = new(gzip.Reader)
	if err := u.begin(); err != nil {
		return nil, nil, fmt.Errorf("unpack gzip: %w", err)
	}
	return u, nil, nil
}

// NewUnpacker returns an Unpacker of r, which must begin with gzip data.
func NewUnpacker(r io.Reader) (*Unpacker, error) {
	u, _, err := newUnpacker(r)
	if err == nil && u == nil {
		err = fmt.Errorf("unpack gzip: %w", gzip.ErrHeader)
	}
	return u, err
}

// Read reads unpacked data.
func (u *Unpacker) Read(p []byte) (int, error) {
	for u.err == nil {
		n, err := u.member.Read(p)
		if errors.Is(err, io.EOF) {
			err = u.nextMember()
		}
		u.err = err
		if n > 0 || len(p) == 0 {
			return n, nil
		}
	}
	return 0, u.err
}

// nextMember begins with the next member. It returns io.EOF if there is none.
func (u *Unpacker) nextMember() error {
	if err := skipZeros(u.in); err != nil {
		return err
	}
	isMember, err := u.isAtMember()
	switch {
	case err != nil:
		return err
	case !isMember:
		if u.in.Buffered() > 0 {
			u.ignored = u.from.offset - int64(u.in.Buffered())
		}
		return io.EOF
	}
	return u.begin()
}

// begin reads the header of a member.
func (u *Unpacker) begin() error {
	err := u.member.Reset(u.in)
	if errors.Is(err, io.EOF) { // within a name
		return io.ErrUnexpectedEOF
	}
	u.member.Multistream(false)
	return err
}

// isAtMember reports whether the next bytes begin a member.
func (u *Unpacker) isAtMember() (bool, error) {
	head, err := u.in.Peek(len(gzipMagic))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return bytes.Equal(head, gzipMagic), err
}

// Ignored returns the offset in the packed data from which on the rest is ignored because it
// is no gzip data; 0 if nothing is, or as long as the data before it was not read.
func (u *Unpacker) Ignored() int64 { return u.ignored }

// IgnoredText says for people what Ignored returns.
func IgnoredText(offset int64) string {
	return fmt.Sprintf("what follows the gzip data, from byte %d on, is no gzip data and was ignored", offset)
}
