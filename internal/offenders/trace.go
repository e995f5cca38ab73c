package offenders

import (
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"sync/atomic"
)

// The trace is a sample of all checks, by key: a key is in it at level n when
// the lowest n bits of its hash are zero, so level n holds all checks of about
// one key in 2^n. A minute starts at the level that the one before could hold,
// and goes up when it overflows.

// TracePoint is Count checks of one key within one second.
type TracePoint struct {
	At    int64 // Unix milliseconds
	Key   string
	Cost  int
	Count int // 1 but where one key had more points in a minute than are kept apart
}

// maxApart is how many points of one key and minute are kept apart before
// those of one second are counted together.
const maxApart = 100

// traceRecorder samples checks.
type traceRecorder struct {
	// newest is the newest minute and its level, so that nearly every check
	// that is not sampled goes by without the lock.
	newest atomic.Pointer[traceLevel]
	most   int

	mu      sync.Mutex
	start   int // the level that a new minute begins at
	minutes map[int64]*traceMinute
}

type traceLevel struct {
	minute int64
	level  int
}

type traceMinute struct {
	level  int
	points int
	keys   map[string]*traceKey
}

type traceKey struct {
	hash   uint64
	points []TracePoint
}

func sampled(hash uint64, level int) bool { return hash&(1<<level-1) == 0 }

func (t *traceRecorder) add(at int64, hash uint64, key string, cost int) {
	start := minuteOf(at)
	if n := t.newest.Load(); n != nil && n.minute == start && !sampled(hash, n.level) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	m, known := t.minutes[start]
	if !known {
		m = &traceMinute{level: t.start, keys: map[string]*traceKey{}}
		t.minutes[start] = m
		t.newest.Store(&traceLevel{start, m.level})
	}
	if !sampled(hash, m.level) {
		return
	}
	k, known := m.keys[key]
	if !known {
		k = &traceKey{hash: hash}
		m.keys[string([]byte(key))] = k
	}
	if n := len(k.points); n >= maxApart && k.points[n-1].At/1000 == at/1000 && k.points[n-1].Cost == cost {
		k.points[n-1].Count++
		return
	}
	k.points = append(k.points, TracePoint{At: at, Cost: cost, Count: 1})
	if m.points++; m.points > t.most {
		m.thin(t.most)
		t.newest.Store(&traceLevel{start, m.level})
	}
}

// thin raises the level until the points fit.
func (m *traceMinute) thin(most int) {
	for m.points > most && m.level < 63 {
		m.level++
		for key, k := range m.keys {
			if !sampled(k.hash, m.level) {
				m.points -= len(k.points)
				delete(m.keys, key)
			}
		}
	}
}

func (t *traceRecorder) drain(g *gathering, node string, closed int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for start, m := range t.minutes {
		if start >= closed {
			continue
		}
		if m.points > 0 {
			g.addTrace(TraceChunk{Minute: start, Node: node, Level: m.level, Points: m.encode(start)})
		}
		t.start = max(0, m.level-1)
		delete(t.minutes, start)
	}
}

// encode writes each key behind its length, then its number of points, then of
// each the milliseconds since the point before, the cost and the count.
func (m *traceMinute) encode(start int64) []byte {
	var to []byte
	for key, k := range m.keys {
		to = appendText(to, key)
		to = binary.AppendUvarint(to, uint64(len(k.points)))
		before := start
		for _, p := range k.points {
			to = binary.AppendVarint(to, p.At-before)
			to = binary.AppendUvarint(to, uint64(p.Cost))
			to = binary.AppendUvarint(to, uint64(p.Count))
			before = p.At
		}
	}
	return to
}

var errBadTrace = errors.New("a chunk of the trace cannot be read")

// Decode returns the points of a chunk, by key, each key's by time.
func (c *TraceChunk) Decode() ([]TracePoint, error) {
	var points []TracePoint
	r := varints{rest: c.Points}
	for len(r.rest) > 0 && !r.bad {
		key := r.text()
		at := c.Minute
		for range r.unsigned() {
			at += r.signed()
			points = append(points, TracePoint{At: at, Key: key, Cost: int(r.unsigned()), Count: int(r.unsigned())})
			if r.bad {
				return nil, errBadTrace
			}
		}
	}
	if r.bad {
		return nil, errBadTrace
	}
	return points, nil
}

// Share returns the share of all keys that a chunk of this level samples.
func (c *TraceChunk) Share() float64 { return math.Ldexp(1, -c.Level) }

// varints reads what encode wrote; bad stays set after the first failure.
type varints struct {
	rest []byte
	bad  bool
}

func (r *varints) unsigned() uint64 {
	v, n := binary.Uvarint(r.rest)
	return advance(r, v, n)
}

func (r *varints) signed() int64 {
	v, n := binary.Varint(r.rest)
	return advance(r, v, n)
}

func advance[T uint64 | int64](r *varints, v T, n int) T {
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *varints) text() string {
	length := r.unsigned()
	if r.bad || length > uint64(len(r.rest)) {
		r.bad = true
		return ""
	}
	text := string(r.rest[:length])
	r.rest = r.rest[length:]
	return text
}
