// Package blocks holds entries and matches keys with them. An entry is a block, which refuses
// keys whatever the rules say, or an exemption, which allows keys whatever the rules and blocks
// say.
package blocks

import (
	"time"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// Kind is what an entry does to the keys that its pattern selects.
type Kind string

// The kinds of entries.
const (
	Block     Kind = "block"     // refuses the keys
	Exemption Kind = "exemption" // allows the keys; it has priority over every rule and block
)

// Kinds lists all kinds.
var Kinds = []Kind{Block, Exemption}

// Action is what a block does to the checks that it matches.
type Action = string

// The actions of a block.
const (
	Refuse    Action = ""          // refuses them; also the action of exemptions, which have none
	Challenge Action = "challenge" // refuses those without a pass, which solving a challenge gives
)

// CheckTerms returns an error if an entry of the kind cannot be added on the terms.
func CheckTerms(kind Kind, t wire.EntryTerms) error {
	switch {
	case t.Scope != "" && kind != Block:
		return fault.Field("scope", "is possible for blocks only; an exemption allows every check of its keys")
	case t.Scope != "" && conditions.CheckScope(t.Scope) != nil:
		return fault.Field("scope", "%s", conditions.CheckScope(t.Scope))
	case t.Action != Refuse && t.Action != Challenge:
		return fault.Field("action", "must be challenge; leave it out for a block that refuses")
	case t.Action != Refuse && kind != Block:
		return fault.Field("action", "is possible for blocks only")
	}
	return nil
}

// text returns the text of e that a change calls by its name in JSON.
func (e *Entry) text(name string) *string {
	for term, text := range e.Texts() {
		if term == name {
			return text
		}
	}
	return &e.Reason
}

// Patch returns the change that sets all texts of an entry to those of e.
func (e *Entry) Patch() (p wire.EntryPatch) {
	for name, change := range p.Texts() {
		*change = wire.To(*e.text(name))
	}
	return p
}

// Apply sets the texts and the expiry, which must be an instant, that p changes.
func (e *Entry) Apply(p wire.EntryPatch) {
	for name, change := range p.Texts() {
		if change.Given {
			*e.text(name) = change.Value
		}
	}
	if p.ExpiresAt.Given {
		e.Expires = p.ExpiresAt.Value.Time
	}
}

// Source is how an entry was made.
type Source string

// The sources of an entry.
const (
	Manual    Source = "manual"
	Automatic Source = "automatic" // by a policy's escalation; blocks only
	Imported  Source = "imported"
	Listed    Source = "list" // a row of a list that is pulled, see ListHolder
)

// Entry is a block or an exemption. Its pattern is active until the entry expires or is ended. A node
// has up to a million of them in memory, so that each byte counts.
type Entry struct {
	ID      string // UUIDv7, unique among blocks and exemptions together
	Kind    Kind
	Pattern keys.Pattern
	wire.EntryTerms
	Reason string
	Author string
	Source Source
	// PolicyID is the id of the policy whose escalation made an automatic block, and Level is its
	// level, from 1. Both are 0 for other entries.
	PolicyID int64
	Level    int
	Created  Moment
	Expires  time.Time // zero: permanent
	End      *Ending   // nil: not ended
	Revision int64     // of the newest change of the entry
	// From is the source of an entry that is added, nil if that is its author. It is nil in
	// entries that were read: all shares of an entry are read by Store.Shares.
	From *Holder
}

// Ending says when and by whom an entry was ended.
type Ending struct {
	At time.Time
	By string
}

// EndingOf returns the end of an entry, nil for the zero time.
func EndingOf(at time.Time, by string) *Ending {
	if at.IsZero() {
		return nil
	}
	return &Ending{at, by}
}

// Ended returns when e was ended, the zero time if it was not.
func (e *Entry) Ended() time.Time {
	if e.End == nil {
		return time.Time{}
	}
	return e.End.At
}

// EndedBy returns who ended e, "" if it was not.
func (e *Entry) EndedBy() string {
	if e.End == nil {
		return ""
	}
	return e.End.By
}

// Moment is a time in Unix milliseconds, as it is stored, in a third of the memory of a time.Time. 0 is
// the zero time.
type Moment int64

// MomentOf returns t without what is below a millisecond.
func MomentOf(t time.Time) Moment {
	if t.IsZero() {
		return 0
	}
	return Moment(t.UnixMilli())
}

// Time returns m in UTC.
func (m Moment) Time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(m)).UTC()
}

// ActiveAt reports whether e applies at t. It no longer applies at the time of its expiry.
func (e *Entry) ActiveAt(t time.Time) bool {
	return e.End == nil && !e.ExpiredAt(t)
}

// place is the name of the set of e: its scope, behind a word for blocks that challenge. No scope
// has a space.
func (e *Entry) place() string {
	if e.Action == Challenge {
		return challenges + e.Scope
	}
	return e.Scope
}

// challenges begins the places of blocks that challenge.
const challenges = "challenge "

// ExpiredAt reports whether the expiry of e has passed at t.
func (e *Entry) ExpiredAt(t time.Time) bool {
	return !e.Expires.IsZero() && !t.Before(e.Expires)
}

// Conflict is what adding an entry does if its pattern already has an active entry of the same
// kind. An entry with From conflicts with the share of the same holder only: it joins an entry
// that others hold, and Replace replaces its own share only.
type Conflict string

// What adding an entry does to an existing active entry.
const (
	Fail    Conflict = "fail"    // refuse, and name the active entry
	Keep    Conflict = "keep"    // leave the active entry as it is and add nothing
	Extend  Conflict = "extend"  // add a share to the active entry, or extend the source's own
	Replace Conflict = "replace" // end the active entry, with the shares of all sources, and add the new one
)
