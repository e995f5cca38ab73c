package client

import "time"

// Outcome is what was decided.
type Outcome string

// The outcomes.
const (
	Allowed     Outcome = "allowed"
	Limited     Outcome = "limited"     // by a rule
	Blocked     Outcome = "blocked"     // by a block
	Challenged  Outcome = "challenged"  // until the client's browser solves a challenge
	Unavailable Outcome = "unavailable" // an outage, where the policy or FailClosed says so
)

// Never is a RetryAfter or ResetAfter that no wait reaches.
const Never time.Duration = -1

// Answer is what decisions about one key and about several have in common. The
// zero value refuses.
type Answer struct {
	// ID opens the record of a refusal; "" if nothing was refused.
	ID      string
	Outcome Outcome
	Allowed bool
	// Degraded says that the log was unreachable: the decision may
	// differ from that of all nodes together. DegradedReason is empty unless it is
	// true.
	Degraded       bool
	DegradedReason string
	// RetryAfter and RetryAt say when to ask again. Both are zero if the check was
	// allowed; they are Never and zero if waiting never helps. Wait by RetryAfter:
	// RetryAt is by Stint's clock.
	RetryAfter time.Duration
	RetryAt    time.Time
	// Delay is how long to wait before making the reserved request; 0 if it may be made at
	// once.
	Delay time.Duration
	// Reservation is what was reserved, or charged by a Cancellable check; nil if nothing was.
	Reservation *Reservation
	// Held is what the check holds, until Settle, Release or its expiry; nil if it holds nothing.
	Held *HeldCost
	// TooManyHolds says that the check waits longest because the key has as many open holds as one may
	// have.
	TooManyHolds bool
	// Replayed says that the idempotency key had been charged before, and
	// that nothing was charged now.
	Replayed bool
	// Outage says why this client decided instead of Stint; nil if Stint decided. If it is
	// set, Degraded is true.
	Outage error
}

// Reservation is a time at which a request may be made.
type Reservation struct {
	At     time.Time // on Stint's clock
	Handle string    // by which Cancel cancels it
}

// Decision answers a check.
type Decision struct {
	Answer
	Key    string // canonical
	Policy string // "" if none matched
	Mode   string // of the policy: "enforce", "shadow" or "off"
	// Conditional says that the policy has conditions: the decision is about this request,
	// not about every request of the key.
	Conditional bool
	// DerivedKey is the further key, as account:alice, that the decision is about by the also of
	// the policy; "" if it is about Key.
	DerivedKey string
	// Rule is the rule with the longest wait; "" if no rule refused the check.
	Rule string
	// Rules is what each rule has left; nil if it was not asked for or is
	// not known.
	Rules []RuleState
	// Block is the block that refuses the key; nil if none does.
	Block *Block
	// Shadow is what a policy on trial would have decided; nil without one.
	Shadow *Shadow
	// Evidence says in a sentence what the key got its points for; "" unless a rule of points refused it.
	Evidence string
	// Exemption let the key through; nil if none did.
	Exemption *Exemption
	// Warnings point out probable mistakes, for example a block that has no effect because
	// of an exemption.
	Warnings []string
	// Challenge is the path where a challenged browser gets a pass; "" unless Outcome is
	// Challenged. See ChallengeHandler.
	Challenge string
	// FromCache says that this client remembered the refusal and did not ask. Rules and
	// Shadow are then nil.
	FromCache bool
}

// RuleState is what one rule has left after the answer.
type RuleState struct {
	Rule      string // as "20/1m"
	Limit     int
	Window    time.Duration
	Remaining int
	// RetryAfter is this rule's own wait for the cost of the check: 0 if the rule allows it,
	// Never if it never will.
	RetryAfter time.Duration
	// ResetAfter is the time until the rule's whole limit is available again without
	// further requests; 0 if it is available now.
	ResetAfter time.Duration
}

// Block refuses a pattern of keys.
type Block struct {
	ID, Pattern, Reason, Source string
	ExpiresAt                   time.Time // zero: never
}

// Exemption lets a pattern of keys through.
type Exemption struct {
	ID, Pattern, Reason string
	ExpiresAt           time.Time // zero: never
}

// Shadow is what a policy on trial would have decided.
type Shadow struct {
	Answer
	Policy string
	Rule   string
	Rules  []RuleState
}

// CombinedDecision answers a CombinedCheck.
type CombinedDecision struct {
	Answer
	// Decisions has the decision about each key, in the order of the check. It is nil if
	// this client decided instead of Stint.
	Decisions []Decision
}
