package accesslog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"unsafe"
)

// SortOptions say how much memory Sort takes. The zero value is usable.
type SortOptions struct {
	// Memory is about how many bytes of records are held at a time. 0 means 64 MiB.
	Memory int64
}

// sharedText is how many bytes of a record's texts are not counted. Most texts are short, or
// shared with other records.
const sharedText = 256

// size returns about how much memory a held record takes.
func (r *Record) size() int64 {
	texts := -sharedText
	for _, text := range r.texts() {
		texts += len(*text)
	}
	return int64(unsafe.Sizeof(waiting{})) + int64(max(texts, 0))
}

// Sorted is a Source in the order of time. A record waits in memory until all that can come before
// it have been read, as far as Memory allows.
type Sorted struct {
	ctx    context.Context
	source Source
	memory int64
	// queue holds records in their order, from first on, and held the others as a heap by time
	// and then by number: nearly all records of a log are in order.
	queue       []waiting
	first       int
	held        []waiting
	size        int64 // of queue and held, in bytes
	read        int64
	latestRead  int64
	latest      int64
	outOfOrder  int64
	leftOut     int64
	isExhausted bool
}

// waiting is a record that was read and is not the next one yet.
type waiting struct {
	record Record
	number int64
}

// checkEvery is after how many records a cancelled context is noticed.
const checkEvery = 1 << 12

// Sort returns the records of src by time, records of one instant in the order in which src has
// them. What is older than a record that has been returned, because the two are further apart
// in src than fits into memory, is left out and counted.
func Sort(ctx context.Context, src Source, o SortOptions) *Sorted {
	if o.Memory <= 0 {
		o.Memory = 64 << 20
	}
	return &Sorted{ctx: ctx, source: src, memory: o.Memory, latestRead: -1 << 63, latest: -1 << 63}
}

// OutOfOrder returns how many records so far were older than the one before them.
func (s *Sorted) OutOfOrder() int64 { return s.outOfOrder }

// LeftOut returns how many records so far were left out.
func (s *Sorted) LeftOut() int64 { return s.leftOut }

// Warnings says in lines that are safe to print what was left out.
func (s *Sorted) Warnings() []string {
	if s.leftOut == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d requests were left out: they are older than others by more lines than can be held in memory; sort the logs by time, or name fewer at once", s.leftOut)}
}

// Next returns the next record; io.EOF follows the last.
func (s *Sorted) Next() (Record, error) {
	for !s.isExhausted && s.size < s.memory {
		if s.read%checkEvery == 0 && s.ctx.Err() != nil {
			return Record{}, s.ctx.Err()
		}
		record, err := s.source.Next()
		if errors.Is(err, io.EOF) {
			s.isExhausted = true
			break
		}
		if err != nil {
			return Record{}, err
		}
		if s.read++; record.Time < s.latestRead {
			s.outOfOrder++
		}
		s.latestRead = record.Time
		if record.Time < s.latest {
			s.leftOut++
			continue
		}
		s.add(waiting{record, s.read})
	}
	var next *waiting
	if s.first < len(s.queue) {
		next = &s.queue[s.first]
	}
	if len(s.held) > 0 && (next == nil || s.held[0].isBefore(next)) {
		s.latest = s.held[0].record.Time
		return s.pop(), nil
	}
	if next == nil {
		return Record{}, io.EOF
	}
	record := next.record
	*next = waiting{} // it would keep the texts
	s.size -= record.size()
	s.latest = record.Time
	if s.first++; s.first > len(s.queue)/2 && s.first >= checkEvery {
		s.queue = append(s.queue[:0], s.queue[s.first:]...)
		s.first = 0
	}
	return record, nil
}

// add adds a record to those that wait.
func (s *Sorted) add(w waiting) {
	s.size += w.record.size()
	if n := len(s.queue); n == s.first || w.record.Time >= s.queue[n-1].record.Time {
		s.queue = append(s.queue, w)
		return
	}
	s.push(w)
}

func (s *Sorted) push(w waiting) {
	s.held = append(s.held, w)
	for i := len(s.held) - 1; i > 0; {
		parent := (i - 1) / 2
		if !s.held[i].isBefore(&s.held[parent]) {
			return
		}
		s.held[i], s.held[parent] = s.held[parent], s.held[i]
		i = parent
	}
}

func (s *Sorted) pop() Record {
	first, last := s.held[0].record, len(s.held)-1
	s.size -= first.size()
	s.held[0] = s.held[last]
	s.held[last] = waiting{} // it would keep the texts
	s.held = s.held[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s.held); child++ {
			if s.held[child].isBefore(&s.held[least]) {
				least = child
			}
		}
		if least == i {
			return first
		}
		s.held[i], s.held[least] = s.held[least], s.held[i]
		i = least
	}
}

func (w *waiting) isBefore(other *waiting) bool {
	if w.record.Time != other.record.Time {
		return w.record.Time < other.record.Time
	}
	return w.number < other.number
}
