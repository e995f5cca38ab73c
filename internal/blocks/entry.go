// Package blocks holds what is refused whatever the rules say, and what is
// allowed whatever the rules and blocks say: entries, which are blocks and
// exemptions, and their matching.
package blocks

import (
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

// Kind says what an entry does to the keys that its pattern selects.
type Kind string

// The kinds of entries.
const (
	Block     Kind = "block"     // refuses them
	Exemption Kind = "exemption" // allows them; it wins over every rule and block
)

// Kinds are all kinds.
var Kinds = []Kind{Block, Exemption}

// Source says how an entry was made.
type Source string

// The sources of an entry.
const (
	Manual    Source = "manual"
	Automatic Source = "automatic" // by a policy's escalation; blocks only
	Imported  Source = "imported"
)

// Entry is a block or an exemption: a pattern that is active until it expires or
// is ended.
type Entry struct {
	ID      string // UUIDv7, unique among blocks and exemptions together
	Kind    Kind
	Pattern keys.Pattern
	// Scope limits a block to checks that say this scope; "" for every check.
	Scope  string
	Reason string
	Author string
	Source Source
	// PolicyID is the id of the policy whose escalation made an automatic block,
	// and Level the level, from 1; 0 otherwise.
	PolicyID int64
	Level    int
	Created  time.Time
	Expires  time.Time // zero: permanent
	Ended    time.Time // zero: not ended
	EndedBy  string
	Revision int64 // of the newest change to it
}

// ActiveAt reports whether e applies at t. At the instant of its expiry it no
// longer does.
func (e *Entry) ActiveAt(t time.Time) bool {
	return e.Ended.IsZero() && !e.ExpiredAt(t)
}

// ExpiredAt reports whether the expiry of e has passed at t.
func (e *Entry) ExpiredAt(t time.Time) bool {
	return !e.Expires.IsZero() && !t.Before(e.Expires)
}

// Conflict says what adding an entry does when its pattern has an active entry
// of the same kind.
type Conflict string

// The answers to a pattern that has an active entry.
const (
	Fail    Conflict = "fail"    // refuse, naming the active entry
	Keep    Conflict = "keep"    // leave it as it is and add nothing
	Extend  Conflict = "extend"  // keep it and move its expiry, never earlier
	Replace Conflict = "replace" // end it and add the new one
)
