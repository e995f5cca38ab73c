package blocks

import (
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

// Match is what the active entries say about one key.
type Match struct {
	Exemption *Entry // the most specific one, nil if none
	// Block is the one that stays active longest, nil if none. An exemption wins
	// over it; it is filled in all the same, so that the answer can say so.
	Block *Entry
}

// Refuses reports whether the key is refused.
func (m Match) Refuses() bool { return m.Block != nil && m.Exemption == nil }

// With returns what m and another match say of two keys together: an exemption or a block of
// either.
func (m Match) With(other Match) Match {
	if m.Exemption == nil {
		m.Exemption = other.Exemption
	}
	if b := other.Block; b != nil && (m.Block == nil || b.Outlasts(m.Block)) {
		m.Block = b
	}
	return m
}

// roomForMatches is more patterns than are normally active for one key; a larger
// number only costs an allocation.
const roomForMatches = 24

// Match looks a key up. It allocates nothing.
func (s *Set) Match(k keys.Key, now time.Time) (m Match) {
	var room [roomForMatches]slot
	for _, at := range s.index.AppendMatching(room[:0], k) {
		if m.Exemption == nil && at.exemption != nil && at.exemption.ActiveAt(now) {
			m.Exemption = at.exemption
		}
		if b := at.block; b != nil && b.ActiveAt(now) && (m.Block == nil || b.Outlasts(m.Block)) {
			m.Block = b
		}
	}
	return m
}

// MatchIn looks up a key of a check that says a scope, "" for none: blocks of that scope
// refuse it as well, where no other does or theirs lasts longer.
func (s *Set) MatchIn(k keys.Key, scope string, now time.Time) Match {
	m := s.Match(k, now)
	if scope == "" {
		return m
	}
	if scoped := s.inScope(scope); scoped != nil {
		return m.With(Match{Block: scoped.Match(k, now).Block})
	}
	return m
}

// Outlasts reports whether e, which is active, stays so for longer than other.
func (e *Entry) Outlasts(other *Entry) bool {
	return IsLater(e.Expires, other.Expires)
}
