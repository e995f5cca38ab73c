package wire

// PolicyExplanation says in words what a policy does, and what saving it changes.
type PolicyExplanation struct {
	Name string `json:"name"`
	// Version is the active version of that name, 0 if there is none.
	Version int64 `json:"version"`
	// Applies says which requests or reports the policy is for; null if it has neither
	// conditions nor an outcome.
	Applies NullString `json:"applies"`
	// Limits is one sentence, for example "At most 20 in any minute."
	Limits string `json:"limits"`
	// Details say how soon the limits are used up at full speed, or what a counter does
	// not promise.
	Details NullString `json:"details"`
	// Counting names the algorithm and its options.
	Counting string `json:"counting"`
	// Advice says what would suit such rules better.
	Advice NullString `json:"advice"`
	// UsedUp is empty for counters, whose bursts depend on when they come.
	UsedUp   []RuleUsedUp `json:"used_up"`
	Warnings []string     `json:"warnings"`
	// Changes are what differs from the active version.
	Changes []FieldChange `json:"changes"`
	// ResetsCounts says what becomes of the counts when it is saved; null if they stay.
	ResetsCounts NullString `json:"resets_counts"`
	// ConfirmReason is why saving it needs a confirmation; null if it needs none.
	ConfirmReason NullString `json:"confirm_reason"`
}

// RuleUsedUp says how soon a rule's limit is used up at full speed.
type RuleUsedUp struct {
	Rule    string `json:"rule"`
	AfterMS int64  `json:"after_ms"` // 0: at once
}
