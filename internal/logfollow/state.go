package logfollow

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/atomicfile"
	"github.com/stint-dev/stint/internal/filelock"
)

// state is the content of the state file: what has been checked of each log.
type state struct {
	Version int `json:"version"`
	// SavedAt is when the file was written.
	SavedAt time.Time            `json:"saved_at"`
	Logs    map[string]*logState `json:"logs"` // by absolute path
	// Site is what the answers have shown of the site, nil if nothing was learned.
	Site *answers.SiteState `json:"site,omitempty"`
}

// logState is the position in one log, with the files that it was rotated to and that
// were not read to their ends.
type logState struct {
	// LookedAt is when the last look at which files there are began: those that were written
	// since may have come and gone. It is zero where an older version has saved the
	// state; SavedAt is used then.
	LookedAt time.Time   `json:"looked_at,omitzero"`
	Files    []fileState `json:"files"` // the last one is at the path
	// Finished are the files that were read to their ends last, which must not be read
	// again.
	Finished []fileState `json:"finished,omitempty"`
}

// fileState is the position in one file.
type fileState struct {
	Device   uint64 `json:"device"`
	Inode    uint64 `json:"inode"`
	fileHead `json:",inline"`
	// ID is a part of the idempotency keys of its lines.
	ID string `json:"id"`
	// Offset is where the first line begins that was not checked.
	Offset int64 `json:"offset"`
	// SendingTo is where the lines that are being sent end, 0 if none is.
	SendingTo int64 `json:"sending_to,omitzero"`
	// SentAt is when those that are not listed may first have been sent.
	SentAt time.Time `json:"sent_at,omitzero"`
	// ListedTo is the offset before which only the lines in Pending are not settled. It is
	// used after some of the lines were answered.
	ListedTo int64         `json:"listed_to,omitzero"`
	Pending  []pendingLine `json:"pending,omitempty"` // by ascending offset
	// LastTime is the time in the last line that was checked.
	LastTime time.Time `json:"last_time,omitzero"`
}

// pendingLine is a line that was read and not answered completely.
type pendingLine struct {
	Start int64 `json:"start"` // its offset
	// SentAt is when a part of it may first have been sent; zero says that none was.
	SentAt time.Time `json:"sent_at,omitzero"`
	// IsChecked says that only its outcomes are still to be reported.
	IsChecked bool `json:"is_checked,omitzero"`
}

const (
	// lockWait is how long a process that ends may hold the lock.
	lockWait = time.Second

	stateVersion = 1
	maxState     = 16 << 20 // bytes
	headLength   = 1 << 10  // bytes
)

// fileHead is the length and the SHA-256 of the beginning of a file, by which it is
// recognised after it was compressed or copied.
type fileHead struct {
	HeadLength int    `json:"head_length"`
	HeadHash   string `json:"head_sha256"`
}

// maxFinished is how many finished files of a log are remembered.
const maxFinished = 32

func headOf(head []byte) fileHead { return fileHead{len(head), hashOf(head)} }

// isValid reports whether f was made by headOf.
func (f *fileHead) isValid() bool {
	return f.HeadLength >= 0 && f.HeadLength <= headLength && len(f.HeadHash) == 2*sha256.Size
}

// begins reports whether a file that begins with head may be the saved one.
func (f *fileHead) begins(head []byte) bool {
	return len(head) >= f.HeadLength && hashOf(head[:f.HeadLength]) == f.HeadHash
}

func hashOf(head []byte) string {
	sum := sha256.Sum256(head)
	return hex.EncodeToString(sum[:])
}

// check returns an error for what no state file holds.
func (f *fileState) check() error {
	switch {
	case !f.isValid():
		return errors.New("the beginning of the file is impossible")
	case f.Offset < 0 || f.SendingTo < 0 || f.SendingTo > 0 && f.SendingTo < f.Offset:
		return errors.New("the offsets are impossible")
	case f.ListedTo < 0 || f.ListedTo > max(f.Offset, f.SendingTo) || !slices.IsSortedFunc(f.Pending, comparePending):
		return errors.New("the pending lines are impossible")
	case f.SendingTo > max(f.Offset, f.ListedTo) && f.SentAt.IsZero():
		return errors.New("the time of sending is missing")
	case f.ID == "" || len(f.ID) > maxFileID:
		return errors.New("the id is impossible")
	}
	return nil
}

func comparePending(a, b pendingLine) int { return cmp.Compare(a.Start, b.Start) }

// stateFile reads and writes a state. One process may use it at a time.
type stateFile struct {
	path string
	lock *os.File
}

// openState locks the state file at path and reads it. A file that does not exist is
// empty.
func openState(path string) (*stateFile, *state, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, nil, fmt.Errorf("the folder of the state file: %w", err)
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("the state file: %w", err)
	}
	f := &stateFile{path: path, lock: lock}
	err = filelock.Lock(lock)
	for deadline := time.Now().Add(lockWait); err != nil && time.Now().Before(deadline); err = filelock.Lock(lock) {
		time.Sleep(lockWait / 20)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("the state file %q cannot be locked: %w; two processes need two state files", path, err), lock.Close())
	}
	atomicfile.RemoveLeftovers(path)
	s, err := readState(path)
	if err != nil {
		return nil, nil, errors.Join(err, lock.Close())
	}
	return f, s, nil
}

// readState reads a state file without locking it.
func readState(path string) (*state, error) {
	empty := &state{Version: stateVersion, Logs: map[string]*logState{}}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the state file: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxState+1))
	if err != nil {
		return nil, fmt.Errorf("the state file %q: %w", path, err)
	}
	s := &state{}
	err = json.Unmarshal(text, s)
	switch {
	case len(text) > maxState:
		err = fmt.Errorf("it is larger than %d bytes", maxState)
	case err != nil:
	case s.Version != stateVersion:
		err = fmt.Errorf("its version is %d, not %d", s.Version, stateVersion)
	default:
		err = s.check()
	}
	if err != nil {
		return nil, damagedState(path, err)
	}
	if s.Logs == nil {
		s.Logs = empty.Logs
	}
	return s, nil
}

func damagedState(path string, err error) error {
	return fmt.Errorf("the state file %q is damaged: %w; delete it, and choose with --from-start or --from-end where to begin", path, err)
}

func (s *state) check() error {
	for path, log := range s.Logs {
		if log == nil {
			return fmt.Errorf("logs[%q] is null", path)
		}
		for i := range log.Finished {
			if err := log.Finished[i].check(); err != nil {
				return fmt.Errorf("logs[%q].finished[%d]: %w", path, i, err)
			}
		}
		for i := range log.Files {
			if err := log.Files[i].check(); err != nil {
				return fmt.Errorf("logs[%q].files[%d]: %w", path, i, err)
			}
		}
	}
	return nil
}

// save replaces the file. After it has returned without an error, the state survives a
// crash of the machine.
func (f *stateFile) save(s *state) error {
	text, err := json.Marshal(s, json.Deterministic(true))
	if err != nil {
		return err
	}
	if err := atomicfile.WriteFile(f.path, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("the state file: %w", err)
	}
	return nil
}

func (f *stateFile) close() { f.lock.Close() }

// sameHead reports whether two files may be the same one by their beginnings, of which
// one may have been read when the file was shorter. Empty ones say nothing.
func sameHead(a, b []byte) bool {
	n := min(len(a), len(b))
	return n > 0 && bytes.Equal(a[:n], b[:n])
}
