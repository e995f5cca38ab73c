package recorder

import (
	"sync"

	"github.com/axiomhq/hyperloglog"

	"github.com/stint-dev/stint/internal/offences"
)

// distinctMinutes holds a sketch of the keys of every open minute and policy.
type distinctMinutes struct {
	mu      sync.Mutex
	minutes map[totalsID]*sketch
	drains  int
}

// The sketch of an open minute is drained when the number of keys has grown by 1/sketchGrowth
// since the last time, so that the safety limit of an escalation knows the keys of an attack as
// soon as the attack itself. Otherwise it is drained only at every sketchEvery-th drain: sketches
// are large, and nothing else needs them every second.
const (
	sketchGrowth = 8
	sketchEvery  = 10
)

type sketch struct {
	*hyperloglog.Sketch
	units *hyperloglog.Sketch // of offences.SafetyUnit
	added int64               // keys since the last drain of the sketch; some may be counted twice
	given int64               // keys in earlier drains
}

// due reports whether the sketch should be drained. With always set, any change is enough.
func (s *sketch) due(always bool) bool {
	return s.added > 0 && (always || s.added*sketchGrowth >= s.given)
}

// add counts a key and its safety unit by their hashes.
func (d *distinctMinutes) add(minute, policy int64, hash, unit uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := totalsID{minute, policy}
	s, known := d.minutes[id]
	if !known {
		s = &sketch{Sketch: offences.NewSketch(), units: offences.NewSketch()}
		d.minutes[id] = s
	}
	s.InsertHash(hash)
	s.units.InsertHash(unit)
	s.added++
}

// drain adds the changed sketches to g, each as a whole: the database keeps the newest sketch of
// each node, and merges those of all nodes when it is read.
func (d *distinctMinutes) drain(g *pendingBatch, node string, closed int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drains++
	isRegular := d.drains%sketchEvery == 0
	for id, s := range d.minutes {
		if s.due(isRegular || id.minute < closed) {
			data, err := s.MarshalBinary()
			units, unitsErr := s.units.MarshalBinary()
			if err == nil && unitsErr == nil {
				g.addDistinct(offences.DistinctKeys{Minute: id.minute, Policy: id.policy, Node: node, Sketch: data, Units: units})
				s.given += s.added
				s.added = 0
			}
		}
		if id.minute < closed {
			delete(d.minutes, id)
		}
	}
}
