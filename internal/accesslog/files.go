package accesslog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
)

// Files reads several logs together, each with its own format: the next request is the one with
// the earliest time among the next ones of all logs. Sort brings those of each log into the order
// of time too. Only Progress may be called by another goroutine than the one that reads.
type Files struct {
	paths   []string
	options Options
	size    int64
	read    atomic.Int64
	open    []*logFile // of which a request is at hand
	waiting []*logFile // that begin later, by the time of their first request
	counts  Counts     // of the files that are finished
	// Opened, if not nil, is called with the path and the parser of each log.
	Opened func(path string, parser *LineParser)
}

// logFile is one log.
type logFile struct {
	path   string
	from   io.ReadCloser
	reader *Reader
	next   Record
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

// Next returns the next request.
func (f *Files) Next() (Record, error) {
	if len(f.paths) > 0 {
		paths := f.paths
		f.paths = nil
		for _, path := range paths {
			if err := f.look(path); err != nil {
				return Record{}, err
			}
		}
		slices.SortStableFunc(f.waiting, func(a, b *logFile) int { return cmp.Compare(a.next.Time, b.next.Time) })
	}
	first := f.first()
	for len(f.waiting) > 0 && (first < 0 || f.waiting[0].next.Time < f.open[first].next.Time) {
		l := f.waiting[0]
		f.waiting = f.waiting[1:]
		if err := f.begin(l, &f.read); err != nil {
			return Record{}, err
		}
		f.open = append(f.open, l)
		if err := f.advance(len(f.open) - 1); err != nil {
			return Record{}, err
		}
		first = f.first()
	}
	if first < 0 {
		return Record{}, io.EOF
	}
	record := f.open[first].next
	return record, f.advance(first)
}

// first returns the place in f.open of the log with the earliest next request, -1 if there is none.
func (f *Files) first() int {
	first := -1
	for i, l := range f.open {
		if first < 0 || l.next.Time < f.open[first].next.Time {
			first = i
		}
	}
	return first
}

// look reads the first request of a log. A log that can be read again is closed until its time
// comes, so that few are open at a time.
func (f *Files) look(path string) error {
	l := &logFile{path: path}
	info, err := os.Stat(path)
	isFile := path != "-" && err == nil && info.Mode().IsRegular()
	into := &f.read
	if isFile {
		into = new(atomic.Int64)
	}
	if err := f.begin(l, into); err != nil {
		return err
	}
	if f.Opened != nil {
		f.Opened(path, l.reader.Parser())
	}
	if l.next, err = l.reader.Next(); errors.Is(err, io.EOF) || err == nil && !isFile {
		if isFile {
			f.read.Add(into.Load())
		}
		f.open = append(f.open, l)
		if err != nil {
			return f.finish(len(f.open) - 1)
		}
		return nil
	}
	if err = errors.Join(err, l.from.Close()); err != nil {
		return err
	}
	l.from, l.reader = nil, nil
	f.waiting = append(f.waiting, l)
	return nil
}

// begin opens a log.
func (f *Files) begin(l *logFile, read *atomic.Int64) error {
	from, err := f.options.open(l.path)
	if err != nil {
		return err
	}
	reader, err := NewReader(&counted{from, read}, l.path, f.options)
	if err != nil {
		return errors.Join(err, from.Close())
	}
	l.from, l.reader = from, reader
	return nil
}

// advance reads the next request of an open log.
func (f *Files) advance(at int) (err error) {
	l := f.open[at]
	if l.next, err = l.reader.Next(); errors.Is(err, io.EOF) {
		return f.finish(at)
	}
	return err
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

func (f *Files) finish(at int) error {
	l := f.open[at]
	f.counts = f.counts.plus(l.reader)
	f.open = slices.Delete(f.open, at, at+1)
	return l.from.Close()
}

// Counts returns the counts of all files so far.
func (f *Files) Counts() Counts {
	sum := f.counts
	for _, l := range f.open {
		sum = sum.plus(l.reader)
	}
	return sum
}

// plus returns the sum with the counts of r.
func (t Counts) plus(r *Reader) Counts {
	part := r.Counts()
	t.Lines += part.Lines
	t.Records += part.Records
	t.Bad += part.Bad
	t.Skipped += part.Skipped
	t.Warnings = slices.Concat(t.Warnings, part.Warnings)
	rest := max(r.maxBad-len(t.First), 0)
	t.First = append(t.First[:len(t.First):len(t.First)], part.First[:min(rest, len(part.First))]...)
	return t
}

// Progress returns how many bytes of the files, as they are stored, were read,
// and how many there are; 0 of those when a file's size is not known.
func (f *Files) Progress() (read, total int64) { return f.read.Load(), f.size }

// Close closes the files that are being read.
func (f *Files) Close() error {
	f.paths, f.waiting = nil, nil
	var err error
	for len(f.open) > 0 {
		err = errors.Join(err, f.finish(0))
	}
	return err
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
