package memlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/stint-dev/stint/internal/atomicfile"
)

// SaveFile writes a snapshot to path as atomicfile.Write does. Two calls for the same path must
// not run at the same time.
func (l *Log) SaveFile(path string) error {
	if err := atomicfile.Write(path, 0o600, func(file *os.File) error { return l.Save(file) }); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	return nil
}

// LoadFile adds the logs of the snapshot at path, as Load does. A file that does not exist is
// not an error: it is the first start. LoadFile removes the temporary files of a SaveFile whose
// process was killed, so no SaveFile of path may run at the same time.
func (l *Log) LoadFile(path string) error {
	atomicfile.RemoveLeftovers(path)
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
