// Package blocks holds what is refused whatever the rules say, and what is
// let through whatever anything says: blocks, exemptions, and their matching.
package blocks

import (
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

// Source says how a block came to be.
type Source string

// The sources of a block.
const (
	Manual    Source = "manual"
	Automatic Source = "automatic" // a policy's escalation
	Imported  Source = "imported"
)

// Block refuses every key that its pattern selects until it expires or is
// lifted.
type Block struct {
	ID      string // UUIDv7
	Pattern keys.Pattern
	Reason  string
	Author  string
	Source  Source
	// Policy is the id of the policy whose escalation made an automatic block, and
	// Step the level, from 1; 0 otherwise.
	Policy   int64
	Level    int
	Created  time.Time
	Expires  time.Time // zero: for good
	Lifted   time.Time // zero: not lifted
	LiftedBy string
	Revision int64 // of the newest change to it
}

// ActiveAt reports whether b refuses at t. A block ends at the very instant of
// its expiry.
func (b *Block) ActiveAt(t time.Time) bool {
	return b.Lifted.IsZero() && (b.Expires.IsZero() || t.Before(b.Expires))
}

// Exemption lets every key that its pattern selects through: no rule and no
// block touches it until it expires or is removed.
type Exemption struct {
	ID        string // UUIDv7
	Pattern   keys.Pattern
	Reason    string
	Author    string
	Created   time.Time
	Expires   time.Time // zero: for good
	Removed   time.Time // zero: not removed
	RemovedBy string
	Revision  int64
}

// ActiveAt reports whether e lets through at t.
func (e *Exemption) ActiveAt(t time.Time) bool {
	return e.Removed.IsZero() && (e.Expires.IsZero() || t.Before(e.Expires))
}

// Conflict says what adding a block does when its pattern is blocked already.
type Conflict string

// The answers to a pattern that is blocked already.
const (
	Fail    Conflict = "fail"    // refuse, naming the block that stands
	Extend  Conflict = "extend"  // keep it and move its expiry, never earlier
	Replace Conflict = "replace" // lift it and add the new one
)
