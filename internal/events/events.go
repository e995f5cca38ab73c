// Package events publishes live events to operators: decisions and what becomes of holds, sampled under
// load, and every change of blocks, exemptions, policies and identities. A slow listener never delays a check.
package events

import (
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
)

// Kind is the kind of an event.
type Kind string

// The kinds of event.
const (
	Decision Kind = "decision" // one check that was answered
	Block    Kind = "block"    // a block or exemption was added, changed or ended
	Change   Kind = "change"   // any other change in the audit log
	Hold     Kind = "hold"     // a hold was taken, renewed or ended
	Notice   Kind = "notice"   // about the stream: what it omits
)

// Event is one event. Only the fields of its kind are set.
type Event struct {
	ID   uint64 // increases by one; 0 for notices to a single listener
	At   time.Time
	Kind Kind

	// Fields of a decision.
	Key     keys.Key
	Outcome gate.Outcome
	Policy  string
	Rule    string
	BlockID string
	Refusal string // id of the refusal's record
	RetryAt time.Time
	Source  string // source of the check; untrusted
	// Method and Path are those of the request, "" if they were not sent or are not shown.
	Method, Path string
	// Reported is the outcome of a report, "" for a check. For a report, Outcome says whether
	// the policy had room for it.
	Reported string
	Degraded string
	// Shadow is the decision of the shadow policy, and ShadowPolicy its name.
	Shadow       gate.Outcome
	ShadowPolicy string

	// Hold is what became of a hold of Key under Policy.
	Hold HoldChange

	// Entry is the audit record of a change.
	Entry *audit.Record
	// Patterns are the patterns of the changed block or exemption, before and after.
	Patterns []keys.Pattern

	// Fields of a notice: its text for people, and the number of events that it replaces.
	Text    string
	Skipped int64
}

// HoldChange is what became of a hold. That one expires is no event, since nothing happens then; an event says
// so if it is settled later.
type HoldChange struct {
	State   string // "held", "settled", "released", "extended", or "expired" before it was settled
	Held    int64
	Used    int64
	Over    int64 // how much of Used is beyond a limit
	Expires time.Time
}

// Filter selects events. Zero fields select all; notices are always selected.
type Filter struct {
	Kinds    []Kind
	Outcomes []gate.Outcome // of decisions
	// Policy selects the decisions and holds of a policy or shadow policy, and its changes.
	Policy string
	// Path selects the decisions on requests whose path meets it; its other attributes are not set.
	Path conditions.When
	// Pattern selects the decisions on its keys and their holds, and the changes of blocks and exemptions that
	// share a key with it.
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
	if !f.Path.IsZero() {
		return false
	}
	if e.Kind == Hold {
		return (f.Policy == "" || f.Policy == e.Policy) && (f.Pattern.IsZero() || f.Pattern.Matches(e.Key))
	}
	if f.Policy != "" && (e.Entry.Object != "policy" || e.Entry.ObjectID != f.Policy) {
		return false
	}
	return f.Pattern.IsZero() || slices.ContainsFunc(e.Patterns, func(p keys.Pattern) bool {
		return p.Covers(f.Pattern) || f.Pattern.Covers(p)
	})
}

// mayBeOfCheck reports whether f selects any decision or hold.
func (f *Filter) mayBeOfCheck() bool {
	return len(f.Kinds) == 0 || slices.Contains(f.Kinds, Decision) || slices.Contains(f.Kinds, Hold)
}

func (f *Filter) selectsDecision(e *Event) bool {
	return (len(f.Outcomes) == 0 || slices.Contains(f.Outcomes, e.Outcome)) &&
		(f.Policy == "" || f.Policy == e.Policy || f.Policy == e.ShadowPolicy) &&
		(f.Path.IsZero() || f.Path.Meets(conditions.RequestOf(conditions.Path, e.Path))) &&
		(f.Pattern.IsZero() || f.Pattern.Matches(e.Key))
}

// SelectPath sets Path to a pattern such as /search*. The error says what is wrong with it.
func (f *Filter) SelectPath(pattern string) (err error) {
	f.Path, err = conditions.Parse(conditions.Texts{"path": {pattern}})
	return err
}
