package timestamplog

// Result is the answer to one Request. Times are Unix milliseconds on the log's clock. If Err
// is set, the other fields mean nothing.
type Result struct {
	Allowed bool
	// Now is when the request was decided.
	Now int64
	// ReservedAt is the time an allowed request is for: Now, or the time ahead
	// that was reserved. 0 for a refused request.
	ReservedAt int64
	// Replayed reports that the request's ID was charged before and that nothing
	// was charged now.
	Replayed bool
	// ReplayedCost is the cost with which the request was charged then, 0 if Replayed is not
	// set. The log may keep less of a cost above MaxCost, which no reservation has.
	ReplayedCost int
	// RetryAt is the earliest time at which the same request, with the same
	// MaxWait, would be allowed if nobody else came. 0 for an allowed request,
	// Never if a rule always refuses it, as with a cost above its limit.
	RetryAt int64
	// Rule is the index of the rule that makes the caller wait longest, -1 for an allowed
	// request. If only reservations ahead make the caller wait, it is the last rule.
	Rule int
	// Boundary is the time of the entry that must leave the window of Rule. It is 0 for an
	// allowed request, for a rule that always refuses, if only reservations ahead make the
	// caller wait, and under a counter.
	Boundary int64
	// TooManyHolds reports that a request with Hold waits longest because its log has as many open
	// holds as one may have, algorithms.MaxHolds.
	TooManyHolds bool
	// States has one element per rule, in order, if Request.Detail was set; none for an empty
	// stack.
	States []RuleState
	// RefusalValidUntil is the time until which the same request is refused as long as nothing
	// is logged. It is RetryAt, or the time at which the log expires if that is earlier, as
	// after a longer window was replaced by a shorter one. 0 for an allowed request, or if it
	// is not known.
	RefusalValidUntil int64
	// StatesValidUntil is the time until which States stay the same, except that their waits
	// run down, as long as nothing is logged and the request is refused. Never if they always
	// stay the same, 0 if it is not known.
	StatesValidUntil int64
	// FromCache reports that this node answered from its cache without asking the log. Such an
	// answer says nothing about whether the log is reachable.
	FromCache bool
	// Err is why the request was not answered; see Log.Decide.
	Err error
}

// RuleState describes one rule after the decision: an allowed request is included, a peek is
// not. If reservations are ahead, it describes the window that ends at the newest of them.
type RuleState struct {
	// Remaining is how much cost the rule still allows, at least 0.
	Remaining int
	// Under a rule that counts different values, RetryAfterMS and ResetAfterMS are about a
	// new value.
	//
	// RetryAfterMS is how many milliseconds from Result.Now another request of the same
	// cost would have to wait for this rule alone: 0 if the rule allows it now, Never if
	// the rule always refuses it.
	RetryAfterMS int64
	// ResetAfterMS is how many milliseconds from Result.Now it takes until the rule's whole
	// limit is available again if nobody comes: until the newest entry leaves its window, or
	// until the state of a counter expires. 0 if nothing counts, and for a rule with the limit
	// 0.
	ResetAfterMS int64
}
