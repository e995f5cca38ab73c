package wire

// PolicyTrial is what a policy that is not saved would have done to recorded requests,
// beside what the active policies would have done to them.
type PolicyTrial struct {
	Name string `json:"name"`
	// Estimate says that the requests are only a sample of the traffic.
	Estimate bool `json:"estimate"`
	// FirstAt and LastAt are the times of the requests, null without any.
	FirstAt    Time  `json:"first_at"`
	LastAt     Time  `json:"last_at"`
	Requests   int64 `json:"requests"`
	Refused    int64 `json:"refused"`     // with the draft
	RefusedNow int64 `json:"refused_now"` // by the active policies
	// Rules are those of the draft and of the active version.
	Rules        []TriedRule `json:"rules"`
	NewlyRefused TriedKeys   `json:"newly_refused"`
	NewlyAllowed TriedKeys   `json:"newly_allowed"`
	// Log counts the lines that were read, null for recorded traffic.
	Log *TriedLog `json:"log"`
}

// TriedRule is how many requests a rule refused, null where it is not a rule of the
// draft or of the active version.
type TriedRule struct {
	Rule   string `json:"rule"`
	Active *int64 `json:"active"`
	Draft  *int64 `json:"draft"`
}

// TriedKeys are the keys that the draft treats differently.
type TriedKeys struct {
	Requests int64 `json:"requests"` // that are treated differently
	Keys     int   `json:"keys"`
	// Top are the most changed keys, at most ten.
	Top []TriedKey `json:"top"`
}

// TriedKey is one of TriedKeys.
type TriedKey struct {
	Key      string `json:"key"`
	Requests int64  `json:"requests"`
	Changed  int64  `json:"changed"`
}

// TriedLog counts what was read from an access log.
type TriedLog struct {
	Lines   int64 `json:"lines"`
	Invalid int64 `json:"invalid"` // without a request that can be read
}
