package memlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// SaveFile writes a snapshot to path so that a crash at any moment leaves
// either the old file or the new one, whole. Two calls for one path must not
// run at the same time.
func (l *Log) SaveFile(path string) error {
	temporary := path + ".tmp"
	if err := l.writeFile(temporary); err != nil {
		return errors.Join(err, removeIfThere(temporary))
	}
	if err := os.Rename(temporary, path); err != nil {
		return errors.Join(fmt.Errorf("put the snapshot in place: %w", err), removeIfThere(temporary))
	}
	return syncDirectory(filepath.Dir(path))
}

func (l *Log) writeFile(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("create the snapshot: %w", err)
	}
	if err := l.Save(file); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := file.Sync(); err != nil {
		return errors.Join(fmt.Errorf("write the snapshot to disk: %w", err), file.Close())
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("write the snapshot to disk: %w", err)
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// syncDirectory makes the renaming of a file in a directory last.
func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("write the snapshot's directory to disk: %w", err)
	}
	if err := directory.Sync(); err != nil {
		return errors.Join(fmt.Errorf("write the snapshot's directory to disk: %w", err), directory.Close())
	}
	return directory.Close()
}

// LoadFile adds the logs of the snapshot at path, as Load does. A file that
// does not exist is no error: it is the first start.
func (l *Log) LoadFile(path string) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the snapshot: %w", err)
	}
	if err := errors.Join(l.Load(file), file.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
