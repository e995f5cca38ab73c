package accesslog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stint-dev/stint/internal/keys"
)

// appendRecord appends the encoding of a record in a spill: the time, the cost, the
// status, the length of the key and the key, and so the path, the method, the agent and
// the host, all numbers as varints.
func appendRecord(b []byte, r Record) []byte {
	key := FullKey(r.Key)
	b = binary.AppendVarint(b, r.Time)
	b = binary.AppendUvarint(b, uint64(r.Cost))
	b = binary.AppendUvarint(b, uint64(r.Status))
	for _, text := range [...]string{key, r.Path, r.Method, r.Agent, r.Host, r.Account} {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	return b
}

// runReader reads one run of a spill.
type runReader struct {
	in    *bufio.Reader
	keys  *keyCache
	texts *textCache
	text  []byte
	head  Record
}

// advance reads the next record into head.
func (r *runReader) advance() error {
	at, err := binary.ReadVarint(r.in)
	if err != nil {
		return err // io.EOF at the end of the run
	}
	cost, err := binary.ReadUvarint(r.in)
	if err != nil {
		return fmt.Errorf("read the temporary file: %w", err)
	}
	status, err := binary.ReadUvarint(r.in)
	if err != nil {
		return fmt.Errorf("read the temporary file: %w", err)
	}
	if err := r.readText(keys.MaxLength); err != nil {
		return err
	}
	key, err := r.keys.restored(r.text)
	if err != nil {
		return fmt.Errorf("the temporary file was changed by somebody else: %w", err)
	}
	r.head = Record{Time: at, Key: key, Cost: int(cost), Status: int(status)}
	for _, into := range r.head.texts() {
		if err := r.readText(maxText); err != nil {
			return err
		}
		*into = r.texts.of(r.text)
	}
	return nil
}

// readText reads a text and its length into r.text.
func (r *runReader) readText(most uint64) error {
	length, err := binary.ReadUvarint(r.in)
	if err != nil {
		return fmt.Errorf("read the temporary file: %w", err)
	}
	if length > most {
		return fmt.Errorf("the temporary file was changed by somebody else: it has a string of %d bytes", length)
	}
	r.text = slices.Grow(r.text[:0], int(length))[:length]
	if _, err := io.ReadFull(r.in, r.text); err != nil {
		return fmt.Errorf("read the temporary file: %w", err)
	}
	return nil
}

// merge yields the records of several runs by time, those of one instant from
// the earlier run first. The runs stand in a heap under that order.
type merge struct {
	runs []mergeRun
}

type mergeRun struct {
	*runReader
	number int
}

// Bounds of the buffer through which one run is read, in bytes.
const (
	minBuffer = 4 << 10
	maxBuffer = 256 << 10
)

// merge takes about as much memory for its buffers as sorting a run took, but
// at least the smallest buffer for each run.
func (s *spill) merge(o SortOptions) (*merge, error) {
	m := &merge{}
	cache, texts := newKeyCache(o.Keys, wholeKey), &textCache{}
	size := int(min(max(o.memory()/int64(len(s.ends)), minBuffer), maxBuffer))
	start := int64(0)
	for i, end := range s.ends {
		section := io.NewSectionReader(s.file, start, end-start)
		start = end
		run := &runReader{in: bufio.NewReaderSize(section, size), keys: cache, texts: texts}
		switch err := run.advance(); {
		case errors.Is(err, io.EOF):
			continue
		case err != nil:
			return nil, err
		}
		m.runs = append(m.runs, mergeRun{run, i})
	}
	for i := len(m.runs)/2 - 1; i >= 0; i-- {
		m.sink(i)
	}
	return m, nil
}

func (m *merge) next() (Record, error) {
	if len(m.runs) == 0 {
		return Record{}, io.EOF
	}
	first := m.runs[0].head
	switch err := m.runs[0].advance(); {
	case errors.Is(err, io.EOF):
		last := len(m.runs) - 1
		m.runs[0] = m.runs[last]
		m.runs = m.runs[:last]
	case err != nil:
		return Record{}, err
	}
	m.sink(0)
	return first, nil
}

func (m *merge) before(i, j int) bool {
	a, b := m.runs[i], m.runs[j]
	if a.head.Time != b.head.Time {
		return a.head.Time < b.head.Time
	}
	return a.number < b.number
}

// sink moves the run at i down to where it belongs.
func (m *merge) sink(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m.runs); child++ {
			if m.before(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		m.runs[i], m.runs[least] = m.runs[least], m.runs[i]
		i = least
	}
}
