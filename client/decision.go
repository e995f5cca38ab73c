package client

import "time"

// Outcome is what was decided.
type Outcome string

// The verdicts.
const (
	Allowed     Outcome = "allowed"
	Limited     Outcome = "limited"     // by a rule
	Blocked     Outcome = "blocked"     // by a block
	Unavailable Outcome = "unavailable" // an outage, where the policy or FailClosed says so
)

// Never is a RetryAfter or Reset that no waiting reaches.
const Never time.Duration = -1

// Answer is what decisions about one key and about several have in common. The
// zero value refuses.
type Answer struct {
	// ID opens the record of a refusal; "" where nothing was refused.
	ID      string
	Outcome Outcome
	Allowed bool
	// Degraded says that the log was unreachable: the decision may
	// differ from that of all nodes together. DegradedReason is empty unless it is
	// true.
	Degraded       bool
	DegradedReason string
	// RetryAfter and RetryAt say when to ask again: 0 and zero where it was
	// allowed, Never and zero where waiting never helps. RetryAt is on
	// Stint's clock, so that RetryAfter is the one to wait by.
	RetryAfter time.Duration
	RetryAt    time.Time
	// Delay is how long after the answer the reserved request may be done; 0 where it may be
	// done at once.
	Delay time.Duration
	// Reservation is what was reserved; nil where nothing was.
	Reservation *Reservation
	// Replayed says that the idempotency key had been charged before, and
	// that nothing was charged now.
	Replayed bool
	// Outage says why this client decided in Stint's place, nil where Stint
	// decided. Degraded is true then.
	Outage error
}

// Reservation is a request's reserved place.
type Reservation struct {
	At     time.Time // on Stint's clock
	Handle string    // by which Cancel cancels it
}

// Decision answers a check.
type Decision struct {
	Answer
	Key    string // canonical
	Policy string // "" where none matched
	Mode   string // of the policy: "enforce", "shadow" or "off"
	// Conditional says that the policy has conditions: the answer is about this request
	// and not about every request of the key.
	Conditional bool
	// Rule makes the caller wait longest; "" where it was not a rule.
	Rule string
	// Rules is what each rule has left; nil where it was not asked for or is
	// not known.
	Rules []RuleState
	// Block is what refuses the key; nil where none does.
	Block *Block
	// Shadow is what a policy on trial would have decided; nil without one.
	Shadow *Shadow
	// Exemption let the key through; nil where none did.
	Exemption *Exemption
	// Warnings points out what is probably not meant, for example a block that
	// an exemption hides.
	Warnings []string
	// FromCache says that this client knew the refusal and did not ask. Rules
	// and Shadow are nil then.
	FromCache bool
}

// RuleState is what one rule has left after the answer.
type RuleState struct {
	Rule      string // as "20/1m"
	Limit     int
	Window    time.Duration
	Remaining int
	// RetryAfter is this rule's own wait for the cost that was asked: 0 if the rule
	// allows it, Never if it never will.
	RetryAfter time.Duration
	// ResetAfter is the time until the rule's whole limit is available again if
	// nobody comes; 0 if nothing counts.
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

// CombinedDecision answers a question about several keys: it was allowed only if
// each part was, and otherwise nothing was charged to any.
type CombinedDecision struct {
	Answer
	// Decisions answers each key, in the order in which they were asked. It is nil
	// where this client decided in Stint's place.
	Decisions []Decision
}
