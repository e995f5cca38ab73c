package wire

import (
	"strconv"
	"strings"
)

// The paths of what is declared here.
const (
	PathOffenders   = "/v1/offenders"
	PathOffences    = "/v1/offences"
	PathTraffic     = "/v1/traffic"
	PathAttack      = "/v1/attack"
	PathAttacks     = "/v1/attacks"
	PathEscalations = "/v1/escalations"
	PathProposals   = "/v1/proposals"
)

// TagOffenders is the group of these operations in the OpenAPI document.
var TagOffenders = Tag{"offenders", "Who was refused, how often, and what was done about it."}

// Offender is one row of the report of who offended.
type Offender struct {
	Key      string `json:"key"`
	Offences int64  `json:"offences"`
	// OffencesMax is the upper bound. It is above Offences if a node had to count more
	// keys than fit its memory.
	OffencesMax int64 `json:"offences_max"`
	// Allowed is at least how many checks were allowed.
	Allowed int64 `json:"allowed"`
	// RefusedRatio is the ratio of Offences to all checks of the key, 0 to 1.
	RefusedRatio float64 `json:"refused_ratio"`
	// Policy, Decision and RefusedBy name what refused most. RefusedBy is a rule such
	// as 20/1m, or the id of a block.
	Policy    NullString `json:"policy"`
	Decision  string     `json:"decision" enum:"limited,blocked,shadow"` // limited, blocked or shadow
	RefusedBy string     `json:"refused_by"`
	FirstAt   Time       `json:"first_at"`
	LastAt    Time       `json:"last_at"`
	// Block is active now; an Exemption hides it.
	Block     *Entry `json:"block"`
	Exemption *Entry `json:"exemption"`
	// BlockedScopes are the scopes in which a block refuses the key; omitted if there are none.
	BlockedScopes []string   `json:"blocked_scopes,omitzero"`
	Plan          NullString `json:"plan"`      // the key's plan, null for none
	OwnLimit      *OwnLimit  `json:"own_limit"` // the key's own limit that is active now, null for none
	// Escalation is the key's status under the policy that refused most, or under another that
	// counts the key; null without one.
	Escalation *EscalationStatus `json:"escalation"`
	// Trend has the offences of each part of the time range if points was sent.
	Trend []int64 `json:"trend,omitzero"`
	// Origin says whose address the key is; omitted if nothing is known.
	Origin *Origin `json:"origin,omitzero"`
}

// OriginReport sums offences by the origin of the addresses.
type OriginReport struct {
	From Time `json:"from"` // as of the report of offenders
	To   Time `json:"to"`
	// Items are those with most offences first, at most 1,000.
	Items []OriginOffences `json:"items"`
	// Total is the number of origins, Keys and Offences are of all of them.
	Total    int   `json:"total"`
	Keys     int64 `json:"keys"`
	Offences int64 `json:"offences"`
}

// OriginOffences are the offences of the addresses of one origin.
type OriginOffences struct {
	// Pattern selects them, such as asn:64500; null for keys without a known origin.
	Pattern  NullString `json:"pattern"`
	Name     string     `json:"name"` // of the autonomous system, empty if it is not known
	Keys     int64      `json:"keys"`
	Offences int64      `json:"offences"`
	Ratio    float64    `json:"ratio"`   // of all offences, 0 to 1
	Blocked  bool       `json:"blocked"` // by a block of the pattern
}

// OffenderReport is one page of who offended.
type OffenderReport struct {
	// From and To are the time range that was read: whole minutes, or hours or days
	// where minutes are no longer kept.
	From Time `json:"from"`
	To   Time `json:"to"`
	Page[Offender]
	// Keys and Offences are of all that the query selects.
	Keys     int64 `json:"keys"`
	Offences int64 `json:"offences"`
	// Other are offences that were counted together without their keys.
	Other int64 `json:"other"`
	// AllowedExact says that every Allowed is exact. Otherwise they are lower bounds, and the
	// ratios upper ones: up to Untracked allowed checks of the time range are missing from
	// them, and those of further keys, of shadow policies and of policies with conditions or
	// an outcome, which are counted for the address and under the policy that limits it.
	AllowedExact bool  `json:"allowed_exact"`
	Untracked    int64 `json:"untracked"`
}

// EscalationStatus is a key's level under its policy's escalation, and the next block.
type EscalationStatus struct {
	Policy string `json:"policy"`
	Shadow bool   `json:"shadow"` // the policy is in shadow mode: the key is not blocked
	Level  int    `json:"level"`  // automatic blocks so far, less what has decayed
	Levels int    `json:"levels"` // the level of the longest block
	// Count is the number of offences within Window; Threshold of them lead to the next block.
	Count     int64    `json:"count"`
	Threshold int64    `json:"threshold"`
	Window    Duration `json:"window"`
	// NextBlock is how long the next block is.
	NextBlock Duration `json:"next_block"`
	DecaysAt  Time     `json:"decays_at"` // when the level falls by one if there is no offence until then
	Paused    bool     `json:"paused"`    // by the safety limit, until an operator resumes it
}

// Timeline is what one key did over a time range.
type Timeline struct {
	Key string `json:"key"`
	// From and To are the time range that was read: whole minutes, or hours or days
	// where minutes are no longer kept.
	From Time `json:"from"`
	To   Time `json:"to"`
	// StepMS is the length of each point in milliseconds. Where no shorter ones are kept it is
	// an hour or a day, and there are fewer points than were asked for.
	StepMS  int64             `json:"step_ms"`
	Allowed int64             `json:"allowed"` // at least
	Points  []TimelinePoint   `json:"points"`
	Events  []EscalationEvent `json:"events"` // the newest first
}

// TimelinePoint is the offences of one part of the time range.
type TimelinePoint struct {
	At      Time  `json:"at"`
	Limited int64 `json:"limited"`
	Blocked int64 `json:"blocked"`
	Shadow  int64 `json:"shadow"` // the number of checks that a shadow policy would have refused
}

// EscalationEvent is one thing that an escalation did.
type EscalationEvent struct {
	ID       string     `json:"id"`
	At       Time       `json:"at"`
	Kind     string     `json:"kind"` // blocked, would_block, stopped or resumed
	Policy   string     `json:"policy"`
	Key      NullString `json:"key"`
	Level    int        `json:"level"` // of the block, from 1
	Offences int64      `json:"offences"`
	// Length is that of the block, omitted if there is none.
	Length  Duration   `json:"length,omitzero"`
	BlockID NullString `json:"block_id"`
	Detail  string     `json:"detail"`
}

// EscalationPause is an escalation that the safety limit has paused until an operator
// resumes it.
type EscalationPause struct {
	Policy string `json:"policy"`
	At     Time   `json:"at"`
	Detail string `json:"detail"`
}

// TimeRange selects a time range: the time up to now, or the time between two instants.
type TimeRange struct {
	Last string `query:"last" json:"-"` // The time up to now, for example 15m, 24h or 7d; 1h where no time range is given.
	From Time   `query:"from" json:"-"` // RFC 3339; the start of the time range.
	To   Time   `query:"to" json:"-"`   // RFC 3339; the end of the time range, exclusive; now if omitted.
}

// OffenderFilter selects offenders.
type OffenderFilter struct {
	Policy      string `query:"policy" json:"-"`                              // Only under the policy of this name.
	Pattern     string `query:"pattern" json:"-"`                             // Only keys that this pattern covers.
	Source      string `query:"source" json:"-"`                              // Only keys that were refused in checks from this source.
	Search      string `query:"search" json:"-"`                              // Only keys that contain this text, case-insensitive.
	Rule        string `query:"rule" json:"-"`                                // Only offences by this rule or block.
	NotRule     string `query:"not_rule" json:"-"`                            // No offences by this rule or block.
	MinOffences int    `query:"min_offences" json:"-" range:"1000000000"`     // Only keys with at least this many offences.
	Shadow      bool   `query:"shadow" json:"-"`                              // true for what shadow policies would have refused.
	State       string `query:"state" json:"-" enum:"open,blocked,exempt"`    // Only keys that are open (neither blocked nor exempt), blocked or exempt now, of the first 20,000 in the order.
	Sort        string `query:"sort" json:"-" enum:"offences,last,first,key"` // The order; most offences first if omitted.
	TimeRange
}

// OffenderList selects a page of offenders.
type OffenderList struct {
	PageList
	Points int `query:"points" json:"-" range:"120"` // Include the offences of each of this many parts of the time range, 1 to 120.
	OffenderFilter
}

// OffenderExport selects offenders and the format of a file of them.
type OffenderExport struct {
	Format string `query:"format" json:"-" enum:"json,csv"` // json if omitted.
	OffenderFilter
}

// OriginList selects offenders whose origins are summed.
type OriginList struct {
	By string `query:"by" json:"-" enum:"asn,country"` // asn if omitted.
	OffenderFilter
}

// TimelineOf selects the timeline of a key.
type TimelineOf struct {
	Key    string `query:"key" json:"-" required:"send for example ?key=ip:203.0.113.7"` // The key, for example ip:203.0.113.7.
	Points int    `query:"points" json:"-" range:"1440"`                                 // How many parts the time range is divided into, 1 to 1440; 60 if omitted.
	TimeRange
}

// TrafficOf selects traffic.
type TrafficOf struct {
	Policy string `query:"policy" json:"-"` // Only under the policy of this name.
	Step   string `query:"step" json:"-"`   // How long each part is, whole minutes such as 1m or 1h.
	TimeRange
}

// UsageOf selects the usage of a policy.
type UsageOf struct {
	Name string `path:"name" json:"-"`
	TimeRange
}

// The operations of offenders, attacks and traffic.
var (
	ListOffenders = Op[OffenderList, OffenderReport]{
		ID: "listOffenders", Route: "GET " + PathOffenders, Access: "read", Tag: TagOffenders,
		Summary: "List the offenders: how often each was refused, and its state now.", Answer: "One page of the report.",
	}
	ExportOffenders = Op[OffenderExport, File]{
		ID: "exportOffenders", Route: "GET " + PathOffenders + "/export", Access: "read", Tag: TagOffenders,
		Summary: "Export all offenders as a file.", Answer: "Every row.",
	}
	ListOrigins = Op[OriginList, OriginReport]{
		ID: "listOrigins", Route: "GET " + PathOffenders + "/origins", Access: "read", Tag: TagOffenders,
		Summary: "List where the offenders come from: their offences by autonomous system or country.", Answer: "The origins with most offences first.",
	}
	KeyTimeline = Op[TimelineOf, Timeline]{
		ID: "keyTimeline", Route: "GET " + PathOffenders + "/timeline", Access: "read", Tag: TagOffenders,
		Summary: "Show what one key did over a time range.", Answer: "Its offences over time and what its escalation did.",
	}
	GetOffence = Op[ByID, OffenceRecord]{
		ID: "getOffence", Route: "GET " + PathOffences + "/:id", Access: "read", Tag: TagOffenders,
		Summary: "Explain a refusal by the id that its answer carried.", Answer: "The explanation in one sentence, then in detail.",
	}
	GetPolicyUsage = Op[UsageOf, PolicyUsage]{
		ID: "getPolicyUsage", Route: "GET " + PathPolicies + "/:name/usage", Access: "read", Tag: TagPolicies,
		Summary: "Show what a policy allowed and refused, and how close its keys came to each rule.",
		Answer:  "The figures; those of the rules are of the keys in the traffic sample.",
	}
	GetAttack = Op[None, Attack]{
		ID: "getAttack", Route: "GET " + PathAttack, Access: "read", Tag: TagOffenders,
		Summary: "Show whether there is an attack now, since when, and from where.", Answer: "The rates of now and of the baseline, and the source of an attack.",
	}
	ListAttacks = Op[PageList, Page[AnnouncedAttack]]{
		ID: "listAttacks", Route: "GET " + PathAttacks, Access: "read", Tag: TagOffenders,
		Summary: "List the attacks that were announced, with their course.", Answer: "The attacks, the newest first.",
	}
	GetTraffic = Op[TrafficOf, Traffic]{
		ID: "getTraffic", Route: "GET " + PathTraffic, Access: "read", Tag: TagOffenders,
		Summary: "Show how many checks were allowed and refused over time.", Answer: "The traffic of each part of the time range.",
	}
	RuleTotals = Op[TimeRange, Page[RuleTotal]]{
		ID: "ruleTotals", Route: "GET " + PathTraffic + "/rules", Access: "read", Tag: TagOffenders,
		Summary: "List how much each rule and block refused, also the rules that refused nobody.", Answer: "Every rule and block that refused, and the rules that did not.",
	}
)

// EscalationList selects events of escalations.
type EscalationList struct {
	Policy string `query:"policy" json:"-"` // Only under the policy of this name.
	Key    string `query:"key" json:"-"`    // Only about this key.
	PageList
	TimeRange
}

// The operations of escalations.
var (
	ListEscalationEvents = Op[EscalationList, Page[EscalationEvent]]{
		ID: "listEscalationEvents", Route: "GET " + PathEscalations + "/events", Access: "read", Tag: TagOffenders,
		Summary: "List what escalation did: automatic blocks, and those that a shadow policy would have made.", Answer: "The events, the newest first.",
	}
	ListPausedEscalations = Op[None, Page[EscalationPause]]{
		ID: "listPausedEscalations", Route: "GET " + PathEscalations + "/paused", Access: "read", Tag: TagOffenders,
		Summary: "List the paused escalations, which would have blocked too many keys.", Answer: "The paused escalations.",
	}
	ResumeEscalation = Op[ByName, None]{
		ID: "resumeEscalation", Route: "POST " + PathEscalations + "/:name/resume", Access: "operate", Tag: TagOffenders,
		Summary: "Resume the paused escalation of a policy.", Answer: "It is resumed.",
	}
)

// OffenceRecord is what is recorded under a refusal's id.
type OffenceRecord struct {
	ID     string `json:"id"`
	Minute Time   `json:"minute"` // the minute of the refusal
	// Found is recorded, aggregated (counted in other, without its key), pending,
	// expired or none.
	Found string `json:"found" enum:"recorded,aggregated,pending,expired,none"`
	// Explanation describes the refusal in plain text.
	Explanation string     `json:"explanation"`
	Key         NullString `json:"key"`
	Policy      NullString `json:"policy"`
	Offences    []Offence  `json:"offences"` // of the key in that minute, by rule or block
	// Escalation is the key's status now under the policy that refused; null if no policy that
	// counts the key has an escalation.
	Escalation *EscalationStatus `json:"escalation"`
	// Other are the offences of the minute that were counted without a key.
	Other []Offence `json:"other"`
}

// Offence counts the refusals of a minute by one rule or block.
type Offence struct {
	Decision  string  `json:"decision" enum:"limited,blocked,shadow"` // limited, blocked or shadow
	RefusedBy string  `json:"refused_by"`
	Count     int64   `json:"count"`     // refused checks
	CountMax  int64   `json:"count_max"` // the upper bound of count
	First     Refused `json:"first"`     // the first of them
	Last      Refused `json:"last"`      // the last of them
}

// Refused is one refused check.
type Refused struct {
	At Time `json:"at"`
	// BoundaryAt is the logged request that the rule waited for to age out.
	BoundaryAt Time              `json:"boundary_at"`
	RetryAt    Time              `json:"retry_at"`
	Source     NullString        `json:"source"`
	Meta       map[string]string `json:"meta"` // what the check's caller sent as meta
	// Met are the conditions of the policy that the request met, and with what: recorded of the first
	// refusal of a minute. Omitted if they are not recorded, and for a policy without conditions.
	Met []MetCondition `json:"met,omitzero"`
}

// MetCondition is a pattern of a policy and the part of a request that matched it.
type MetCondition struct {
	Attribute string `json:"attribute" enum:"path,method,agent,host"` // the part of the request
	Pattern   string `json:"pattern"`                                 // the pattern of the policy
	Value     string `json:"value"`                                   // what matched it, normalized, at most 256 bytes; empty where that part is not recorded
}

// Traffic is the checks of a time range; the counts are exact.
type Traffic struct {
	// From and To are the time range that was read: whole minutes, or hours or days where
	// minutes are no longer kept. Parts begin at whole multiples of the step, so the first may
	// begin before From.
	From Time `json:"from"`
	To   Time `json:"to"`
	// StepMS is the length of each part in milliseconds: what was asked for, or the next
	// multiple of an hour or a day where no shorter parts are kept.
	StepMS int64          `json:"step_ms"`
	Points []TrafficPoint `json:"points"`
}

// TrafficPoint is the traffic of one part of the time range.
type TrafficPoint struct {
	At          Time  `json:"at"`
	Allowed     int64 `json:"allowed"`
	Limited     int64 `json:"limited"`
	Blocked     int64 `json:"blocked"`
	Challenged  int64 `json:"challenged"`  // the number of checks that were refused until a challenge is solved
	Unavailable int64 `json:"unavailable"` // the number of checks that were refused under an outage
	// ShadowLimited is what shadow policies would have refused, by their rules or under an outage.
	ShadowLimited int64 `json:"shadow_limited"`
	// KeysEstimate is the number of distinct keys, an estimate whose standard
	// error is KeysError of it.
	KeysEstimate int64   `json:"keys_estimate"`
	KeysError    float64 `json:"keys_error"`
}

// RuleTotal is what one rule or block refused over a time range.
type RuleTotal struct {
	Policy    NullString `json:"policy"`
	Decision  string     `json:"decision" enum:"limited,blocked,shadow"`
	RefusedBy string     `json:"refused_by"`
	Refused   int64      `json:"refused"` // 0 for a rule that refused nobody
	// WouldRefuse is how many checks the rule would have refused outside shadow mode.
	WouldRefuse int64   `json:"would_refuse"`
	Keys        int64   `json:"keys"`
	Ratio       float64 `json:"ratio"` // of all that was refused, 0 to 1
}

// Proposal proposes to block a range in which many keys offended.
type Proposal struct {
	ID        string     `json:"id"`
	Pattern   string     `json:"pattern"`
	State     string     `json:"state" enum:"open,accepted,dismissed,covered"` // open, accepted, dismissed, or covered by a block that was added otherwise
	CreatedAt Time       `json:"created_at"`
	UpdatedAt Time       `json:"updated_at"`
	DecidedAt Time       `json:"decided_at"` // when it was closed, null while it is open
	DecidedBy NullString `json:"decided_by"` // who or what closed it, null while it is open
	Reason    NullString `json:"reason"`
	BlockID   NullString `json:"block_id"` // of an accepted or covered one
	Evidence  Evidence   `json:"evidence"` // what it is based on
}

// Evidence is what a proposal is based on. Lists have the keys with the most offences or
// checks; counts are of all.
type Evidence struct {
	From Time `json:"from"`
	To   Time `json:"to"`
	// Size is how many addresses, or IPv6 /64s, the range has.
	Size          int64     `json:"size"`
	OffendedCount int64     `json:"offended_count"` // keys that offended, MinOffences times each
	MinOffences   int64     `json:"min_offences"`   // 0 in proposals of earlier versions
	Refused       int64     `json:"refused"`        // of the checks of the range in the time, and the reports that a policy had no room for
	Checked       int64     `json:"checked"`        // all of these checks and reports
	Offences      int64     `json:"offences"`
	SeenCount     int64     `json:"seen_count"` // keys seen in the last day without an offence
	Allowed       int64     `json:"allowed"`    // their allowed checks
	Offended      []SeenKey `json:"offended"`   // the keys with most offences
	Seen          []SeenKey `json:"seen"`       // of the keys without an offence those with the most checks
	Exempt        []string  `json:"exempt"`     // patterns in the range that stay exempt
	// Requests are those of named sources, such as a jail of fail2ban, that asked for the block and
	// could not confirm it.
	Requests []BlockRequest `json:"requests"`
}

// BlockRequest is a request of a source to block a range.
type BlockRequest struct {
	Source        string `json:"source"` // its name
	Author        string `json:"author"`
	Reason        string `json:"reason"`
	ConfirmReason string `json:"confirm_reason"` // why it needs a confirmation
	ExpiresAt     Time   `json:"expires_at"`     // when the source would have ended it; null: permanent
}

// SeenKey is one key and what it did.
type SeenKey struct {
	Key     string `json:"key"`
	Allowed int64  `json:"allowed"`
	Refused int64  `json:"refused"`
}

// AcceptProposalRequest blocks the range of a proposal. With neither ExpiresIn
// nor ExpiresAt the block is permanent.
type AcceptProposalRequest struct {
	ID        string   `path:"id" json:"-"`
	Reason    string   `json:"reason,omitzero"`
	ExpiresIn Duration `json:"expires_in,omitzero"`
	ExpiresAt Time     `json:"expires_at,omitzero"`
	// Confirm is the range, which a broad one, or one with much of the traffic, needs.
	Confirm string `json:"confirm,omitzero"`
}

// ProposalList selects proposals.
type ProposalList struct {
	State string `query:"state" json:"-" enum:"open,decided,all"` // The state of the proposals; open if omitted.
	PageList
}

// The operations of proposals.
var (
	ListProposals = Op[ProposalList, Page[Proposal]]{
		ID: "listProposals", Route: "GET " + PathProposals, Access: "read", Tag: TagOffenders,
		Summary: "List the proposals to block a range in which many keys offended.", Answer: "The proposals, the newest first.",
	}
	GetProposal = Op[ByID, Proposal]{
		ID: "getProposal", Route: "GET " + PathProposals + "/:id", Access: "read", Tag: TagOffenders,
		Summary: "Show a proposal with its evidence.", Answer: "The proposal.",
	}
	AcceptProposal = Op[AcceptProposalRequest, Proposal]{
		ID: "acceptProposal", Route: "POST " + PathProposals + "/:id/accept", Access: "operate", Tag: TagOffenders, OptionalBody: true,
		Summary: "Block the range of a proposal.", Answer: "The accepted proposal with its block's id.",
	}
	DismissProposal = Op[EndRequest, Proposal]{
		ID: "dismissProposal", Route: "POST " + PathProposals + "/:id/dismiss", Access: "operate", Tag: TagOffenders, OptionalBody: true,
		Summary: "Close a proposal; its range is left alone for a day.", Answer: "The dismissed proposal.",
	}
)

// OffenderColumn is a column of offenders as CSV.
type OffenderColumn struct {
	Name string
	// Cell returns what an offender has in the column. What clients chose is in it as it is,
	// and not yet safe for a spreadsheet.
	Cell func(*Offender) string
}

// OffenderColumns are the columns of offenders as CSV, in the export of the API and in that of
// the command line.
var OffenderColumns = []OffenderColumn{
	{"key", func(o *Offender) string { return o.Key }},
	{"offences", func(o *Offender) string { return strconv.FormatInt(o.Offences, 10) }},
	{"offences_max", func(o *Offender) string { return strconv.FormatInt(o.OffencesMax, 10) }},
	{"allowed", func(o *Offender) string { return strconv.FormatInt(o.Allowed, 10) }},
	{"refused_ratio", func(o *Offender) string { return strconv.FormatFloat(o.RefusedRatio, 'f', 4, 64) }},
	{"policy", func(o *Offender) string { return string(o.Policy) }},
	{"decision", func(o *Offender) string { return o.Decision }},
	{"refused_by", func(o *Offender) string { return o.RefusedBy }},
	{"first_at", func(o *Offender) string { return o.FirstAt.String() }},
	{"last_at", func(o *Offender) string { return o.LastAt.String() }},
	{"blocked_until", func(o *Offender) string { return until(o.Block) }},
	{"escalation_level", func(o *Offender) string {
		if o.Escalation == nil {
			return ""
		}
		return strconv.Itoa(o.Escalation.Level)
	}},
	{"country", func(o *Offender) string { return o.origin().Country }},
	{"asn", func(o *Offender) string {
		if o.origin().ASN == 0 {
			return ""
		}
		return strconv.FormatUint(uint64(o.origin().ASN), 10)
	}},
	{"network", func(o *Offender) string { return o.origin().Network }},
	{"host", func(o *Offender) string { return o.origin().Host }},
	{"exempt_until", func(o *Offender) string { return until(o.Exemption) }},
	{"plan", func(o *Offender) string { return string(o.Plan) }},
	{"own_limit", func(o *Offender) string {
		if o.OwnLimit == nil {
			return ""
		}
		return strings.Join(o.OwnLimit.Rules, " ")
	}},
	{"escalation_next_block", func(o *Offender) string { return o.Escalation.DescribeNext() }},
	{"blocked_scopes", func(o *Offender) string { return strings.Join(o.BlockedScopes, " ") }},
}

// DescribeNext says how long the next block is and what leads to it, for example "1h at 3 of 5"; "" for
// nil.
func (s *EscalationStatus) DescribeNext() string {
	if s == nil {
		return ""
	}
	return s.NextBlock.String() + " at " + strconv.FormatInt(s.Count, 10) + " of " + strconv.FormatInt(s.Threshold, 10)
}

func (o *Offender) origin() *Origin {
	if o.Origin == nil {
		return &Origin{}
	}
	return o.Origin
}

// until returns until when an entry is active: "permanently" without an end, "" for nil.
func until(e *Entry) string {
	switch {
	case e == nil:
		return ""
	case e.ExpiresAt.IsZero():
		return "permanently"
	}
	return e.ExpiresAt.String()
}
