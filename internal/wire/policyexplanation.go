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
	// ResetsCounts says how saving it resets the counts; null if they stay.
	ResetsCounts NullString `json:"resets_counts"`
	// ConfirmReason is why saving it needs a confirmation; null if it needs none.
	ConfirmReason NullString `json:"confirm_reason"`
	// Problem is why saving it would fail, for example a pattern of another policy; null if it would not.
	Problem NullString `json:"problem"`
}

// RuleUsedUp says how soon a rule's limit is used up at full speed.
type RuleUsedUp struct {
	Rule    string `json:"rule"`
	AfterMS int64  `json:"after_ms"` // 0: at once
}

// PolicyUsage is what a policy did in a time range, and how close its keys came to its
// rules.
type PolicyUsage struct {
	Name          string `json:"name"`
	From          Time   `json:"from"`           // inclusive
	To            Time   `json:"to"`             // exclusive
	Allowed       int64  `json:"allowed"`        // checks that it allowed; of a policy with conditions, an outcome or distinct values they are counted under the policy of the key
	Limited       int64  `json:"limited"`        // checks that its rules refused
	ShadowLimited int64  `json:"shadow_limited"` // what it would have refused in shadow mode, by its rules or under an outage
	Keys          int64  `json:"keys"`           // estimated, of which it decided
	// LastAt is when it last decided a check, of a policy with conditions, an outcome or
	// distinct values when it last refused one; null if it did not. It is the start of a part of the time range: a
	// thousandth of it, at least a minute, and whole hours above half an hour.
	LastAt Time `json:"last_at"`
	// Rules are those that count requests; empty if nothing is known, which Note explains.
	Rules []RuleUsage `json:"rules"`
	// SampleRatio is the part of the keys that Rules are known of, 1 for all.
	SampleRatio float64 `json:"sample_ratio"`
	// Note says what Rules leave out; null for nothing.
	Note NullString `json:"note"`
}

// RuleUsage is how close keys came to one rule. A key's peak is the highest cost of all its
// checks, allowed and refused, within one window of the rule.
type RuleUsage struct {
	Rule string `json:"rule"` // as 20/1m
	Keys int    `json:"keys"` // that were seen
	// Near is how many keys had a peak from four fifths of the limit up to the limit.
	Near int `json:"near"`
	// Over is how many keys had a peak above the limit.
	Over   int   `json:"over"`
	Median int64 `json:"median"` // half of the keys had no higher peak
	P95    int64 `json:"p95"`    // 95 of 100 keys had no higher peak
	P99    int64 `json:"p99"`    // 99 of 100 keys had no higher peak
	Max    int64 `json:"max"`    // the highest peak
	// Busiest are the keys with the highest peaks, at most five.
	Busiest []KeyPeak `json:"busiest"`
}

// KeyPeak is the peak of one key.
type KeyPeak struct {
	Key  string `json:"key"`  // canonical
	Peak int64  `json:"peak"` // what its checks cost in its busiest window
	At   Time   `json:"at"`   // the end of its busiest window
}
