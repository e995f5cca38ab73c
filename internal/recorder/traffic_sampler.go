package recorder

import (
	"sync"
	"sync/atomic"

	"github.com/stint-dev/stint/internal/offences"
)

// The traffic sample contains all checks of some keys. At level n these are the keys whose hashes
// have zeros in the lowest n bits, which is about one key in 2^n. A minute starts one level below
// the last level of the minute before, and the level is raised when the minute overflows.

// maxApart is how many points of one key and minute are stored separately before the points of
// the same second are counted together.
const maxApart = 100

// trafficSampler samples the checks of some keys.
type trafficSampler struct {
	// newest is the newest minute and its level, so that a check that is not sampled nearly
	// always needs no lock.
	newest    atomic.Pointer[sampleLevel]
	maxPoints int

	mu      sync.Mutex
	start   int // the level at which a new minute begins
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
	paths  pathBudget
}

type sampleKey struct {
	hash   uint64
	points []offences.SamplePoint
	// refused is how many of the checks of points were refused.
	refused int
	paths   []offences.PathPoint // without Minute and Key
}

// add records a check and its path, "" for a check without one.
func (t *trafficSampler) add(at int64, hash uint64, key string, cost int, path string, isAllowed bool) {
	start := offences.MinuteOf(at)
	if t.leavesOut(start, hash) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	m, k := t.sampled(start, hash, key)
	if k == nil {
		return
	}
	if path != "" {
		if p := m.path(k, path, t.maxPoints); isAllowed {
			p.Allowed++
		} else {
			p.Refused++
		}
	}
	if !isAllowed {
		k.refused++
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

// leavesOut reports without the lock whether a key is not sampled in a minute. It may report
// false for a key that is not sampled.
func (t *trafficSampler) leavesOut(start int64, hash uint64) bool {
	n := t.newest.Load()
	return n != nil && n.minute == start && !offences.Sampled(hash, n.level)
}

// sampled returns the minute and the key in it, nil if the key is not sampled.
func (t *trafficSampler) sampled(start int64, hash uint64, key string) (*sampleMinute, *sampleKey) {
	m, known := t.minutes[start]
	if !known {
		m = &sampleMinute{level: t.start, keys: map[string]*sampleKey{}}
		t.minutes[start] = m
		t.newest.Store(&sampleLevel{start, m.level})
	}
	if !offences.Sampled(hash, m.level) {
		return m, nil
	}
	k, known := m.keys[key]
	if !known {
		k = &sampleKey{hash: hash}
		m.keys[string([]byte(key))] = k
	}
	return m, k
}

// thin raises the level until the points and the keys fit.
func (m *sampleMinute) thin(maxPoints int) {
	for (m.points > maxPoints || len(m.keys) > maxPoints) && m.level < 63 {
		m.level++
		for key, k := range m.keys {
			if !offences.Sampled(k.hash, m.level) {
				m.points -= len(k.points)
				delete(m.keys, key)
			}
		}
	}
	m.recountPaths()
}

func (t *trafficSampler) drain(g *pendingBatch, node string, closed int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for start, m := range t.minutes {
		if start >= closed {
			continue
		}
		if len(m.keys) > 0 {
			g.addSample(offences.SampleChunk{Minute: start, Node: node, Level: m.level, Points: m.encode(start), Paths: m.encodePaths(), Refused: m.encodeRefused()})
		}
		t.start = max(0, m.level-1)
		delete(t.minutes, start)
	}
}

func (m *sampleMinute) encode(start int64) []byte {
	var to []byte
	for key, k := range m.keys {
		if len(k.points) > 0 {
			to = offences.AppendSample(to, start, key, k.points)
		}
	}
	return to
}

// encodeRefused returns the refused checks of the minute, nil for none.
func (m *sampleMinute) encodeRefused() []byte {
	var to []byte
	for key, k := range m.keys {
		if k.refused > 0 {
			to = offences.AppendRefused(to, key, k.refused)
		}
	}
	return to
}
