package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// dataDir is the embedded default's folder, locked for one process: two nodes
// on one folder would each allow the whole limit.
type dataDir struct {
	path string
	lock *os.File
}

// openDataDir creates and locks the folder. Its errors are one line each.
func openDataDir(path string) (*dataDir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	// The lock goes with the process, however it ends.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("--data-dir %s is in use by another Stint; give this one its own, or share Redis and Postgres to run several", path)
		}
		return nil, fmt.Errorf("--data-dir %s cannot be locked: %w", path, err)
	}
	return &dataDir{path, lock}, nil
}

func (d *dataDir) database() string { return filepath.Join(d.path, "stint.db") }
func (d *dataDir) snapshot() string { return filepath.Join(d.path, "logs.snapshot") }

func (d *dataDir) close() { d.lock.Close() }
