package blocks

import (
	"iter"
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

// BlockWith returns the block of this very pattern that stands at now, nil if
// none does.
func (s *Set) BlockWith(p keys.Pattern, now time.Time) *Block {
	if b, found := s.blocks.index.Get(p); found && b.ActiveAt(now) {
		return b
	}
	return nil
}

// AllBlocks ranges over every block that stands at now. The set may be changed
// inside the loop; see keys.Index.All.
func (s *Set) AllBlocks(now time.Time) iter.Seq[*Block] {
	return func(yield func(*Block) bool) {
		for _, b := range s.blocks.index.All() {
			if b.ActiveAt(now) && !yield(b) {
				return
			}
		}
	}
}

// AllExemptions ranges over every exemption that stands at now.
func (s *Set) AllExemptions(now time.Time) iter.Seq[*Exemption] {
	return func(yield func(*Exemption) bool) {
		for _, e := range s.exemptions.index.All() {
			if e.ActiveAt(now) && !yield(e) {
				return
			}
		}
	}
}
