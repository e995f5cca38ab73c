package blocks

import (
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

// Set is a node's copy of the live blocks and exemptions, matched in memory.
// It is safe for use by many goroutines.
type Set struct {
	blocks     *keys.Index[*Block]
	exemptions *keys.Index[*Exemption]
}

// NewSet returns an empty set.
func NewSet() *Set {
	return &Set{blocks: keys.NewIndex[*Block](), exemptions: keys.NewIndex[*Exemption]()}
}

// ApplyBlock takes over the newest state of a block: it is kept while it is
// neither lifted nor expired at now, and forgotten otherwise. b must not be
// changed afterwards. Changes that arrive out of order are sorted out by
// their revision.
func (s *Set) ApplyBlock(b *Block, now time.Time) {
	known, found := s.blocks.Get(b.Pattern)
	switch {
	case b.ActiveAt(now):
		if !found || known.Revision <= b.Revision {
			s.blocks.Set(b.Pattern, b)
		}
	case found && known.ID == b.ID:
		s.blocks.Delete(b.Pattern)
	}
}

// ApplyExemption does for an exemption what ApplyBlock does for a block.
func (s *Set) ApplyExemption(e *Exemption, now time.Time) {
	known, found := s.exemptions.Get(e.Pattern)
	switch {
	case e.ActiveAt(now):
		if !found || known.Revision <= e.Revision {
			s.exemptions.Set(e.Pattern, e)
		}
	case found && known.ID == e.ID:
		s.exemptions.Delete(e.Pattern)
	}
}

// Verdict is what blocks and exemptions say about one key.
type Verdict struct {
	Exemption *Exemption // the most specific that stands, nil if none
	// Block is the block that stands longest, nil if none. An exemption beats
	// it; it is filled in all the same, so that the answer can say so.
	Block *Block
}

// Refuses reports whether the key is refused.
func (v Verdict) Refuses() bool { return v.Block != nil && v.Exemption == nil }

// Match looks a key up. It allocates nothing.
func (s *Set) Match(k keys.Key, now time.Time) Verdict {
	var v Verdict
	for _, e := range s.exemptions.Matching(k) {
		if e.ActiveAt(now) {
			v.Exemption = e
			break
		}
	}
	for _, b := range s.blocks.Matching(k) {
		if b.ActiveAt(now) && (v.Block == nil || outlasts(b, v.Block)) {
			v.Block = b
		}
	}
	return v
}

func outlasts(a, b *Block) bool {
	if b.Expires.IsZero() {
		return false
	}
	return a.Expires.IsZero() || a.Expires.After(b.Expires)
}

// Blocks returns every block that stands at now and selects k, the most
// specific first.
func (s *Set) Blocks(k keys.Key, now time.Time) []*Block {
	var found []*Block
	for _, b := range s.blocks.Matching(k) {
		if b.ActiveAt(now) {
			found = append(found, b)
		}
	}
	return found
}

// Exemptions returns every exemption that stands at now and selects k, the
// most specific first.
func (s *Set) Exemptions(k keys.Key, now time.Time) []*Exemption {
	var found []*Exemption
	for _, e := range s.exemptions.Matching(k) {
		if e.ActiveAt(now) {
			found = append(found, e)
		}
	}
	return found
}

// Sweep forgets what has expired at now, to give its memory back. Nothing
// depends on it: an expired block refuses nobody.
func (s *Set) Sweep(now time.Time) {
	for p, b := range collect(s.blocks) {
		if !b.ActiveAt(now) {
			if known, found := s.blocks.Get(p); found && known == b {
				s.blocks.Delete(p)
			}
		}
	}
	for p, e := range collect(s.exemptions) {
		if !e.ActiveAt(now) {
			if known, found := s.exemptions.Get(p); found && known == e {
				s.exemptions.Delete(p)
			}
		}
	}
}

func collect[V any](x *keys.Index[V]) map[keys.Pattern]V {
	all := make(map[keys.Pattern]V, x.Len())
	for p, v := range x.All() {
		all[p] = v
	}
	return all
}

// Sizes returns the number of blocks and exemptions kept, expired ones that
// have not been swept included.
func (s *Set) Sizes() (blocks, exemptions int) { return s.blocks.Len(), s.exemptions.Len() }
