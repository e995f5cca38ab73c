package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/stint-dev/stint/internal/filelock"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// dataDir is the folder of an embedded node, locked by one process: two nodes with one folder
// would each allow the whole limit.
type dataDir struct {
	path string
	lock *os.File
}

// openDataDir creates and locks the folder. Only its owner can read it, because it
// contains hashes, sessions and keys. Its errors are one line each.
func openDataDir(path string) (*dataDir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	if err := restrictFolder(path); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, db.FolderLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	if err := filelock.Lock(lock); err != nil {
		lock.Close()
		if errors.Is(err, filelock.ErrLocked) {
			return nil, fmt.Errorf("--data-dir %s is %w; give this one its own, or share Redis and Postgres to run several", path, db.ErrInUse)
		}
		return nil, fmt.Errorf("--data-dir %s cannot be locked: %w", path, err)
	}
	d := &dataDir{path, lock}
	d.removeLeftovers()
	if err := d.protect(); err != nil {
		lock.Close()
		return nil, err
	}
	return d, nil
}

// restrictFolder removes the access of other users. It changes only a folder that is empty or
// Stint's own: in another folder, other users may need their access.
func restrictFolder(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	own := len(entries) == 0
	for _, entry := range entries {
		own = own || entry.Name() == databaseFile
	}
	if !own || info.Mode()&os.ModeSticky != 0 {
		return fmt.Errorf("--data-dir %s is open to other users (mode %04o) and holds files that are not Stint's; name a folder of its own, for example %s", path, info.Mode().Perm(), filepath.Join(path, "stint"))
	}
	if err := os.Chmod(path, 0o700); err != nil {
		return fmt.Errorf("--data-dir %s is open to other users (mode %04o) and that cannot be changed (%s); name a folder of its own, for example %s", path, info.Mode().Perm(), oneLine(err), filepath.Join(path, "stint"))
	}
	return nil
}

// protect removes the access of other users to Stint's files, since SQLite creates them with
// the umask of the process.
func (d *dataDir) protect() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		own := name == db.FolderLock || strings.HasPrefix(name, databaseFile) || strings.HasPrefix(name, snapshotFile) || strings.HasPrefix(name, ".stint-")
		info, err := entry.Info()
		if !own || err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 == 0 {
			continue // also if the file has been deleted
		}
		if err := os.Chmod(filepath.Join(d.path, name), 0o600); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("--data-dir: %s can be read by other users (mode %04o) and that cannot be changed: %s", name, info.Mode().Perm(), oneLine(err))
		}
	}
	return nil
}

// leftover matches the names of what backups and restores make in the folder while they run: copies
// of the database.
var leftover = regexp.MustCompile(`^\.stint-(backup|restore|reference)-[0-9]+(-wal|-shm|-journal)?$`)

// removeLeftovers removes what a process that was killed during a backup or a restore left. Nobody
// else works in the folder, which is locked. It removes what it can: a leftover is only room.
func (d *dataDir) removeLeftovers() {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if leftover.MatchString(entry.Name()) {
			_ = os.RemoveAll(filepath.Join(d.path, entry.Name()))
		}
	}
}

const (
	databaseFile = "stint.db"
	snapshotFile = "logs.snapshot"
)

func (d *dataDir) database() string { return filepath.Join(d.path, databaseFile) }
func (d *dataDir) snapshot() string { return filepath.Join(d.path, snapshotFile) }

func (d *dataDir) close() { d.lock.Close() }
