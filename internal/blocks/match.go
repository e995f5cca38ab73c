package blocks

import (
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

// Match is the result of matching one key with the active entries.
type Match struct {
	Exemption *Entry // the most specific one, nil if none
	// Block is the block that stays active longest, nil if none; one that challenges only if no
	// block refuses. It is set even if an exemption has priority over it, so that the answer can
	// mention it.
	Block *Entry
}

// Refuses reports whether the key is refused.
func (m Match) Refuses() bool { return m.Block != nil && m.Exemption == nil }

// Challenges reports whether the key is refused unless it has a pass.
func (m Match) Challenges() bool { return m.Refuses() && m.Block.Action == Challenge }

// With returns the match for two keys together: an exemption or a block of either key.
func (m Match) With(other Match) Match {
	if m.Exemption == nil {
		m.Exemption = other.Exemption
	}
	if b := other.Block; b != nil && (m.Block == nil || b.overrides(m.Block)) {
		m.Block = b
	}
	return m
}

// overrides reports whether e decides of two blocks: it refuses and other challenges, or it lasts
// longer.
func (e *Entry) overrides(other *Entry) bool {
	if e.Action != other.Action {
		return e.Action == Refuse
	}
	return e.Outlasts(other)
}

// roomForMatches is more than the usual number of active patterns for one key. More matches only
// cost an allocation.
const roomForMatches = 24

// Match matches a key. It allocates nothing.
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

// MatchIn matches the key of a check with a scope, "" for none. Blocks with that scope apply too,
// if there is no other block or if they last longer, and blocks that challenge if no block refuses.
func (s *Set) MatchIn(k keys.Key, scope string, now time.Time) Match {
	m := s.Match(k, now)
	known := s.scopes.Load()
	if known == nil {
		return m
	}
	add := func(place string) {
		if placed := (*known)[place]; placed != nil {
			m = m.With(Match{Block: placed.Match(k, now).Block})
		}
	}
	if scope != "" {
		add(scope)
	}
	if m.Block == nil {
		add(challenges)
		add(challenges + ChallengeScope)
		if scope != "" {
			add(challenges + scope)
		}
	}
	return m
}

// Outlasts reports whether e, which is active, stays active for longer than other.
func (e *Entry) Outlasts(other *Entry) bool {
	return IsLater(e.Expires, other.Expires)
}
