package blocks

import (
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

// Set is a node's copy of the live blocks and exemptions, matched in memory.
// It is safe for use by many goroutines.
type Set struct {
	blocks     *collection[*Block]
	exemptions *collection[*Exemption]
}

// NewSet returns an empty set.
func NewSet() *Set {
	return &Set{blocks: newCollection[*Block](), exemptions: newCollection[*Exemption]()}
}

// ApplyBlock takes over the newest state of a block: it is kept while it is
// neither lifted nor expired at now, and forgotten otherwise. b must not be
// changed afterwards. States that arrive out of order, at most a minute late,
// are sorted out by their revision.
func (s *Set) ApplyBlock(b *Block, now time.Time) { s.blocks.apply(b, now) }

// ApplyExemption does for an exemption what ApplyBlock does for a block.
func (s *Set) ApplyExemption(e *Exemption, now time.Time) { s.exemptions.apply(e, now) }

// Verdict is what blocks and exemptions say about one key.
type Match struct {
	Exemption *Exemption // the most specific that stands, nil if none
	// Block is the block that stands longest, nil if none. An exemption beats
	// it; it is filled in all the same, so that the answer can say so.
	Block *Block
}

// Refuses reports whether the key is refused.
func (v Match) Refuses() bool { return v.Block != nil && v.Exemption == nil }

// roomForMatches is more blocks than anybody lays around one key; more of them
// only cost an allocation.
const roomForMatches = 24

// Match looks a key up. It allocates nothing.
func (s *Set) Match(k keys.Key, now time.Time) Match {
	return Match{Exemption: s.exemptionOf(k, now), Block: s.blockOf(k, now)}
}

func (s *Set) exemptionOf(k keys.Key, now time.Time) *Exemption {
	var room [roomForMatches]*Exemption
	for _, e := range s.exemptions.index.AppendMatching(room[:0], k) {
		if e.ActiveAt(now) {
			return e
		}
	}
	return nil
}

func (s *Set) blockOf(k keys.Key, now time.Time) (longest *Block) {
	var room [roomForMatches]*Block
	for _, b := range s.blocks.index.AppendMatching(room[:0], k) {
		if b.ActiveAt(now) && (longest == nil || outlasts(b, longest)) {
			longest = b
		}
	}
	return longest
}

func outlasts(a, b *Block) bool {
	if b.Expires.IsZero() {
		return false
	}
	return a.Expires.IsZero() || a.Expires.After(b.Expires)
}

// Blocks returns every block that stands at now and selects k, the most
// specific first.
func (s *Set) Blocks(k keys.Key, now time.Time) []*Block { return s.blocks.standing(k, now) }

// Exemptions returns every exemption that stands at now and selects k, the
// most specific first.
func (s *Set) Exemptions(k keys.Key, now time.Time) []*Exemption {
	return s.exemptions.standing(k, now)
}

// Sweep forgets what has expired at now, to give its memory back, at a cost
// that grows only with what has expired. Nothing depends on it: an expired
// block refuses nobody.
func (s *Set) Sweep(now time.Time) {
	s.blocks.sweep(now)
	s.exemptions.sweep(now)
}

// Sizes returns the number of blocks and exemptions kept, expired ones that
// have not been swept included.
func (s *Set) Sizes() (blocks, exemptions int) {
	return s.blocks.index.Len(), s.exemptions.index.Len()
}
