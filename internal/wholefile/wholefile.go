// Package wholefile reads files whole, up to a bound: a device, or a file that was named by
// mistake, must not take all memory.
package wholefile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// MaxText bounds the files that people write or administer, such as settings and certificates.
const MaxText = 1 << 20

// Read returns the content of the file at path. It fails, in one line that names the bound, if
// the file has more than limit bytes, and reads hardly more of it than that.
func Read(path string, limit int) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ReadFrom(file, path, limit)
}

// ReadRegular is Read for a regular file only; see OpenRegular.
func ReadRegular(path string, limit int) ([]byte, error) {
	file, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ReadFrom(file, path, limit)
}

// ErrNotRegular is the cause of OpenRegular's error for anything but a regular file.
var ErrNotRegular = errors.New("is not a regular file")

// OpenRegular opens a regular file for reading. It fails for a pipe, which another program can
// hold up for ever, without waiting for a writer.
func OpenRegular(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s %w", path, ErrNotRegular)
	}
	if err != nil {
		_ = file.Close() // nothing was read
		return nil, err
	}
	return file, nil
}

// ReadFrom is Read for a reader. It returns errors of the reader unchanged; others contain name.
func ReadFrom(from io.Reader, name string, limit int) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(text) > limit {
		return nil, fmt.Errorf("%s is larger than %s", name, size(limit))
	}
	return text, nil
}

func size(limit int) string {
	switch {
	case limit >= 1<<20:
		return fmt.Sprintf("%d MiB", limit>>20)
	case limit >= 1<<10:
		return fmt.Sprintf("%d KiB", limit>>10)
	}
	return fmt.Sprintf("%d bytes", limit)
}
