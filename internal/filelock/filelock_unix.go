//go:build unix

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// Lock locks a file for this process until it is closed, however the process ends. It does
// not wait: the error is ErrLocked if the file is locked, also where this process did so by
// opening it another time.
func Lock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
