package logfollow

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
)

// identity distinguishes the files that exist at one time.
type identity struct{ device, inode uint64 }

const (
	// readSize is how much of a file is read at a time, in bytes.
	readSize = 256 << 10
	// maxFileID is the longest id of a file, so that an idempotency key has room for an
	// offset behind it.
	maxFileID = 32
	// headBytes is how much of a file is looked at to find its format, and more where its
	// first line is longer.
	headBytes = 64 << 10
)

var (
	errTruncated = errors.New("the file was truncated")
	gzipMagic    = []byte{0x1f, 0x8b}
)

// tail reads the lines of one file while it grows. It is not safe for concurrent use.
type tail struct {
	name     string // the path under which it was opened, to be shown
	file     *os.File
	identity identity
	zeros    int64  // how many NUL bytes it begins with; head is behind them
	head     []byte // its beginning, at most headLength bytes
	id       string // a part of the idempotency keys of its lines
	parser   *accesslog.LineParser
	unpacked io.Reader           // of a compressed file, nil for a plain one
	packed   *accesslog.Unpacker // its source, until it was reported that a part of the file is ignored

	buffer     []byte
	start, end int   // of the unread part of buffer
	offset     int64 // in the file, of buffer[start]
	skipping   bool  // until the end of a line that is too long

	done      int64 // where the first line begins that was not checked
	lastTime  int64 // Unix milliseconds in the last line that was checked
	uncertain uncertainLines
	held      *heldLine // the last line that was read, while its time has not come

	isFinal   bool      // it grows no more
	retiredAt time.Time // since when another file is at its path, or when it grew last
}

// line is one line of a file. Its text is valid until the next one is read.
type line struct {
	text []byte // without its end
	// isLong says that the text is only the beginning of a line that is too long.
	isLong     bool
	start, end int64 // offsets in the file
}

// openTail opens the file at path at an offset. id is "" for a file that was not read
// before.
func openTail(path, id string, offset int64) (*tail, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // a pipe would wait for its writer
		return nil, &accesslog.InputError{Err: fmt.Errorf("%q is not a regular file", path)}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	t, err := newTail(file, path, id, offset)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return t, nil
}

func newTail(file *os.File, path, id string, offset int64) (*tail, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &accesslog.InputError{Err: fmt.Errorf("%q is not a regular file", path)}
	}
	if id == "" {
		id = strings.ToLower(rand.Text()[:16])
	}
	t := &tail{name: path, file: file, identity: identityOf(info), id: id, offset: offset, done: offset}
	if err := t.unpack(); err != nil {
		return nil, fmt.Errorf("%q: %w", path, err)
	}
	if err := t.checkHead(); err != nil {
		return nil, err
	}
	return t, t.startAtLine()
}

// unpack prepares the reading of a compressed file.
func (t *tail) unpack() error {
	magic := make([]byte, len(gzipMagic))
	if n, err := t.file.ReadAt(magic, 0); n < len(magic) || !bytes.Equal(magic, gzipMagic) {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return err
	}
	in, err := accesslog.NewUnpacker(io.NewSectionReader(t.file, 0, 1<<62))
	if err != nil {
		return err
	}
	buffered := bufio.NewReaderSize(in, headBytes)
	for {
		head, err := buffered.Peek(headLength)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("unpack gzip: %w", err)
		}
		t.head = bytes.TrimLeft(head, "\x00")
		zeros := len(head) - len(t.head)
		if zeros == 0 {
			break
		}
		t.zeros += int64(zeros)
		if _, err := buffered.Discard(zeros); err != nil {
			return fmt.Errorf("unpack gzip: %w", err)
		}
	}
	t.head = bytes.Clone(t.head)
	t.unpacked, t.packed, t.isFinal = buffered, in, true
	return nil
}

// startAtLine goes to the offset. Within a line, which then was too long, the rest of the
// line is skipped.
func (t *tail) startAtLine() error {
	if t.offset <= t.zeros {
		t.offset = t.zeros
		return nil
	}
	before := make([]byte, 1)
	if t.unpacked != nil {
		if _, err := io.CopyN(io.Discard, t.unpacked, t.offset-1-t.zeros); err != nil {
			return fmt.Errorf("%q: it ends before byte %d: %w", t.name, t.offset, err)
		}
		if _, err := io.ReadFull(t.unpacked, before); err != nil {
			return fmt.Errorf("%q: %w", t.name, err)
		}
	} else if _, err := t.file.ReadAt(before, t.offset-1); err != nil {
		return fmt.Errorf("%q: %w", t.name, err)
	}
	t.skipping = before[0] != '\n' && before[0] != 0
	return nil
}

// checkHead returns errTruncated if the file no longer begins as it did, or is shorter
// than what was read of it.
func (t *tail) checkHead() error {
	if t.unpacked != nil {
		return nil
	}
	info, err := t.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < t.offset+int64(t.end-t.start) {
		return errTruncated
	}
	head := make([]byte, headLength)
	for {
		n, err := t.file.ReadAt(head, t.zeros)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if !bytes.HasPrefix(head[:n], t.head) {
			return errTruncated
		}
		found := head[:n]
		if len(t.head) == 0 {
			found = bytes.TrimLeft(found, "\x00")
			t.zeros += int64(n - len(found))
		}
		if len(found) == n {
			t.head = found
			return nil
		}
	}
}

// beginning returns the first lines, by which the format is recognised.
func (t *tail) beginning() ([]byte, error) {
	for size := headBytes; ; size = min(2*size, accesslog.MaxLine) {
		text, err := t.firstBytes(size)
		if err != nil {
			return nil, err
		}
		isAll := len(text) < size
		if end := bytes.LastIndexByte(text, '\n'); end >= 0 && (!t.isFinal || !isAll) {
			return text[:end], nil
		}
		switch {
		case isAll && t.isFinal:
			return text, nil
		case isAll:
			return nil, nil // the first line is not complete
		case size == accesslog.MaxLine:
			return text, nil // it is too long
		}
	}
}

// firstBytes returns the first bytes of the file, so many at most.
func (t *tail) firstBytes(size int) (text []byte, err error) {
	if t.unpacked != nil {
		again, err := os.Open(t.file.Name())
		if err != nil {
			return t.head, nil // deleted since: its first lines must do
		}
		defer again.Close()
		in, err := accesslog.NewUnpacker(again)
		if err != nil {
			return nil, err
		}
		if _, err := io.CopyN(io.Discard, in, t.zeros); err != nil {
			return nil, err
		}
		return io.ReadAll(io.LimitReader(in, int64(size)))
	}
	text = make([]byte, size)
	n, err := t.file.ReadAt(text, t.zeros)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return text[:n], nil
}

// direct gives the parser the lines before the offset that name columns, which may change within a
// file.
func (t *tail) direct() error {
	if t.offset <= t.zeros || !t.parser.Direct(nil) {
		return nil
	}
	var in io.Reader = io.NewSectionReader(t.file, t.zeros, t.offset-t.zeros)
	if t.unpacked != nil {
		again, err := os.Open(t.file.Name())
		if err != nil {
			return err
		}
		defer again.Close()
		unpacked, err := accesslog.NewUnpacker(again)
		if err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, unpacked, t.zeros); err != nil {
			return err
		}
		in = io.LimitReader(unpacked, t.offset-t.zeros)
	}
	lines := bufio.NewReaderSize(in, readSize)
	for isRest := false; ; {
		text, isLong, err := lines.ReadLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !isLong && !isRest {
			t.parser.Direct(text)
		}
		isRest = isLong
	}
}

// next returns the next line; ok is false if there is none at present.
func (t *tail) next() (l line, ok bool, err error) {
	scanned := 0
	for {
		if !t.skipping && scanned == 0 {
			t.skipZeros()
		}
		unread := t.buffer[t.start:t.end]
		if at := bytes.IndexByte(unread[scanned:], '\n'); at >= 0 {
			l = t.take(scanned+at, 1)
			if !t.skipping && len(l.text) > accesslog.MaxLine {
				l.isLong = true
			}
			if t.skipping {
				t.skipping, scanned = false, 0
				continue
			}
			return l, true, nil
		}
		scanned = len(unread)
		if scanned > accesslog.MaxLine {
			l = t.take(scanned, 0)
			l.isLong, scanned = true, 0
			if !t.skipping {
				t.skipping = true
				return l, true, nil
			}
			continue
		}
		n, err := t.fill()
		if err != nil {
			return line{}, false, err
		}
		if n > 0 {
			continue
		}
		if t.isFinal && scanned > 0 {
			l = t.take(scanned, 0)
			return l, !t.skipping, nil
		}
		return line{}, false, nil
	}
}

// skipZeros skips NUL bytes before a line: a server that does not append writes behind
// them after its file was truncated.
func (t *tail) skipZeros() {
	for t.start < t.end && t.buffer[t.start] == 0 {
		t.start++
		t.offset++
	}
}

// take consumes n bytes as a line, and its end.
func (t *tail) take(n, lineEnd int) line {
	text := t.buffer[t.start : t.start+n]
	l := line{text: text, start: t.offset, end: t.offset + int64(n+lineEnd)}
	t.start += n + lineEnd
	t.offset = l.end
	return l
}

// fill reads more into the buffer and returns how much.
func (t *tail) fill() (int, error) {
	if t.buffer == nil {
		t.buffer = make([]byte, readSize)
	}
	unread := t.buffer[t.start:t.end]
	switch {
	case len(unread) == len(t.buffer): // a long line
		t.buffer = make([]byte, 2*len(t.buffer))
	case len(t.buffer) > readSize && len(unread) < readSize/2:
		t.buffer = make([]byte, readSize)
	}
	t.start, t.end = 0, copy(t.buffer, unread)
	room := t.buffer[t.end:]
	var n int
	var err error
	if t.unpacked != nil {
		n, err = t.unpacked.Read(room)
	} else {
		n, err = t.file.ReadAt(room, t.offset+int64(t.end))
		if n > 0 {
			// What was read may be of a file that was truncated and has grown again.
			if err := t.checkHead(); err != nil {
				return 0, err
			}
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("%q: read after byte %d: %w", t.name, t.offset, err)
	}
	t.end += n
	return n, nil
}

// abandon ends a compressed file that cannot be unpacked.
func (t *tail) abandon() {
	t.unpacked, t.start, t.end = bytes.NewReader(nil), 0, 0
}

// lineKey returns the idempotency key of the line that begins at an offset.
func (t *tail) lineKey(start int64) string { return t.id + "." + strconv.FormatInt(start, 36) }

// save returns the position for the state file, with what an earlier process left in
// uncertain lines. head is what distinguishes the file from others by its beginning.
func (t *tail) save(head []byte) fileState {
	s := fileState{
		Device: t.identity.device, Inode: t.identity.inode, fileHead: headOf(head),
		ID: t.id, Offset: t.done,
	}
	t.uncertain.save(&s)
	if t.lastTime > 0 {
		s.LastTime = time.UnixMilli(t.lastTime).UTC()
	}
	return s
}

func (t *tail) close() { t.file.Close() }
