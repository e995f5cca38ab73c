package accesslog

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unsafe"

	"github.com/stint-dev/stint/internal/keys"
)

// SortOptions say where Sort may keep what. The zero value is usable.
type SortOptions struct {
	// Memory is about how many bytes of records are held before they go to a
	// temporary file. 0 means 64 MiB.
	Memory int64
	// Dir is the folder of the temporary file, "" the system's.
	Dir string
	// Keys must be the parser that made the records' keys.
	Keys keys.Parser
}

// sharedText is how many bytes of a record's texts are not counted. Most texts are short, or
// shared with other records.
const sharedText = 256

// longTexts returns how much more memory the texts of a record take.
func longTexts(r *Record) int64 {
	size := -sharedText
	for _, text := range r.texts() {
		size += len(*text)
	}
	return int64(max(size, 0))
}

// entrySize is what one held record takes: itself and its place in the order.
const entrySize = int64(unsafe.Sizeof(Record{}) + unsafe.Sizeof(place{}))

func (o SortOptions) memory() int64 {
	if o.Memory <= 0 {
		return 64 << 20
	}
	return o.Memory
}

// capacity returns how many records a run holds at most.
func (o SortOptions) capacity() int { return int(max(o.memory()/entrySize, 16)) }

// Sorted is a Source in the order of time.
type Sorted struct {
	length, outOfOrder int64
	next               func() (Record, error)
	file               *os.File // nil when nothing was spilled
}

// Sort reads src to its end and returns its records by time, those of one
// instant in the order in which src had them. The caller closes the result.
func Sort(ctx context.Context, src Source, o SortOptions) (*Sorted, error) {
	s := &sorter{options: o, capacity: o.capacity()}
	sorted, err := s.sort(ctx, src)
	if err != nil {
		return nil, errors.Join(err, s.spill.close())
	}
	return sorted, nil
}

// Len returns the number of records.
func (s *Sorted) Len() int64 { return s.length }

// OutOfOrder returns how many records were older than the one before them.
func (s *Sorted) OutOfOrder() int64 { return s.outOfOrder }

// Spilled reports whether a temporary file was needed.
func (s *Sorted) Spilled() bool { return s.file != nil }

// Next returns the next record; io.EOF follows the last.
func (s *Sorted) Next() (Record, error) { return s.next() }

// Close removes the temporary file.
func (s *Sorted) Close() error {
	s.next = func() (Record, error) { return Record{}, io.EOF }
	return closeAndRemove(s.file)
}

// sorter collects records into runs that fit its memory.
type sorter struct {
	options    SortOptions
	capacity   int
	run        []Record
	long       int64 // longTexts of the records of the run
	order      []place
	inOrder    bool // of the run at hand
	outOfOrder int64
	length     int64
	spill      spill
}

// place is the position of a record in its run, with its time. No two are equal, so any
// sort of places is stable for the records.
type place struct {
	time int64
	at   int
}

// checkEvery is after how many records a cancelled context is noticed.
const checkEvery = 1 << 12

func (s *sorter) sort(ctx context.Context, src Source) (*Sorted, error) {
	s.inOrder = true
	latest := int64(-1 << 63)
	for {
		if s.length%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		record, err := src.Next()
		if errors.Is(err, io.EOF) {
			return s.finish()
		}
		if err != nil {
			return nil, err
		}
		if len(s.run) == s.capacity || s.long > s.options.memory() {
			if err := s.spillRun(); err != nil {
				return nil, err
			}
		}
		if record.Time < latest {
			s.outOfOrder++
			s.inOrder = false
		}
		latest = record.Time
		s.length++
		s.run = append(s.run, record)
		s.long += longTexts(&record)
	}
}

func (s *sorter) finish() (*Sorted, error) {
	sorted := &Sorted{length: s.length, outOfOrder: s.outOfOrder}
	if s.spill.file == nil {
		sorted.next = s.emit()
		return sorted, nil
	}
	if err := s.spillRun(); err != nil {
		return nil, err
	}
	s.run, s.order = nil, nil
	merge, err := s.spill.merge(s.options)
	if err != nil {
		return nil, err
	}
	sorted.next, sorted.file = merge.next, s.spill.file
	return sorted, nil
}

// emit returns the run at hand in order.
func (s *sorter) emit() func() (Record, error) {
	run, i := s.run, 0
	if s.inOrder {
		return Slice(run).Next
	}
	order := s.sortRun()
	return func() (Record, error) {
		if i == len(order) {
			return Record{}, io.EOF
		}
		i++
		return run[order[i-1].at], nil
	}
}

func (s *sorter) sortRun() []place {
	s.order = s.order[:0]
	for at, record := range s.run {
		s.order = append(s.order, place{record.Time, at})
	}
	slices.SortFunc(s.order, func(a, b place) int {
		if a.time != b.time {
			return cmp.Compare(a.time, b.time)
		}
		return a.at - b.at
	})
	return s.order
}

func (s *sorter) spillRun() error {
	next := s.emit()
	if err := s.spill.write(s.options.Dir, next); err != nil {
		return fmt.Errorf("sort in a temporary file: %w", err)
	}
	clear(s.run) // it would keep the texts
	s.run, s.long, s.inOrder = s.run[:0], 0, true
	return nil
}

func closeAndRemove(file *os.File) error {
	if file == nil {
		return nil
	}
	err := file.Close()
	if errors.Is(err, os.ErrClosed) {
		err = nil
	}
	// Where open files can be removed it is gone already.
	if removed := os.Remove(file.Name()); removed != nil && !errors.Is(removed, os.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}

// spill is one temporary file of runs, each in order, one behind another.
type spill struct {
	file *os.File
	ends []int64 // where each run ends
}

func (s *spill) close() error { return closeAndRemove(s.file) }

func (s *spill) write(dir string, next func() (Record, error)) (err error) {
	if s.file == nil {
		if s.file, err = os.CreateTemp(dir, "stint-sort-*"); err != nil {
			return err
		}
		// A process that is killed then leaves nothing behind. Some systems
		// refuse to remove an open file; closeAndRemove does it there.
		_ = os.Remove(s.file.Name())
	}
	out := bufio.NewWriterSize(s.file, 1<<16)
	var length int64
	var b []byte
	for {
		record, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		b = appendRecord(b[:0], record)
		length += int64(len(b))
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
	start := int64(0)
	if n := len(s.ends); n > 0 {
		start = s.ends[n-1]
	}
	s.ends = append(s.ends, start+length)
	return out.Flush()
}
