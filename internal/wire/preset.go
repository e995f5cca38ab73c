package wire

// Preset is a policy file that Stint ships.
type Preset struct {
	Name     string          `json:"name"`     // as in stint-admin apply --preset
	Title    string          `json:"title"`    // for people
	Summary  string          `json:"summary"`  // what it is for and what it does
	Policies []PolicyRequest `json:"policies"` // as applying it to policies without any of these names would make them
}

// PresetPreview is what the traps of a preset would have caught.
type PresetPreview struct {
	// Name is the preset.
	Name string `json:"name"`
	// Traps are its policies that refuse every request for certain paths; none for a
	// preset without.
	Traps []TrapPreview `json:"traps"`
}

// TrapPreview is what a trap would have caught of the recorded traffic. All counts are of
// the recorded keys that the policy selects and that are not exempt.
type TrapPreview struct {
	// Policy is the trap.
	Policy string `json:"policy"`
	// FirstAt is the beginning of what was recorded of the time, null for nothing.
	FirstAt Time `json:"first_at"`
	// LastAt is the end of what was recorded of it, null for nothing. The newest two
	// minutes are not recorded yet.
	LastAt Time `json:"last_at"`
	// SampleRatio is the part of all keys that was recorded, 1 for every key.
	SampleRatio float64 `json:"sample_ratio"`
	// Keys is how many keys were recorded.
	Keys int64 `json:"keys"`
	// Requests is how many requests of them were recorded.
	Requests int64 `json:"requests"`
	// WithPath is of how many of these the path is known.
	WithPath int64 `json:"with_path"`
	// LeftOut is of how many of them the path was not kept, since it was longer than 256
	// bytes or there were too many different ones in a minute.
	LeftOut int64 `json:"left_out"`
	// Caught is how many requests the trap would have refused.
	Caught int64 `json:"caught"`
	// CaughtKeys is how many keys sent them.
	CaughtKeys int64 `json:"caught_keys"`
	// RefusedNow is how many of them were refused anyway.
	RefusedNow int64 `json:"refused_now"`
	// Other is how many requests of the caught keys for other paths were allowed and not
	// reported to have failed. They may be those of people.
	Other int64 `json:"other"`
	// OtherKeys is how many of the caught keys sent such requests.
	OtherKeys int64 `json:"other_keys"`
	// BlockedKeys is how many of the caught keys the escalation of the policy would have
	// blocked.
	BlockedKeys int64 `json:"blocked_keys"`
	// Entries are the paths of the policy.
	Entries []TrapEntry `json:"entries"`
	// Top are the keys with the most requests caught, at most ten.
	Top []TrappedKey `json:"top"`
	// TopOther are the caught keys with the most other requests, at most ten: look at these
	// before the policy is enabled.
	TopOther []TrappedKey `json:"top_other"`
	// Note says what is not known and what to do about it, null for nothing.
	Note NullString `json:"note"`
}

// TrapEntry is what one path of a trap would have caught. A request counts for each entry
// that it matches.
type TrapEntry struct {
	// Path is the pattern.
	Path string `json:"path"`
	// Requests is how many requests it would have refused.
	Requests int64 `json:"requests"`
	// Keys is how many keys sent them.
	Keys int64 `json:"keys"`
	// OtherKeys is how many of these keys sent requests for paths that are not in the trap
	// that were allowed and not reported to have failed.
	OtherKeys int64 `json:"other_keys"`
}

// TrappedKey is a key that a trap would have caught.
type TrappedKey struct {
	// Key is the key as it was counted.
	Key string `json:"key"`
	// Caught is how many of its requests the trap would have refused.
	Caught int64 `json:"caught"`
	// Other is how many of its requests for other paths were allowed and not reported to
	// have failed.
	Other int64 `json:"other"`
	// Blocked says that the escalation of the policy would have blocked it.
	Blocked bool `json:"blocked"`
}
