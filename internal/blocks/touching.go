package blocks

import (
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

// ExemptionsTouching returns up to limit exemptions that stand at now and
// select a key that p selects too. It looks at every exemption, so it is for
// operators and not for checks.
func (s *Set) ExemptionsTouching(p keys.Pattern, now time.Time, limit int) []*Exemption {
	var found []*Exemption
	for other, e := range s.exemptions.index.All() {
		if len(found) < limit && e.ActiveAt(now) && touches(p, other) {
			found = append(found, e)
		}
	}
	return found
}

// BlocksTouching does for blocks what ExemptionsTouching does for exemptions.
func (s *Set) BlocksTouching(p keys.Pattern, now time.Time, limit int) []*Block {
	var found []*Block
	for other, b := range s.blocks.index.All() {
		if len(found) < limit && b.ActiveAt(now) && touches(p, other) {
			found = append(found, b)
		}
	}
	return found
}

// touches reports whether two patterns share a key. Patterns are nested or
// apart: none overlaps another in part.
func touches(p, q keys.Pattern) bool { return p.Covers(q) || q.Covers(p) }

// CountBlocks returns how many blocks stand at now, by how they came to be. It
// looks at every block, so it is for operators and not for checks.
func (s *Set) CountBlocks(now time.Time) map[Source]int {
	counts := map[Source]int{}
	for _, b := range s.blocks.index.All() {
		if b.ActiveAt(now) {
			counts[b.Source]++
		}
	}
	return counts
}
