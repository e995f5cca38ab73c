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

// A sketch whose minute goes on is handed over when it has grown by a
// sketchGrowth-th since the last time, so that the safety limit of an escalation knows the
// keys of an attack as soon as the attack, and else at every sketchEvery-th
// drain: it is large, and nothing else needs it to the second.
const (
	sketchGrowth = 8
	sketchEvery  = 10
)

type sketch struct {
	*hyperloglog.Sketch
	units *hyperloglog.Sketch // of offences.SafetyUnit
	added int64               // keys since it was handed over, some perhaps twice
	given int64               // keys before
}

// due reports whether the sketch is worth handing over.
func (s *sketch) due(anyhow bool) bool {
	return s.added > 0 && (anyhow || s.added*sketchGrowth >= s.given)
}

// add counts a key, and what the safety limit counts it as, by their hashes.
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

// drain hands over the sketches that changed. They are whole each time: the
// database keeps the newest of a node, and merges nodes when it is read.
func (d *distinctMinutes) drain(g *pendingBatch, node string, closed int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drains++
	reservation := d.drains%sketchEvery == 0
	for id, s := range d.minutes {
		if s.due(reservation || id.minute < closed) {
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
