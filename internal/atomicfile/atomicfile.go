// Package atomicfile writes files that appear whole or not at all, and temporary files that
// leave nothing behind.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// Write has write fill a new file in the folder of path and puts it in the place of path,
// which need not exist; its folder must. A reader of path finds either the old file or the
// new one, whole, even after a crash of the process or the machine. Once Write has returned
// nil, it is the new one, even after a loss of power: both the content and the folder are on
// disk. The file has exactly the given mode, regardless of the umask and of the old file's
// mode; until it is whole, only its owner can read it.
//
// An error of write is returned unchanged. After an error the old file is untouched and
// nothing is left of the new one, unless the error says that the file is in its place. If
// several calls write one path concurrently, the last one to return wins.
func Write(path string, mode fs.FileMode, write func(file *os.File) error) (err error) {
	folder, name := filepath.Split(path)
	folder = filepath.Clean(folder)
	file, err := os.CreateTemp(folder, "."+name+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if file != nil {
			file.Close()
			_ = os.Remove(file.Name())
		}
	}()
	if err := write(file); err != nil {
		return err
	}
	if err := errors.Join(file.Chmod(mode), file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	file = nil
	if err := syncFolder(folder); err != nil {
		return fmt.Errorf("%s is in its place and may not be there after a loss of power: %w", path, err)
	}
	return nil
}

// WriteFile is Write for content that is in memory, as os.WriteFile.
func WriteFile(path string, content []byte, mode fs.FileMode) error {
	return Write(path, mode, func(file *os.File) error {
		_, err := file.Write(content)
		return err
	})
}

// syncFolder makes the renaming of a file in a folder last.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// RemoveLeftovers removes what a Write of path left that was killed with its process. No
// other Write of path may run at the same time. It removes what it can: a leftover is only
// room.
func RemoveLeftovers(path string) {
	folder, name := filepath.Split(path)
	files, err := os.ReadDir(filepath.Clean(folder))
	if err != nil {
		return
	}
	leftover := Leftovers(regexp.QuoteMeta(name))
	for _, f := range files {
		if f.Type().IsRegular() && leftover.MatchString(f.Name()) {
			_ = os.Remove(filepath.Join(folder, f.Name()))
		}
	}
}

// Leftovers returns a pattern for temporary files that an interrupted Write left behind. pattern
// matches the names of the files that were written.
func Leftovers(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`^\.(?:` + pattern + `)-[0-9]+$`)
}

// Unnamed opens a temporary file that has no name any more: its room is free again when it
// is closed or its process ends, however it ends. Only the process can read it.
func Unnamed() (*os.File, error) {
	file, err := os.CreateTemp("", "stint-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
