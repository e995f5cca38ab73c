package offenders

import (
	"sync"

	"github.com/axiomhq/hyperloglog"
)

// distinctPrecision is the sketches': 2^12 registers of a byte.
const distinctPrecision = 12

// DistinctError is the standard error of a number of distinct keys, as a
// share: 1.04/sqrt(2^12). Two in three estimates are nearer than this.
const DistinctError = 0.01625

// distinctMinutes holds a sketch of the keys of every open minute and policy.
type distinctMinutes struct {
	mu      sync.Mutex
	minutes map[totalsID]*sketch
	drains  int
}

// A sketch whose minute goes on is handed over when it has grown by a
// sketchGrowth-th since the last time, so that the guard of an escalation knows the
// keys of an attack as soon as the attack, and else at every sketchEvery-th
// drain: it is large, and nothing else needs it to the second.
const (
	sketchGrowth = 8
	sketchEvery  = 10
)

type sketch struct {
	*hyperloglog.Sketch
	added int64 // keys since it was handed over, some perhaps twice
	given int64 // keys before
}

// due reports whether the sketch is worth handing over.
func (s *sketch) due(anyhow bool) bool {
	return s.added > 0 && (anyhow || s.added*sketchGrowth >= s.given)
}

func newSketch() *hyperloglog.Sketch {
	s, err := hyperloglog.NewSketch(distinctPrecision, false)
	if err != nil { // only for a precision out of range
		panic(err)
	}
	return s
}

func (d *distinctMinutes) add(minute, policy int64, hash uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := totalsID{minute, policy}
	s, known := d.minutes[id]
	if !known {
		s = &sketch{Sketch: newSketch()}
		d.minutes[id] = s
	}
	s.InsertHash(hash)
	s.added++
}

// drain hands over the sketches that changed. They are whole each time: the
// database keeps the newest of a node, and merges nodes when it is read.
func (d *distinctMinutes) drain(g *gathering, node string, closed int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drains++
	reservation := d.drains%sketchEvery == 0
	for id, s := range d.minutes {
		if s.due(reservation || id.minute < closed) {
			if data, err := s.MarshalBinary(); err == nil {
				g.addDistinct(DistinctKeys{Minute: id.minute, Policy: id.policy, Node: node, Sketch: data})
				s.given += s.added
				s.added = 0
			}
		}
		if id.minute < closed {
			delete(d.minutes, id)
		}
	}
}

// MergeDistinct returns a sketch that holds all of both; either may be nil.
// Data that is no sketch is an error.
func MergeDistinct(one, other []byte) ([]byte, error) {
	if len(one) == 0 {
		return other, nil
	}
	merged, err := readSketch(one)
	if err != nil {
		return nil, err
	}
	more, err := readSketch(other)
	if err != nil {
		return nil, err
	}
	if err := merged.Merge(more); err != nil {
		return nil, err
	}
	return merged.MarshalBinary()
}

func readSketch(data []byte) (*hyperloglog.Sketch, error) {
	s := newSketch()
	if len(data) == 0 {
		return s, nil
	}
	return s, s.UnmarshalBinary(data)
}

// CountDistinct returns the estimated number of keys that the sketches saw
// together.
func CountDistinct(sketches [][]byte) (int64, error) {
	all := newSketch()
	for _, data := range sketches {
		s, err := readSketch(data)
		if err != nil {
			return 0, err
		}
		if err := all.Merge(s); err != nil {
			return 0, err
		}
	}
	return int64(all.Estimate()), nil
}
