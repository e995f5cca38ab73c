package wire

// TrafficEstimate is how much of the allowed checks of a time range some keys make up:
// checks that were refused do not count. It
// is an estimate from a sample of all keys, never a count.
type TrafficEstimate struct {
	From      Time  `json:"from"`
	To        Time  `json:"to"`
	Keys      int64 `json:"keys"`       // those that are selected, with an allowed check
	AllKeys   int64 `json:"all_keys"`   // those with an allowed check
	Checks    int64 `json:"checks"`     // allowed ones of the selected keys
	AllChecks int64 `json:"all_checks"` // allowed ones of all keys
	// Ratio is the part of all allowed checks, 0 to 1. It is within RatioError of the true value
	// in 19 of 20 estimates.
	Ratio      float64 `json:"ratio"`
	RatioError float64 `json:"ratio_error"`
}

// PreviewRequest asks for the impact of a block.
type PreviewRequest struct {
	Pattern string `json:"pattern"` // as that of a new block
	// Literal says that the pattern is meant exactly as written.
	Literal bool `json:"literal,omitzero"`
}

// PreviewBlock says what a block would do.
var PreviewBlock = Op[PreviewRequest, Impact]{
	ID: "previewBlock", Route: "POST " + PathBlockPreview, Access: "read", Tag: TagBlocks, ReadOnly: true,
	Summary: "Show the impact of a block before it is added, and whether it needs a confirmation.", Answer: "Its impact.",
}

// Impact is what a block would refuse, and what it overlaps with.
type Impact struct {
	// Pattern is canonical: several separated by commas for a range or a list, and all else is
	// of them together.
	Pattern string `json:"pattern"`
	// Estimate is its part of the last day's traffic, with the keys that are blocked or exempt
	// already; null if no traffic is recorded.
	Estimate *TrafficEstimate `json:"estimate"`
	// Counted is what its counted keys did in the last day, null if nothing is
	// counted.
	Counted *CountedKeys `json:"counted"`
	// Suggested is a narrower pattern that makes at least four fifths of the
	// offences, null if there is none.
	Suggested *SuggestedPattern `json:"suggested_pattern"`
	// Hidden says that an exemption covers all of it; Exemptions are those that
	// cover it or a part.
	Hidden     bool    `json:"hidden"`
	Exemptions []Entry `json:"exemptions"`
	// CoveredBy are the blocks that refuse all of it already, Covers those
	// that it makes superfluous.
	CoveredBy []Entry `json:"covered_by"`
	Covers    []Entry `json:"covers"`
	// More says that there are more exemptions or blocks than are named.
	More bool `json:"more"`
	// BlocksCaller says that it refuses the address that asked.
	BlocksCaller bool `json:"blocks_caller"`
	// Confirm is what adding it needs as confirm, null if it needs nothing,
	// and ConfirmReason why.
	Confirm       NullString `json:"confirm"`
	ConfirmReason NullString `json:"confirm_reason"`
	Warnings      []string   `json:"warnings"`
	// Extent is the size of a pattern of an origin; omitted for other patterns, and where
	// no file of the node knows it.
	Extent *OriginExtent `json:"extent,omitzero"`
}

// OriginExtent is how much of the addresses a pattern such as asn:64500 selects.
type OriginExtent struct {
	Ranges    int    `json:"ranges"`    // of both families
	Addresses uint64 `json:"addresses"` // of IPv4
	// IPv6Networks is the size in networks of /32, which may be less than 1.
	IPv6Networks float64 `json:"ipv6_networks"`
}

// CountedKeys is what the keys of a pattern did that are counted one by one.
type CountedKeys struct {
	Keys      int64 `json:"keys"`
	Offenders int64 `json:"offenders"` // keys that were refused
	Allowed   int64 `json:"allowed"`   // checks
	Refused   int64 `json:"refused"`
	// All are the sums over every key; AllKeys is an estimate.
	AllKeys    int64 `json:"all_keys"`
	AllAllowed int64 `json:"all_allowed"` // allowed checks of all keys
	AllRefused int64 `json:"all_refused"` // refused checks of all keys
	// Exact is false if there are too many keys to be counted one by one: Keys and
	// Allowed are lower bounds then.
	Exact bool `json:"exact"`
}

// SuggestedPattern is a part of a pattern that makes most of its offences.
type SuggestedPattern struct {
	Pattern string `json:"pattern"`
	Allowed int64  `json:"allowed"` // checks of the last day
	Refused int64  `json:"refused"`
}

// ImportAnswer is what an import did, or a dry run would do.
type ImportAnswer struct {
	DryRun    bool `json:"dry_run"`   // nothing was changed
	Rows      int  `json:"rows"`      // valid and invalid
	Created   int  `json:"created"`   // new entries
	Extended  int  `json:"extended"`  // entries whose expiry was moved
	Replaced  int  `json:"replaced"`  // entries that were ended and added again
	Unchanged int  `json:"unchanged"` // patterns with an active entry, left as they were
	Invalid   int  `json:"invalid"`   // rows that cannot be imported
	// Exempt counts the valid rows of blocks that an exemption covers entirely.
	Exempt int `json:"exempt"`
	// Ended counts the valid rows that are left out because their ended_at says that the
	// entry has ended.
	Ended int `json:"ended"`
	// InvalidRows are the first of the invalid rows.
	InvalidRows []BadRow `json:"invalid_rows"`
	// Confirm is what importing the file needs as the parameter confirm, null
	// where it needs nothing. Broad says why, by the first BroadRows of
	// BroadCount; all three only in a dry run.
	Confirm    NullString `json:"confirm"`
	BroadCount int        `json:"broad_count"`
	Broad      []BroadRow `json:"broad"`
	// Estimate is what the new blocks of a dry run would have refused in the
	// last day beside what is blocked or exempt already, null if that is not known, and for
	// exemptions.
	Estimate *TrafficEstimate `json:"estimate"`
}

// BroadRow is a row, or several that are broad together, of a file that needs a
// confirmation.
type BroadRow struct {
	Line int `json:"line"` // of the first row
	Rows int `json:"rows"` // the number of rows that are broad together
	// Pattern is the row's, or the network that the rows make together; null
	// where they make no one network.
	Pattern       NullString `json:"pattern"`
	ConfirmReason string     `json:"confirm_reason"` // why a confirmation is needed
	// Estimate is the part of the last day's traffic that Pattern matches, as the preview of a
	// block has it: with the keys that are blocked or exempt already. It is null without a
	// pattern, or where no traffic is recorded.
	Estimate *TrafficEstimate `json:"estimate"`
	// Hidden says that an exemption covers all of it, and BlocksCaller that it
	// refuses the address that asked.
	Hidden       bool `json:"hidden"`
	BlocksCaller bool `json:"blocks_caller"`
	// Exemptions are the patterns of exemptions that cover it or a part.
	Exemptions []string `json:"exemptions"`
}

// BadRow is a row of a file that cannot be imported.
type BadRow struct {
	Line    int    `json:"line"`    // of the file, from 1
	Problem string `json:"problem"` // what is wrong
}

// Event is the data of a server-sent event of GET /v1/events. Fields that do not belong
// to its kind are omitted.
type Event struct {
	Kind string `json:"kind" enum:"decision,block,change,hold,notice"` // decision, block, change, hold or notice
	At   Time   `json:"at"`

	Key      string     `json:"key,omitzero"`
	Decision string     `json:"decision,omitzero" enum:"allowed,limited,blocked,challenged,unavailable"`
	Policy   NullString `json:"policy,omitzero"`
	Rule     string     `json:"rule,omitzero"`
	Block    string     `json:"block,omitzero"`   // its id
	Refusal  string     `json:"refusal,omitzero"` // opens the refusal's record
	RetryAt  Time       `json:"retry_at,omitzero"`
	Source   string     `json:"source,omitzero"`
	Method   string     `json:"method,omitzero"` // of the request, in lower case
	Path     string     `json:"path,omitzero"`   // of the request, without its query
	// Reported is the outcome of a report, which the decision is about: allowed if the
	// policy had room for it, limited if not. Omitted for a check.
	Reported     string `json:"reported,omitzero"`
	Degraded     string `json:"degraded,omitzero"`      // why
	Shadow       string `json:"shadow,omitzero"`        // what a shadow policy would have decided
	ShadowPolicy string `json:"shadow_policy,omitzero"` // its name

	// Change is the audit's entry of a block or change.
	Change *AuditEntry `json:"change,omitzero"`

	// Hold is what became of a hold of Key under Policy.
	Hold *HoldChange `json:"hold,omitzero"`

	// Notice says what the stream left out, and Skipped how many events that
	// were, where it is known.
	Notice  string `json:"notice,omitzero"`
	Skipped int64  `json:"skipped,omitzero"`
}
