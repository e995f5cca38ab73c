package eventlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/atomicfile"
)

// pieces is the number of files into which a full backlog is divided. The oldest is deleted when a new one begins.
const pieces = 8

// place is a place in a backlog: a byte of one of its files.
type place struct {
	File   int64 `json:"file"`
	Offset int64 `json:"offset"`
}

// backlog keeps lines on disk until they are sent, in files that are numbered from 1, and a file with the place of
// the first line that is not known to be received. It is safe for concurrent use.
type backlog struct {
	dir  string
	most int64 // bytes of one file

	mu      sync.Mutex
	files   []int64 // numbers, ascending; the last is open
	open    *os.File
	size    int64 // of the last file
	sent    place // what is before it was received
	dropped int64 // lines that were deleted unread
	more    chan struct{}
}

const placeFile = "sent.json"

// openBacklog opens the backlog of a folder, which it makes if there is none.
func openBacklog(dir string, size int64) (*backlog, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s := &backlog{dir: dir, most: size / pieces, more: make(chan struct{}, 1)}
	found, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		digits, is := strings.CutSuffix(f.Name(), ".jsonl")
		if n, err := strconv.ParseInt(digits, 10, 64); is && err == nil && n > 0 {
			s.files = append(s.files, n)
		}
	}
	slices.Sort(s.files)
	text, err := os.ReadFile(filepath.Join(dir, placeFile))
	if err == nil {
		err = json.Unmarshal(text, &s.sent)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.sent = place{} // everything that is there is sent once more
	}
	if len(s.files) == 0 {
		s.files = []int64{s.sent.File + 1}
	}
	s.atLeast(s.files[0])
	if last := s.files[len(s.files)-1]; s.sent.File > last {
		s.sent = place{File: last}
	}
	return s, s.openLast()
}

// atLeast moves the place to a file if it is before that.
func (s *backlog) atLeast(file int64) {
	if s.sent.File < file {
		s.sent = place{File: file}
	}
}

func (s *backlog) name(file int64) string {
	return filepath.Join(s.dir, strconv.FormatInt(file, 10)+".jsonl")
}

// openLast opens the last file to append to it. A line that is not whole, after a loss of power, is cut off.
func (s *backlog) openLast() error {
	last := s.files[len(s.files)-1]
	f, err := os.OpenFile(s.name(last), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	size, err := wholeLines(f)
	if err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.open, s.size = f, size
	if s.sent.File == last {
		s.sent.Offset = min(s.sent.Offset, size)
	}
	return nil
}

// wholeLines returns the number of bytes up to the last end of a line.
func wholeLines(f *os.File) (int64, error) {
	end, err := f.Seek(0, io.SeekEnd)
	buffer := make([]byte, 64<<10)
	for err == nil && end > 0 {
		start := max(0, end-int64(len(buffer)))
		part := buffer[:end-start]
		if _, err = f.ReadAt(part, start); err != nil {
			break
		}
		if at := bytes.LastIndexByte(part, '\n'); at >= 0 {
			return start + int64(at) + 1, nil
		}
		end = start
	}
	return 0, err
}

// write implements output.
func (s *backlog) write(lines []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		if err := s.openLast(); err != nil {
			return err
		}
	}
	if s.size > 0 && s.size+int64(len(lines)) > s.most {
		if err := s.begin(); err != nil {
			return err
		}
	}
	n, err := s.open.Write(lines)
	if err != nil {
		if n > 0 && s.open.Truncate(s.size) != nil {
			s.open.Close()
			s.open = nil
		}
		return fmt.Errorf("the backlog of the event log: %w", err)
	}
	s.size += int64(n)
	select {
	case s.more <- struct{}{}:
	default:
	}
	return nil
}

// begin begins a new file, and deletes the oldest if there are enough.
func (s *backlog) begin() error {
	if err := s.open.Close(); err != nil {
		s.open = nil
		return err
	}
	s.open = nil
	for len(s.files) >= pieces {
		oldest := s.files[0]
		if s.sent.File == oldest {
			unread, err := s.countLines(s.sent)
			if err != nil {
				return err
			}
			s.dropped += unread
		}
		if err := os.Remove(s.name(oldest)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		s.files = s.files[1:]
		s.atLeast(s.files[0])
	}
	s.files = append(s.files, s.files[len(s.files)-1]+1)
	return s.openLast()
}

// countLines counts the lines of a file from a place on.
func (s *backlog) countLines(from place) (count int64, err error) {
	f, err := os.Open(s.name(from.File))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buffer := make([]byte, 64<<10)
	for at := from.Offset; ; {
		n, err := f.ReadAt(buffer, at)
		count += int64(bytes.Count(buffer[:n], []byte("\n")))
		at += int64(n)
		if errors.Is(err, io.EOF) {
			return count, nil
		}
		if err != nil {
			return count, err
		}
	}
}

// stop implements output.
func (*backlog) stop() {}

// lost implements output.
func (s *backlog) lost() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := s.dropped
	s.dropped = 0
	return lost
}

// first returns the place of the first line that is not known to be received.
func (s *backlog) first() place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// read reads whole lines from a place into buffer, and returns them and the place after them. It returns none if
// there are no more. The place may have been deleted: then the lines are those after it. No line is longer than buffer.
func (s *backlog) read(from place, buffer []byte) ([]byte, place, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from.File < s.files[0] {
		from = place{File: s.files[0]}
	}
	for {
		isLast := from.File >= s.files[len(s.files)-1]
		f, err := os.Open(s.name(from.File))
		if err != nil && (!errors.Is(err, os.ErrNotExist) || isLast) {
			return nil, from, err
		}
		n := 0
		if err == nil {
			n, err = f.ReadAt(buffer, from.Offset)
			f.Close()
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, from, err
			}
		}
		if end := bytes.LastIndexByte(buffer[:n], '\n') + 1; end > 0 {
			from.Offset += int64(end)
			return buffer[:end], from, nil
		}
		if isLast {
			return nil, from, nil
		}
		from = place{File: from.File + 1}
	}
}

// received notes that everything before a place was received, and deletes the files before it.
func (s *backlog) received(until place) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until.File < s.sent.File || (until.File == s.sent.File && until.Offset <= s.sent.Offset) {
		return nil
	}
	s.sent = until
	text, err := json.Marshal(s.sent)
	if err != nil {
		return err
	}
	if err := atomicfile.WriteFile(filepath.Join(s.dir, placeFile), text, 0o600); err != nil {
		return err
	}
	for len(s.files) > 1 && s.files[0] < s.sent.File {
		if err := os.Remove(s.name(s.files[0])); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		s.files = s.files[1:]
	}
	return nil
}

// waiting returns how many bytes are not known to be received.
func (s *backlog) waiting() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := s.size - s.sent.Offset
	for _, n := range s.files[:len(s.files)-1] {
		if n < s.sent.File {
			continue
		}
		if info, err := os.Stat(s.name(n)); err == nil {
			waiting += info.Size()
		}
	}
	return max(0, waiting)
}

// close implements output.
func (s *backlog) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return nil
	}
	return s.open.Close()
}
