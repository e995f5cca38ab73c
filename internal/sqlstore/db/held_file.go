package db

import (
	"errors"
	"os"
	"sync"
)

// errMoved says that the path of an SQLite database no longer names the file that is open.
var errMoved = errors.New("the file that is open is no longer at its path")

// heldFile is the file that an SQLite database has open. SQLite goes on writing to a file
// that was deleted or replaced, and what it writes there is gone with the process. The zero
// value knows no file yet.
type heldFile struct {
	mu   sync.Mutex
	file os.FileInfo // as it was first seen, nil before
}

// CheckHeld returns an Unavailable fault once the file of an SQLite database was deleted or
// replaced. It stays readable, and every change of it has the same error.
func CheckHeld(s *DB) error {
	if err := s.held.check(s.place); err != nil {
		return unavailable(err, messages[moved])
	}
	return nil
}

// check returns errMoved once a place has another file than at the first call, or none.
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
	return nil // what else keeps it from being looked at, SQLite says
}
