// Package gate answers checks. It goes through exemptions, blocks, policies and the log in this
// order, and is the only place that does so. The front ends translate a decision for their
// clients, for example into a status or a header.
package gate

import (
	"crypto/rand"
	"math"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/bots"
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
	Challenged  Outcome = "challenged"  // by a rule or a block, until the client has a pass
	Unavailable Outcome = "unavailable" // an outage under on_failure: deny
)

// Check asks whether a key may do one more request.
type Check struct {
	Key keys.Key
	// Client is the address of the client if Key is not an address; zero for none. Its exemptions
	// and blocks apply as well.
	Client keys.Key
	// Address is the address of the client if neither Key nor Client is one; zero if it is not known.
	// Conditions on its origin and on who its bot is go by it, and nothing else.
	Address keys.Key
	Policy  string // the name of the policy to ask, "" for the best match
	// Specific leaves out policies that match the key only by the pattern "*".
	Specific bool
	// Cost is at least 1 and at most timestamplog.MaxCost, timestamplog.MaxUsage with ChargeAlways, or
	// algorithms.MaxAmount under a policy of amounts; 0 for the cost that the policy says.
	Cost   int
	Peek   bool   // answer without charging or counting anything
	Detail bool   // fill in what each rule has left
	Source string // the caller, for display; never trusted
	// Caller is the name of the token of the request, "" for none. What the check holds says who holds it:
	// the caller, or else Source.
	Caller string
	Meta   map[string]string
	// ChargeAlways reports usage after the fact: if a rule refuses the check, as much of its cost
	// as fits is charged. MaxWait must be 0. See timestamplog.Request.
	ChargeAlways bool
	// Pass is the key of the client's pass, zero for none. The check is also counted for the pass,
	// under the policy of the pass, and rules and blocks that challenge allow the check.
	Pass keys.Key
	// Request describes the request, nil for no description. Policies with conditions that it
	// meets apply in addition to the key's own policy and to those with an outcome.
	Request *conditions.Request
	// MaxWait is how long the caller would wait for its reservation, in whole
	// milliseconds up to timestamplog.MaxWait; 0 asks for an answer at once.
	MaxWait time.Duration
	// Clipped lowers a cost with ChargeAlways that is more than the policy takes to the most that it
	// takes, where it would be an error otherwise.
	Clipped bool
	// Cancellable asks for a handle by which the charge of the check can be cancelled as long as it
	// counts. ChargeAlways must not be set.
	Cancellable bool
	// Hold is how long the check holds its cost unless it is settled before, 0 for the time that the
	// policy says, and HoldElse if that says none. With Hold, MaxWait must be 0 and ChargeAlways false.
	Hold, HoldElse time.Duration
	// holdID is the ID of what the check holds; costUnsaid reports that Cost is what the policy says.
	holdID string
	// bot is who the request says that it is, if that is a known bot. countsBot reports that this check
	// is the one of several keys of one request that its evidence, or what is recorded of it, counts for.
	bot        bots.Identity
	countsBot  bool
	costUnsaid bool
	// ID names the request, "" for none. If it is sent again soon after it was charged, it is
	// answered again and not charged. At most timestamplog.MaxID bytes.
	ID string
	// isNewID is set if the ID was made for this check, so that the log cannot know it.
	isNewID bool
}

// ensureID gives a check that may make a reservation an ID, by which the log recognizes the
// reservation.
func (c *Check) ensureID() {
	if (c.MaxWait > 0 || c.Cancellable) && c.ID == "" && !c.Peek {
		c.ID, c.isNewID = rand.Text(), true
	}
}

// Bot returns who the request of a decided check says that it is; Agent is nil if that is no known bot, or
// if another check of the same request is recorded for it.
func (c *Check) Bot() bots.Identity {
	if !c.countsBot {
		return bots.Identity{}
	}
	return c.bot
}

// matchIn returns what the active entries say about the check's key, its client and its bot.
func (c *Check) matchIn(set *blocks.Set, at time.Time) blocks.Match {
	scope := ""
	if len(set.Scopes()) > 0 { // whether a POST is a login takes a seventh of a check to find out
		scope = c.Request.Scope()
	}
	match := set.MatchIn(c.Key, scope, at)
	if !c.Client.IsZero() {
		match = match.With(set.MatchIn(c.Client, scope, at))
	}
	counted := c.bot.CountedKeys()
	for i, key := range c.bot.Keys() {
		about := set.MatchIn(key, scope, at)
		if counted[i] != key {
			about = about.With(set.MatchIn(counted[i], scope, at))
		}
		if !c.bot.IsVerified() { // anybody can say to be a bot
			about.Exemption = nil
		}
		match = match.With(about)
	}
	return match
}

// Decision is the answer to a Check, or what one policy decided. Recorders receive three kinds:
//
//   - the answer to a check,
//   - an element of its Additional, with IsAdditional set,
//   - what one policy decided about a report, with Reported and IsAdditional set.
//
// The last two have a policy, as Policy or Shadow.Policy. They have no Exemption, no Additional
// and no Handle.
type Decision struct {
	// Check is the check, with the cost that the policy was asked about. Meta of a refusal may also
	// have EvidenceMeta. For a report, Check is made of the report.
	Check   Check
	Outcome Outcome
	// ID opens the record of a refusal; zero if nothing was refused. A peek has an ID too, which
	// opens the record of refusals that were counted for others.
	ID offences.RefusalID
	// Policy is the policy that was asked, nil if none applies.
	Policy *rules.Policy
	// OwnLimit is the key's own limit, whose rules replace those of Policy; nil for none.
	OwnLimit *profiles.Limit
	// ownLeft is for how long OwnLimit still applies, 0 if that is not known.
	ownLeft time.Duration
	Answer
	// Exemption is the exemption that let the key pass, nil for none.
	Exemption *blocks.Entry
	// Block is the block that refuses the key, or would without Exemption.
	Block *blocks.Entry
	// ListShadow is the row of a list in shadow mode that would refuse the key, nil for none.
	ListShadow *blocks.Entry
	// Additional are the decisions of the policies with conditions that apply to Check.Request,
	// and of those with an outcome; for a shadow policy, only Shadow is set. The Decision itself
	// is that of the enforcing policy that makes the caller wait longest. It is Allowed only if
	// all are, and nothing was charged otherwise.
	Additional []Decision
	// IsAdditional reports that the decision is that of one policy only. It does not count as a
	// check: the check is recorded with the decision whose Additional has this one, and a report
	// is no check.
	IsAdditional bool
	// Reported is the outcome that was reported, "" for a check. The decision is then Limited if
	// the policy had no room for the report.
	Reported string
	// Shadow is what the shadow policy would have decided, nil if there is none.
	Shadow *Shadow
	// Evidence are the items of evidence that policies charge for what the request of the check shows,
	// nil for none.
	Evidence []*rules.Evidence
	// Handle cancels the reservation; "" if nothing was reserved.
	Handle string
	// Hold is what the check holds, of an allowed check that was decided alone.
	Hold Hold
	// Degraded describes the outage during which the decision was made, "" for none. During an
	// outage decisions are not guaranteed to be exact.
	Degraded string
	// room is memory for the States of the Decision itself; nil if there is none yet.
	room []RuleState
	// more is memory for Additional, which is empty; nil if there is none yet.
	more []Decision
}

// Reset empties d but keeps the memory of its States and of Additional, so that d can be reused for another
// check once nobody reads them any more.
func (d *Decision) Reset() {
	states, more := d.States[:0], d.more
	if d.Additional != nil {
		clear(d.Additional)
		more = d.Additional[:0]
	}
	*d = Decision{}
	d.States, d.more = states, more
}

// RuleState is the state of a rule; see timestamplog.RuleState.
type RuleState = timestamplog.RuleState

// Never is the RetryAfterMS of a rule that always refuses.
const Never = timestamplog.Never

// errNotLoaded is the error of every decision before the first read of the database.
var errNotLoaded = fault.New(fault.Unavailable, "This node has not loaded its policies and blocks yet; try again in a moment.")

// Answer is the answer of a policy's log.
type Answer struct {
	// At is when the check was decided, by the log's clock if the log was asked, otherwise by the
	// node's.
	At time.Time
	// RetryAt is the earliest time at which a retry may succeed. It is zero if the check was
	// allowed, and if waiting never helps (Never). A limit of the key's own refuses until it ends
	// at most.
	RetryAt time.Time
	Never   bool
	// Rule is the index in the policy's stack of the rule that makes the caller wait longest, -1
	// if no rule refuses.
	Rule int
	// Derived is the further key of the request that the answer is about, nil for the
	// key of the check itself.
	Derived *keys.Key
	// Boundary is the logged time that must leave the window of Rule, otherwise zero.
	Boundary time.Time
	// States has the state of each rule if Check.Detail asked for it.
	States []RuleState
	// Delay is how long to wait if the request was allowed for a reservation ahead; for a peek,
	// how long the wait would be.
	Delay time.Duration
	// ReservedAt is the reserved time by the log's clock. It is zero if nothing was reserved: the
	// request was allowed at once and is not Cancellable, refused, a peek, or answered during an outage.
	ReservedAt time.Time
	// reservedCost is the cost of the reservation, and counts for how long its charge may be cancelled.
	reservedCost int
	counts       time.Duration
	// HeldUntil is when what the check holds under the policy expires, zero if it holds nothing.
	HeldUntil time.Time
	// TooManyHolds reports that the key has as many open holds as one may have.
	TooManyHolds bool
	// Replayed reports that the request's ID was charged before and that nothing was charged now.
	Replayed bool
}

// refusedBy returns the outcome of a check that a rule of p refuses for a key. A pass that has used up
// its limit is not challenged again: solving another challenge would be a way around the limit.
func refusedBy(p *rules.Policy, counted keys.Key) Outcome {
	if p.OnLimit == rules.ChallengeOnLimit && !counted.IsPass() {
		return Challenged
	}
	return Limited
}

// Plain returns the outcome in words that every client knows: what refuses a challenged check would
// limit or block it otherwise.
func (d *Decision) Plain() Outcome {
	switch {
	case d.Outcome != Challenged:
		return d.Outcome
	case d.Block != nil:
		return Blocked
	}
	return Limited
}

// Allowed reports whether the request may be done.
func (d *Decision) Allowed() bool { return d.Outcome == Allowed }

// CountedKey returns the key that the policy counts: a further key of the request, or the key of
// the check.
func (d *Decision) CountedKey() keys.Key { return d.Answer.countedKey(&d.Check) }

func (a *Answer) countedKey(c *Check) keys.Key {
	if a.Derived != nil {
		return *a.Derived
	}
	return c.Key
}

// DecidingRule returns the rule that refused, false if none did.
func (d *Decision) DecidingRule() (rules.Rule, bool) { return decidingRule(d.Policy, d.Answer) }

// maxRetryAfter bounds RetryAfter, so that rounding it up does not overflow, here and in clients.
const maxRetryAfter = math.MaxInt64 - time.Minute

// RetryAfter returns how long to wait until RetryAt, zero if RetryAt is. A block may end thousands
// of years ahead; the longest wait is some 292 years.
func (a *Answer) RetryAfter() time.Duration {
	if a.RetryAt.IsZero() {
		return 0
	}
	return min(max(0, a.RetryAt.Sub(a.At)), maxRetryAfter)
}

// endIn bounds the waits of a, which is an answer under rules that apply only for that much longer,
// 0 if that is not known: from then on others decide, and may refuse too.
func (a *Answer) endIn(left time.Duration) {
	if left <= 0 {
		return
	}
	ms := int64((left + time.Millisecond - 1) / time.Millisecond)
	end := a.At.Add(time.Duration(ms) * time.Millisecond)
	if a.Never || a.RetryAt.After(end) {
		a.RetryAt, a.Never = end, false
	}
	for i := range a.States {
		a.States[i].RetryAfterMS = min(a.States[i].RetryAfterMS, ms)
	}
}

// isLonger reports whether a makes the caller of a refused check wait longer than other.
func (a *Answer) isLonger(other *Answer) bool {
	return !other.Never && (a.Never || a.RetryAt.After(other.RetryAt))
}

// Shadow is what a shadow policy would have decided.
type Shadow struct {
	ID      offences.RefusalID // like Decision.ID, but of the shadow policy's record
	Outcome Outcome
	Policy  *rules.Policy
	Answer
}

// Plain is Decision.Plain.
func (s *Shadow) Plain() Outcome {
	if s.Outcome == Challenged {
		return Limited
	}
	return s.Outcome
}

// DecidingRule returns the rule that would have refused, false if none would have.
func (s *Shadow) DecidingRule() (rules.Rule, bool) { return decidingRule(s.Policy, s.Answer) }

func decidingRule(p *rules.Policy, a Answer) (rules.Rule, bool) {
	if p == nil || a.Rule < 0 || a.Rule >= len(p.Rules) {
		return rules.Rule{}, false
	}
	return p.Rules[a.Rule], true
}

// Recorder receives every decision that is not a peek. Record is called while the caller of the
// check waits, so it must be quick, must not block and must not keep d.
type Recorder interface {
	Record(d *Decision)
}

// ReportRecorder receives every report, whether or not a policy counts it. The conditions are
// those of a Recorder.
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
