// Package gate answers one check: exemption, block, policy, log, decision, in
// that order and in this one place. What a decision costs the caller (a status,
// a header) is the front end's business.
package gate

import (
	"crypto/rand"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// Outcome is the verdict on a check.
type Outcome string

// The outcomes.
const (
	Allowed     Outcome = "allowed"
	Limited     Outcome = "limited"     // by a rule
	Blocked     Outcome = "blocked"     // by a block
	Unavailable Outcome = "unavailable" // an outage under on_failure: deny
)

// Check asks whether a key may do one more request.
type Check struct {
	Key keys.Key
	// Client is the address of the client where Key is not an address; zero for none. Its
	// exemptions and blocks apply as well.
	Client keys.Key
	Policy string // the name of the policy to ask, "" for the best match
	// Specific leaves out policies that match the key by the pattern "*" alone.
	Specific bool
	Cost     int    // 1 to timestamplog.MaxCost, to MaxUsage with ChargeAlways
	Peek     bool   // answer, charge nothing, count nothing
	Detail   bool   // say what each rule has left
	Source   string // who asks, for people; never trusted
	Meta     map[string]string
	// ChargeAlways reports usage after the fact: if a rule refuses the check, as much of
	// its cost as fits is charged, and MaxWait must be 0. See timestamplog.Request.
	ChargeAlways bool
	// Request is what the caller says of the request, nil for nothing. Policies with
	// conditions apply by it, in addition to the key's own and to those with an outcome.
	Request *conditions.Request
	// MaxWait is how long the caller would wait for its reservation, in whole
	// milliseconds up to timestamplog.MaxWait; 0 asks for an answer at once.
	MaxWait time.Duration
	// ID names the request, "" for none: one that comes again soon after it was
	// charged is answered again and not charged. At most timestamplog.MaxID
	// bytes.
	ID string
}

// ensureID gives a check that may make a reservation an ID, by which the log knows
// it again.
func (c *Check) ensureID() {
	if c.MaxWait > 0 && c.ID == "" && !c.Peek {
		c.ID = rand.Text()
	}
}

// matchIn returns what the active entries say about the check's key and its client.
func (c *Check) matchIn(set *blocks.Set, at time.Time) blocks.Match {
	match := set.MatchIn(c.Key, c.Request.Scope(), at)
	if !c.Client.IsZero() {
		match = match.With(set.MatchIn(c.Client, c.Request.Scope(), at))
	}
	return match
}

// Decision is the answer to a Check.
type Decision struct {
	Check   Check
	Outcome Outcome
	// ID opens the record of a refusal; zero where nothing was refused. A peek
	// has one too, which opens what was counted for others.
	ID offences.RefusalID
	// Policy is the policy that was asked, nil where none applies.
	Policy *rules.Policy
	// OwnLimit is the key's own limit, whose rules Policy then has in place of its own; nil
	// for none.
	OwnLimit *profiles.Limit
	Answer
	// Exemption let the key through, nil if none.
	Exemption *blocks.Entry
	// Block refuses the key or, beside an Exemption, is hidden by it.
	Block *blocks.Entry
	// Additional are the decisions of the policies with conditions that apply to
	// Check.Request, and of those with an outcome; of a shadow policy, only Shadow is set. Of all that enforce, the
	// one that makes the caller wait longest is the Decision itself, which is
	// Allowed only if all are, and only then was any charged.
	Additional []Decision
	// IsAdditional reports that the decision is one of those: what it says of the check
	// is recorded with another.
	IsAdditional bool
	// Reported is the outcome that was reported, "" for a check. The decision is then
	// that of one policy about one report, additional, and Limited where the policy had
	// no room for it.
	Reported string
	// Shadow is what the policy that only watches would have decided, nil
	// where none watches.
	Shadow *Shadow
	// Handle cancels the reservation; "" where none was reserved.
	Handle string
	// Degraded says, where it is not "", which outage the decision was made
	// under; the promises of exactness then do not hold.
	Degraded string
	// room is memory for the States of the Decision itself; nil where it has none yet.
	room []RuleState
}

// Reset makes d empty and keeps the memory of its States, so that d can be used for another
// check once nobody reads them any more.
func (d *Decision) Reset() {
	states := d.States[:0]
	*d = Decision{}
	d.States = states
}

// RuleState is what a rule has left; see timestamplog.RuleState.
type RuleState = timestamplog.RuleState

// Never is the RetryAfterMS of a rule that no waiting satisfies.
const Never = timestamplog.Never

// errNotLoaded is the error of every decision before the first read of the database.
var errNotLoaded = fault.New(fault.Unavailable, "This node has not loaded its policies and blocks yet; try again in a moment.")

// Answer is what a policy's log said.
type Answer struct {
	// At is when it was decided, by the log's clock where it was asked and by
	// the node's where not.
	At time.Time
	// RetryAt is the earliest instant worth asking again: zero where the check
	// was allowed, and where waiting never helps (Never).
	RetryAt time.Time
	Never   bool
	// Rule is the index in the policy's stack of the rule that makes the
	// caller wait longest, -1 where no rule refuses.
	Rule int
	// Derived is the further key of the request that the answer is about, nil for the
	// key of the check itself.
	Derived *keys.Key
	// Boundary is the logged time that Rule waits to age out, else zero.
	Boundary time.Time
	// States says what each rule has left where Check.Detail asked for it.
	States []RuleState
	// Delay is how long to wait where the request was allowed for a reservation ahead;
	// a peek says what it would be.
	Delay time.Duration
	// ReservedAt is the instant that was reserved by the log's clock; zero where
	// nothing was: the request was allowed at once, refused, a peek, or
	// answered under an outage.
	ReservedAt time.Time
	// Replayed says that the request's ID was charged before and that nothing
	// was charged now.
	Replayed bool
}

// Allowed reports whether the request may be done.
func (d *Decision) Allowed() bool { return d.Outcome == Allowed }

// CountedKey returns the key that the policy counts: a further key of the request, or
// that of the check.
func (d *Decision) CountedKey() keys.Key { return d.Answer.countedKey(&d.Check) }

func (a *Answer) countedKey(c *Check) keys.Key {
	if a.Derived != nil {
		return *a.Derived
	}
	return c.Key
}

// DecidingRule returns the rule that refused, false where none did.
func (d *Decision) DecidingRule() (rules.Rule, bool) { return decidingRule(d.Policy, d.Answer) }

// RetryAfter returns how long to wait until RetryAt, zero where there is none.
func (a *Answer) RetryAfter() time.Duration {
	if a.RetryAt.IsZero() {
		return 0
	}
	return max(0, a.RetryAt.Sub(a.At))
}

// isLonger reports whether a, of a refusal, makes the caller wait longer than other.
func (a *Answer) isLonger(other *Answer) bool {
	return !other.Never && (a.Never || a.RetryAt.After(other.RetryAt))
}

// Shadow is what a shadow policy would have decided.
type Shadow struct {
	ID      offences.RefusalID // as Decision.ID, of the shadow policy's record
	Outcome Outcome
	Policy  *rules.Policy
	Answer
}

// DecidingRule returns the rule that would have refused, false where none.
func (s *Shadow) DecidingRule() (rules.Rule, bool) { return decidingRule(s.Policy, s.Answer) }

func decidingRule(p *rules.Policy, a Answer) (rules.Rule, bool) {
	if p == nil || a.Rule < 0 || a.Rule >= len(p.Rules) {
		return rules.Rule{}, false
	}
	return p.Rules[a.Rule], true
}

// Recorder hears of every decision that is not a peek, on the check path: it
// must be quick, must not block and must not keep d.
type Recorder interface {
	Record(d *Decision)
}

// ReportRecorder hears of every report, whether or not a policy counts it, under the
// same conditions as a Recorder.
type ReportRecorder interface {
	RecordReport(a *Reported)
}

// Discard is a Recorder that does nothing.
type Discard struct{}

// Record does nothing.
func (Discard) Record(*Decision) {}

// RecordReport does nothing.
func (Discard) RecordReport(*Reported) {}

// Recorders are several Recorders as one.
type Recorders []Recorder

// Record calls each in order.
func (r Recorders) Record(d *Decision) {
	for _, one := range r {
		one.Record(d)
	}
}
