package wire

// PolicyTrial compares what an unsaved policy would have done to recorded requests with
// what the active policies would have done to them.
type PolicyTrial struct {
	// Name is the policy that was tried.
	Name string `json:"name"`
	// Estimate says that the requests are only a sample of the traffic.
	Estimate bool `json:"estimate"`
	// FirstAt is the time of the first request, null without any.
	FirstAt Time `json:"first_at"`
	// LastAt is the time of the last request, null without any.
	LastAt Time `json:"last_at"`
	// Requests is how many requests were replayed.
	Requests int64 `json:"requests"`
	// Refused is how many of them all policies together refuse with the draft.
	Refused int64 `json:"refused"`
	// RefusedByDraft is how many of Refused the draft refuses: their answers name one of its
	// rules, or its escalation blocked them.
	RefusedByDraft int64 `json:"refused_by_draft"`
	// RefusedNow is how many of them all active policies together refuse.
	RefusedNow int64 `json:"refused_now"`
	// Rules are those of the draft and of the active version.
	Rules []TriedRule `json:"rules"`
	// NewlyRefused are keys with requests that the draft refuses and none that the active policies refuse.
	NewlyRefused TriedKeys `json:"newly_refused"`
	// MoreRefused are keys with more refused requests than under the active policies.
	MoreRefused TriedKeys `json:"more_refused"`
	// LessRefused are keys with fewer refused requests than under the active policies, but some.
	LessRefused TriedKeys `json:"less_refused"`
	// NewlyAllowed are keys with requests that the active policies refuse and none that the draft refuses.
	NewlyAllowed TriedKeys `json:"newly_allowed"`
	// Trap is what each path of a trap would have caught of the recorded traffic, null for
	// other policies and for a log.
	Trap *TrapPreview `json:"trap"`
	// Log counts the lines that were read, null for recorded traffic.
	Log *TriedLog `json:"log"`
	// Warnings say what else of a log was ignored, and what the draft looks at that the requests do not
	// have, so that it refused none of them; omitted without any.
	Warnings []string `json:"warnings,omitempty"`
}

// TriedRule is how many requests a rule refused.
type TriedRule struct {
	// Rule is the rule in its canonical form.
	Rule string `json:"rule"`
	// Active is how many it refused in the active version, null if it is not a rule of it.
	Active *int64 `json:"active"`
	// Draft is how many it refused in the draft, null if it is not a rule of it.
	Draft *int64 `json:"draft"`
}

// TriedKeys are the keys that the draft treats differently.
type TriedKeys struct {
	// Requests is how many more, or fewer, requests of these keys are refused.
	Requests int64 `json:"requests"`
	// Keys is how many keys there are.
	Keys int `json:"keys"`
	// Top are the most changed keys, at most ten.
	Top []TriedKey `json:"top"`
}

// TriedKey is one of TriedKeys.
type TriedKey struct {
	// Key is the key as it was counted.
	Key string `json:"key"`
	// Requests is how many requests it has in all.
	Requests int64 `json:"requests"`
	// Refused is how many of them all policies together refuse with the draft.
	Refused int64 `json:"refused"`
	// RefusedNow is how many of them all active policies together refuse.
	RefusedNow int64 `json:"refused_now"`
}

// TriedLog counts what was read from an access log.
type TriedLog struct {
	// Lines is how many lines the log has.
	Lines int64 `json:"lines"`
	// Invalid is how many of them contain no readable request.
	Invalid int64 `json:"invalid"`
}
