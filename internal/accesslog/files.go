package accesslog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
)

// Files reads several logs one after another, each with its own format. Sort
// brings their requests into the order of time. Only Progress may be called
// by another goroutine than the one that reads.
type Files struct {
	paths   []string
	options Options
	size    int64
	read    atomic.Int64
	open    io.ReadCloser
	reader  *Reader
	counts  Counts // of the files that are finished
}

// OpenFiles returns the requests of the logs at paths, "-" being the standard
// input. It fails at once on a file that cannot be opened, and on one that is named twice, also
// by a link, whose requests would count twice. What a file holds is only seen when it is read.
func OpenFiles(paths []string, o Options) (*Files, error) {
	if len(paths) == 0 {
		return nil, errors.New("no log is named; give the path of at least one")
	}
	f := &Files{paths: paths, options: o}
	var before []os.FileInfo
	for i, path := range paths {
		size, err := sizeOf(path)
		if err != nil {
			return nil, err
		}
		f.size += size
		info, err := os.Stat(path)
		if path == "-" || err != nil {
			info = nil
		}
		if at := slices.IndexFunc(before, func(other os.FileInfo) bool { return os.SameFile(info, other) }); at >= 0 && info.Mode().IsRegular() {
			return nil, &InputError{fmt.Errorf("%q and %q are the same file; name it once", paths[at], paths[i])}
		}
		before = append(before, info)
	}
	return f, nil
}

// sizeOf makes sure that path can be read and returns its size, 0 for what has
// none. It opens no pipe: its writer would take that for the reader.
func sizeOf(path string) (int64, error) {
	if path == "-" {
		return 0, nil
	}
	if named, err := os.Stat(path); err == nil && named.Mode()&os.ModeNamedPipe != 0 {
		return 0, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	info, err := file.Stat()
	switch {
	case err != nil:
		return 0, err
	case info.IsDir():
		return 0, &InputError{fmt.Errorf("%q is a folder; name the log files in it", path)}
	case !info.Mode().IsRegular():
		return 0, nil
	}
	return info.Size(), nil
}

// Next returns the next request of the file at hand or else of the next one.
func (f *Files) Next() (Record, error) {
	for {
		if f.reader == nil {
			if len(f.paths) == 0 {
				return Record{}, io.EOF
			}
			if err := f.openNext(); err != nil {
				return Record{}, err
			}
		}
		record, err := f.reader.Next()
		if !errors.Is(err, io.EOF) {
			return record, err
		}
		if err := f.finish(); err != nil {
			return Record{}, err
		}
	}
}

func (f *Files) openNext() error {
	path := f.paths[0]
	f.paths = f.paths[1:]
	file, err := f.options.open(path)
	if err != nil {
		return err
	}
	reader, err := NewReader(&counted{file, &f.read}, path, f.options)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.open, f.reader = file, reader
	return nil
}

// open opens a log by its path.
func (o *Options) open(path string) (io.ReadCloser, error) {
	switch {
	case o.Open != nil:
		return o.Open(path)
	case path == "-":
		return os.Stdin, nil
	}
	return os.Open(path)
}

func (f *Files) finish() error {
	f.counts = f.Counts()
	f.reader = nil
	err := f.open.Close()
	f.open = nil
	return err
}

// Counts returns the counts of all files so far.
func (f *Files) Counts() Counts {
	if f.reader == nil {
		return f.counts
	}
	sum, part := f.counts, f.reader.Counts()
	sum.Lines += part.Lines
	sum.Records += part.Records
	sum.Bad += part.Bad
	sum.Warnings = slices.Concat(sum.Warnings, part.Warnings)
	rest := max(f.reader.maxBad-len(sum.First), 0)
	sum.First = append(sum.First[:len(sum.First):len(sum.First)], part.First[:min(rest, len(part.First))]...)
	return sum
}

// Progress returns how many bytes of the files, as they are stored, were read,
// and how many there are; 0 of those when a file's size is not known.
func (f *Files) Progress() (read, total int64) { return f.read.Load(), f.size }

// Close closes the file that is being read.
func (f *Files) Close() error {
	f.paths = nil
	if f.open == nil {
		return nil
	}
	return f.finish()
}

// counted counts what is read through it.
type counted struct {
	in io.Reader
	n  *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n.Add(int64(n))
	return n, err
}
