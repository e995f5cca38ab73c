package db

import (
	"errors"
	"os"
	"sync"
)

// errMoved means that the path of an SQLite database no longer names the open file.
var errMoved = errors.New("the file that is open is no longer at its path")

// heldFile is the file that an SQLite database has open. SQLite continues to write to a file
// that was deleted or replaced, and those writes are lost when the process ends. The zero value
// knows no file yet.
type heldFile struct {
	mu   sync.Mutex
	file os.FileInfo // as first seen, nil before
}

// CheckHeld returns an Unavailable fault after the file of an SQLite database was deleted or
// replaced. Reading still works, but every change returns the same error.
func CheckHeld(s *DB) error {
	if err := s.held.check(s.place); err != nil {
		return unavailable(err, messages[moved])
	}
	return nil
}

// check returns errMoved if a place has no file, or another file than at the first call.
func (h *heldFile) check(place location) error {
	if place.dialect != &sqlite {
		return nil
	}
	now, err := os.Stat(place.target)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil && h.file == nil:
		h.file = now
	case errors.Is(err, os.ErrNotExist) && h.file != nil, err == nil && !os.SameFile(h.file, now):
		return errMoved
	}
	return nil // SQLite itself reports other errors
}
