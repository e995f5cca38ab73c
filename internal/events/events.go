// Package events publishes live events to operators: decisions, sampled under load,
// and every change of blocks, exemptions, policies and identities. A slow listener
// never delays a check.
package events

import (
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
)

// Kind says what an event is about.
type Kind string

// The kinds of event.
const (
	Decision Kind = "decision" // one check that was answered
	Block    Kind = "block"    // a block or exemption was added, changed or ended
	Change   Kind = "change"   // anything else in the audit
	Notice   Kind = "notice"   // about the stream itself: what it left out
)

// Event is one thing that happened. Only the fields of its kind are set.
type Event struct {
	ID   uint64 // counts up by one; 0 for notices to one listener alone
	At   time.Time
	Kind Kind

	// Of a decision.
	Key     keys.Key
	Outcome gate.Outcome
	Policy  string
	Rule    string
	BlockID string
	Refusal string // the id that opens the refusal's record
	RetryAt time.Time
	Source  string // who asked; never trusted
	// Reported is the outcome of a report, "" for a check: the decision is then whether
	// the policy had room for it.
	Reported string
	Degraded string
	// Shadow is what the policy that only watches would have decided, and
	// ShadowPolicy its name.
	Shadow       gate.Outcome
	ShadowPolicy string

	// Entry records a change.
	Entry *audit.Record
	// Patterns are what the changed block or exemption selects, before and
	// after.
	Patterns []keys.Pattern

	// Of a notice: its text for people, and how many events it replaces.
	Text    string
	Skipped int64
}

// Filter selects events. Zero fields select all; notices are always selected.
type Filter struct {
	Kinds    []Kind
	Outcomes []gate.Outcome // of decisions
	// Policy selects the decisions of a policy or of the shadow of that name,
	// and its changes.
	Policy string
	// Pattern selects the decisions on its keys, and the changes of blocks and
	// exemptions that share a key with it.
	Pattern keys.Pattern
}

// Selects reports whether f selects e.
func (f *Filter) Selects(e *Event) bool {
	if e.Kind == Notice {
		return true
	}
	if len(f.Kinds) > 0 && !slices.Contains(f.Kinds, e.Kind) {
		return false
	}
	if e.Kind == Decision {
		return f.selectsDecision(e)
	}
	if f.Policy != "" && (e.Entry.Object != "policy" || e.Entry.ObjectID != f.Policy) {
		return false
	}
	return f.Pattern.IsZero() || slices.ContainsFunc(e.Patterns, func(p keys.Pattern) bool {
		return p.Covers(f.Pattern) || f.Pattern.Covers(p)
	})
}

// mayBeDecision reports whether f selects any decision.
func (f *Filter) mayBeDecision() bool {
	return len(f.Kinds) == 0 || slices.Contains(f.Kinds, Decision)
}

func (f *Filter) selectsDecision(e *Event) bool {
	return (len(f.Outcomes) == 0 || slices.Contains(f.Outcomes, e.Outcome)) &&
		(f.Policy == "" || f.Policy == e.Policy || f.Policy == e.ShadowPolicy) &&
		(f.Pattern.IsZero() || f.Pattern.Matches(e.Key))
}
