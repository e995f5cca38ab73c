package eventlog

import (
	"errors"
	"fmt"
	"os"
	"strconv"
)

// olderFiles is how many files are kept besides the one that is written: path.1 is the newest of them.
const olderFiles = 4

// file writes lines to a file that is renamed when it is full. If another program renames it, as logrotate does, a
// new one is made for the next lines.
type file struct {
	path string
	most int64 // bytes of one file
	open *os.File
	size int64
}

// openFile opens the file of a path. All files together have at most size bytes, and one batch more.
func openFile(path string, size int64) (*file, error) {
	f := &file{path: path, most: size / (olderFiles + 1)}
	return f, f.reopen()
}

func (f *file) reopen() error {
	if f.open != nil {
		f.open.Close()
		f.open = nil
	}
	opened, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	info, err := opened.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", f.path)
	}
	if err != nil {
		return errors.Join(err, opened.Close())
	}
	f.open, f.size = opened, info.Size()
	return nil
}

func (f *file) write(lines []byte) error {
	if err := f.follow(); err != nil {
		return err
	}
	if f.size > 0 && f.size+int64(len(lines)) > f.most {
		if err := f.rotate(); err != nil {
			return err
		}
	}
	n, err := f.open.Write(lines)
	if err != nil && n > 0 && f.open.Truncate(f.size) == nil { // no half lines on a disk that is full
		return err
	}
	f.size += int64(n)
	return err
}

// follow opens another file if the one at its path has changed.
func (f *file) follow() error {
	if f.open == nil {
		return f.reopen()
	}
	there, err := os.Stat(f.path)
	if err != nil {
		return f.reopen()
	}
	ours, err := f.open.Stat()
	if err != nil || !os.SameFile(there, ours) {
		return f.reopen()
	}
	f.size = ours.Size() // it may have been emptied by copytruncate
	return nil
}

func (f *file) rotate() error {
	for n := olderFiles; n > 0; n-- {
		from := f.path
		if n > 1 {
			from += "." + strconv.Itoa(n-1)
		}
		if err := os.Rename(from, f.path+"."+strconv.Itoa(n)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return f.reopen()
}

func (*file) stop()       {}
func (*file) lost() int64 { return 0 }

func (f *file) close() error {
	if f.open == nil {
		return nil
	}
	return f.open.Close()
}
