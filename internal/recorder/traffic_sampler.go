package recorder

import (
	"sync"
	"sync/atomic"

	"github.com/stint-dev/stint/internal/offences"
)

// The trace is a sample of all checks, by key: a key is in it at level n when
// the lowest n bits of its hash are zero, so level n holds all checks of about
// one key in 2^n. A minute starts at the level that the one before could hold,
// and goes up when it overflows.

// maxApart is how many points of one key and minute are kept apart before
// those of one second are counted together.
const maxApart = 100

// traceRecorder samples checks.
type trafficSampler struct {
	// newest is the newest minute and its level, so that nearly every check
	// that is not sampled goes by without the lock.
	newest    atomic.Pointer[sampleLevel]
	maxPoints int

	mu      sync.Mutex
	start   int // the level that a new minute begins at
	minutes map[int64]*sampleMinute
}

type sampleLevel struct {
	minute int64
	level  int
}

type sampleMinute struct {
	level  int
	points int
	keys   map[string]*sampleKey
}

type sampleKey struct {
	hash   uint64
	points []offences.SamplePoint
}

func (t *trafficSampler) add(at int64, hash uint64, key string, cost int) {
	start := offences.MinuteOf(at)
	if n := t.newest.Load(); n != nil && n.minute == start && !offences.Sampled(hash, n.level) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	m, known := t.minutes[start]
	if !known {
		m = &sampleMinute{level: t.start, keys: map[string]*sampleKey{}}
		t.minutes[start] = m
		t.newest.Store(&sampleLevel{start, m.level})
	}
	if !offences.Sampled(hash, m.level) {
		return
	}
	k, known := m.keys[key]
	if !known {
		k = &sampleKey{hash: hash}
		m.keys[string([]byte(key))] = k
	}
	if n := len(k.points); n >= maxApart && k.points[n-1].At/1000 == at/1000 && k.points[n-1].Cost == cost {
		k.points[n-1].Count++
		return
	}
	k.points = append(k.points, offences.SamplePoint{At: at, Cost: cost, Count: 1})
	if m.points++; m.points > t.maxPoints {
		m.thin(t.maxPoints)
		t.newest.Store(&sampleLevel{start, m.level})
	}
}

// thin raises the level until the points fit.
func (m *sampleMinute) thin(most int) {
	for m.points > most && m.level < 63 {
		m.level++
		for key, k := range m.keys {
			if !offences.Sampled(k.hash, m.level) {
				m.points -= len(k.points)
				delete(m.keys, key)
			}
		}
	}
}

func (t *trafficSampler) drain(g *pendingBatch, node string, closed int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for start, m := range t.minutes {
		if start >= closed {
			continue
		}
		if m.points > 0 {
			g.addSample(offences.SampleChunk{Minute: start, Node: node, Level: m.level, Points: m.encode(start)})
		}
		t.start = max(0, m.level-1)
		delete(t.minutes, start)
	}
}

func (m *sampleMinute) encode(start int64) []byte {
	var to []byte
	for key, k := range m.keys {
		to = offences.AppendSample(to, start, key, k.points)
	}
	return to
}
