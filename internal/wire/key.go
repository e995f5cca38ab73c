package wire

// The paths of what is declared here.
const (
	PathLimits      = "/v1/keys/limits"
	PathKeys        = "/v1/keys"
	PathActiveKeys  = "/v1/keys/active"
	PathKeyRequests = "/v1/keys/requests"
	PathProfiles    = "/v1/profiles"
	PathPlans       = "/v1/plans"
)

// TagKeys is the group of these operations in the OpenAPI document.
var TagKeys = Tag{"keys", "What applies to one key, what is kept about it, and notes."}

// KeyExplanation says what applies to a key now and why.
type KeyExplanation struct {
	Key string `json:"key"`
	At  Time   `json:"at"`
	// Decision is what a check of cost 1 would be answered now.
	Decision string `json:"decision" enum:"allowed,limited,blocked,challenged,unavailable"`
	// NextAllowedAt is when the next request would be allowed if nobody else
	// came, null if waiting never helps.
	NextAllowedAt Time `json:"next_allowed_at"`
	// Remaining is how many such checks the rules would allow now without a wait,
	// also beside an exemption or a block; null if no rule counts every request of the
	// key or that is not known.
	Remaining      *int   `json:"remaining"`
	Degraded       bool   `json:"degraded"`
	DegradedReason string `json:"degraded_reason,omitzero"` // why it is degraded; omitted otherwise
	// Plan is the key's plan, null for none.
	Plan NullString `json:"plan"`
	// OwnLimit is the key's own limit that is active now, whose rules Policy then has in
	// place of its own; null if it has none.
	OwnLimit *OwnLimit `json:"own_limit"`
	// Exemptions and Blocks are active and cover the key, the most specific first.
	// Any exemption hides every block.
	Exemptions []Entry `json:"exemptions"`
	Blocks     []Entry `json:"blocks"`
	// Policy is the enforcing policy and Shadow the one in shadow mode.
	Policy *KeyPolicy `json:"policy"`
	Shadow *KeyPolicy `json:"shadow"`
	// Conditional are the policies with conditions or an outcome, which apply in addition.
	// Decision considers those with an outcome only: the others depend on the request.
	Conditional []KeyPolicy `json:"conditional"`
	// Escalation is the key's status under the policy that limits it, ShadowEscalation
	// under the shadow policy; null without escalation.
	Escalation       *EscalationStatus `json:"escalation"`
	ShadowEscalation *EscalationStatus `json:"shadow_escalation"`
	Warnings         []string          `json:"warnings"`
	// Crawler is the operator whose crawler the key is, verified by DNS on this node: policies
	// with the outcome not_found do not apply to it. Omitted for others.
	Crawler string `json:"crawler,omitzero"`
	// Origin says whose address the key is; omitted if nothing is known.
	Origin *Origin `json:"origin,omitzero"`
}

// Origin is where an address comes from, as the files of --geoip-dir say.
type Origin struct {
	Country string `json:"country,omitzero"` // the code of two letters
	ASN     uint32 `json:"asn,omitzero"`     // the number of the autonomous system
	Network string `json:"network,omitzero"` // the name of the autonomous system
	// Host is the name of the address in DNS, as its network claims it. It is known with
	// --reverse-dns only, and in lists when the address was asked for before.
	Host string `json:"host,omitzero"`
}

// KeyPolicy is one policy's part of an explanation.
type KeyPolicy struct {
	Name    string `json:"name"`
	Version int64  `json:"version"` // 0 for an own limit without a policy
	Mode    string `json:"mode" enum:"enforce,shadow,off"`
	// Algorithm is how the policy counts, with its options where they are not
	// default.
	Algorithm string        `json:"algorithm"`
	Options   PolicyOptions `json:"options,omitzero"` // those of the algorithm; omitted if all are default
	// When is omitted if the policy has no conditions.
	When PolicyWhen `json:"when,omitzero"`
	// Outcome is the outcome whose reports charge the policy; omitted if checks do. Every
	// check of the key is refused while Allowed is false.
	Outcome string `json:"outcome,omitzero"`
	// Scope is the scope of the checks that are refused; omitted if all.
	Scope string `json:"scope,omitzero"`
	// DerivedKey is the further key of the requests of the key that these limits are about, or
	// the key itself where requests of others derive it; omitted for limits of the key.
	DerivedKey string `json:"derived_key,omitzero"`
	// Escalation is the key's status under a policy with conditions or an outcome, or whose
	// further key it is; null without escalation, and for other policies, whose status is beside them.
	Escalation *EscalationStatus `json:"escalation"`
	// Pattern selected the key, null if the policy was named.
	Pattern NullString `json:"pattern"`
	Allowed bool       `json:"allowed"` // whether this policy would allow a request
	RetryAt Time       `json:"retry_at"`
	// Rule makes the key wait longest, null if none does.
	Rule NullString `json:"rule"`
	// Decides reports whether Decision is limited by Rule: a check of which nothing else is
	// said names this policy. At most one of Policy and Conditional decides.
	Decides bool      `json:"decides"`
	Rules   []KeyRule `json:"rules"`
	// Points says in a sentence what the points of a policy with evidence are for; omitted for other policies.
	Points string `json:"points,omitzero"`
	// Charges are what the policy has charged within its longest window, the newest first; omitted for none.
	Charges []KeyCharge `json:"charges,omitzero"`
	// Holds are the open holds of the key, the oldest first, at most 1,024; omitted for none.
	Holds []OpenHold `json:"holds,omitzero"`
	// Timestamps count for some rule, the newest first, at most 1,000; reservations that
	// are reserved lie ahead of At. An algorithm that keeps counters has none.
	Timestamps []Time `json:"timestamps"`
}

// MaxTimestamps bounds the timestamps that a KeyPolicy has.
const MaxTimestamps = 1000

// OpenHold is one open hold of a key.
type OpenHold struct {
	Amount    int  `json:"amount"`   // what is held
	TakenAt   Time `json:"taken_at"` // when it was taken, and from when it counts
	ExpiresAt Time `json:"expires_at"`
	// Source is who asked for it: the name of the token of the check, or else the source that the check said, or
	// the door; null if it said none.
	Source NullString `json:"source"`
}

// KeyCharge is what a policy with evidence charged a key for.
type KeyCharge struct {
	At     Time   `json:"at"`
	For    string `json:"for"` // the item of evidence in words
	Points int    `json:"points"`
}

// KeyRule is one rule's part of an explanation.
type KeyRule struct {
	Rule     string `json:"rule"`
	Limit    int    `json:"limit"`
	WindowMS int64  `json:"window_ms"`
	// Used is what is gone of the most that may come at once: of the limit, or of
	// a bucket's burst.
	Used      int `json:"used"`
	Remaining int `json:"remaining"`
	// RetryAt is when this rule alone would allow one more request, null if
	// it never will.
	RetryAt Time `json:"retry_at"`
	// NextExpiryAt is when the oldest request that counts expires, null if
	// none counts or no times are kept.
	NextExpiryAt Time `json:"next_expiry_at"`
}

// ActiveKey is one key that was checked, and how its checks were answered.
type ActiveKey struct {
	Key     string `json:"key"`
	Checks  int64  `json:"checks"` // those below together
	Allowed int64  `json:"allowed"`
	Limited int64  `json:"limited"` // refused by a rule
	Blocked int64  `json:"blocked"` // refused by a block
}

// ActiveKeys is one page of the keys that were checked in a time range.
type ActiveKeys struct {
	// From and To are the time range that was read: whole minutes, or whole hours or days where
	// minutes are no longer kept.
	From Time `json:"from"`
	To   Time `json:"to"`
	// Untracked is at most how many allowed checks of the time range belong to keys that are not
	// listed: of each minute, each node keeps all refused keys and 1,024 others, those with the
	// most checks.
	Untracked int64 `json:"untracked"`
	Page[ActiveKey]
}

// KeyRequest is one request of a key, or what was reported of one.
type KeyRequest struct {
	At       Time   `json:"at"`
	Method   string `json:"method,omitzero"`                                                // in lower case
	Path     string `json:"path,omitzero"`                                                  // without its query; omitted with --record-paths false
	Agent    string `json:"agent,omitzero"`                                                 // in lower case
	Host     string `json:"host,omitzero"`                                                  // in lower case, without its port
	Decision string `json:"decision" enum:"allowed,limited,blocked,challenged,unavailable"` // of a report: limited if a policy had no room for it
	// Shadow is what a policy in shadow mode would have decided; omitted if none would have refused.
	Shadow string `json:"shadow,omitzero"`
	Policy string `json:"policy,omitzero"` // the policy that decided
	Rule   string `json:"rule,omitzero"`   // the rule that refused
	Block  string `json:"block,omitzero"`  // the id of the block that refused
	// Refusal opens the record of the refusal.
	Refusal string `json:"refusal,omitzero"`
	// Reported is the outcome that was reported; omitted for checks.
	Reported string `json:"reported,omitzero"`
	// Evidence says what the request showed that policies charge points for.
	Evidence []string `json:"evidence,omitempty"`
	Source   string   `json:"source,omitzero"` // who asked, as it said
	Pass     string   `json:"pass,omitzero"`   // the key of the pass that the client had
}

// KeyRequests are the last requests of a key.
type KeyRequests struct {
	Key      string       `json:"key"`
	Requests []KeyRequest `json:"requests"` // at most 50, the newest first
	// Incomplete means that the database did not answer: only the requests that this node keeps are
	// there.
	Incomplete bool `json:"incomplete,omitzero"`
}

// ListKeyRequests lists the last requests of a key.
var ListKeyRequests = Op[ByKey, KeyRequests]{
	ID: "listKeyRequests", Route: "GET " + PathKeyRequests + "/:key", Access: "read", Tag: TagKeys,
	Summary: "List the last requests of a key, up to 50 of the last hour.", Answer: "The requests, the newest first.",
	Doc: "Each node keeps the requests that it was asked about in memory, so these are those of this node; of other nodes, and of this one before its start, " +
		"they are the first and the last refusal of each minute and rule. " +
		"The last 15 requests before a block are kept whatever comes while it lasts.",
}

// KeyReset says which logs of a key were reset.
type KeyReset struct {
	Key      string     `json:"key"`
	Policies []LogReset `json:"policies"` // the logs that were asked for, one of each policy
}

// LogReset is the log of one policy.
type LogReset struct {
	Policy string `json:"policy"`
	// Existed says whether there was a log to delete.
	Existed bool `json:"existed"`
}

// ActiveKeyList selects keys that were checked.
type ActiveKeyList struct {
	PageList
	Policy  string `query:"policy" json:"-"`  // Only under the policy of this name.
	Pattern string `query:"pattern" json:"-"` // Only keys that this pattern covers; not one of a country or autonomous system.
	Search  string `query:"search" json:"-"`  // Only keys that contain this text, case-insensitive.
	// Only keys that were never refused in the time range, under the policy if one is given.
	NeverRefused bool `query:"never_refused" json:"-"`
	TimeRange
}

// ListActiveKeys lists the keys that were checked.
var ListActiveKeys = Op[ActiveKeyList, ActiveKeys]{
	ID: "listActiveKeys", Route: "GET " + PathActiveKeys, Access: "read", Tag: TagKeys,
	Summary: "List the keys that were checked, also those that were never refused.", Answer: "The keys with the most checks first.",
}

// Profile is the plan, the labels, the note and the limit of a key.
type Profile struct {
	Key       string     `json:"key"`
	Plan      NullString `json:"plan"`   // null for none
	Labels    []string   `json:"labels"` // sorted
	Note      string     `json:"note"`   // empty for none
	Limit     *OwnLimit  `json:"limit"`  // the key's own limit, null for none
	UpdatedAt Time       `json:"updated_at"`
	UpdatedBy string     `json:"updated_by"`
	// ETag names all this as it is, for If-Match; null if nothing is kept.
	ETag NullString `json:"etag"`
}

// Tag returns the ETag.
func (p Profile) Tag() string { return string(p.ETag) }

// ByKey is the input of an operation on what is kept of a key.
type ByKey struct {
	Key string `path:"key" json:"-"`
}

// DeleteProfileRequest deletes the profile of a key.
type DeleteProfileRequest struct {
	Key     string `path:"key" json:"-"`
	IfMatch string `header:"If-Match" json:"-" required:"Deleting the profile of a key"`
}

// EndLimitRequest ends a key's own limit.
type EndLimitRequest struct {
	Key    string `path:"key" json:"-"`
	Reason string `query:"reason" json:"-"` // Why, for the audit.
}

// ProfileFilter selects profiles of keys.
type ProfileFilter struct {
	Plan    string `query:"plan" json:"-"`    // Only keys of this plan.
	Label   string `query:"label" json:"-"`   // Only keys with this label.
	Search  string `query:"search" json:"-"`  // Only keys whose name or note contains this text, case-insensitive.
	Limited bool   `query:"limited" json:"-"` // Only keys with a limit of their own that is active.
}

// ProfileList selects a page of profiles.
type ProfileList struct {
	ProfileFilter
	PageList
}

// ProfileExport selects profiles and the format of a file of them.
type ProfileExport struct {
	Format string `query:"format" json:"-" enum:"csv,json"` // csv if omitted.
	ProfileFilter
}

// KeyUnder selects a key and the policy to ask.
type KeyUnder struct {
	Key    string `query:"key" json:"-" required:"send for example ?key=ip:203.0.113.7"` // The key, for example ip:203.0.113.7.
	Policy string `query:"policy" json:"-" filled:"true"`                                // The policy to ask by name instead of the key's own.
}

// EraseKeyRequest erases a key.
type EraseKeyRequest struct {
	Key string `json:"key"` // the key, for example ip:203.0.113.7
	// Preview says what would be erased, and erases nothing.
	Preview bool `json:"preview,omitzero"`
	// Confirm must be the key as the preview writes it: what is erased cannot be restored.
	Confirm string `json:"confirm,omitzero"`
}

// KeyErasure says what was erased, or would be.
type KeyErasure struct {
	Key string `json:"key"` // the erased key
	// Name is a keyed hash of the key, by which texts and the record of the erasure name it.
	Name    string       `json:"name"`
	Preview bool         `json:"preview"` // nothing was erased
	Erased  []ErasedRows `json:"erased"`  // the rows by kind
	// Left are sentences about what still names the key, or may.
	Left []string `json:"left"`
}

// ErasedRows are rows of one kind.
type ErasedRows struct {
	What string `json:"what"` // for people, in the plural
	Rows int64  `json:"rows"` // how many
}

// The operations of keys and profiles.
var (
	EraseKey = Op[EraseKeyRequest, KeyErasure]{
		ID: "eraseKey", Route: "POST " + PathKeys + "/erase", Access: "admin", Tag: TagKeys,
		Summary: "Erase everything that is kept about a key.", Answer: "What was erased, and what still names the key.",
		Doc: "Its counts, offences, requests, notes, plan, labels and limit are deleted, texts that name it have a keyed hash in its place, and audit records that name it are emptied; the audit says so. Its limits start from zero. Active blocks and exemptions, and policies and backups that name it, stay.",
	}
	ExplainKey = Op[KeyUnder, KeyExplanation]{
		ID: "explainKey", Route: "GET " + PathKeys, Access: "read", Tag: TagKeys,
		Summary: "Explain what applies to a key now and why.", Answer: "The explanation.",
	}
	ResetKey = Op[KeyUnder, KeyReset]{
		ID: "resetKey", Route: "DELETE " + PathKeys, Access: "operate", Tag: TagKeys,
		Summary: "Reset the counts of a key, under one policy or all.", Answer: "What was reset.",
	}
	ListProfiles = Op[ProfileList, Page[Profile]]{
		ID: "listProfiles", Route: "GET " + PathProfiles, Access: "read", Tag: TagKeys,
		Summary: "List the keys that have a plan, labels, a note or a limit of their own.", Answer: "A page of them, by key.",
	}
	ImportProfiles = Op[ProfileImportOf, ProfileImport]{
		ID: "importProfiles", Route: "POST " + PathProfiles + "/import", Access: "operate", Tag: TagKeys, Takes: []string{"text/csv", "application/json", "application/x-ndjson"},
		Summary: "Set the plans, labels and notes of up to 1,000,000 keys from CSV or JSON, all or nothing.", Answer: "What was done.",
		Doc: "A CSV names its columns: key, plan, labels (separated by spaces) and note. JSON is a list of objects, or one object on each line. " +
			"What a row leaves out is removed from its key; other keys and limits stay. A key that the file names twice is an invalid row.",
	}
	ExportProfiles = Op[ProfileExport, File]{
		ID: "exportProfiles", Route: "GET " + PathProfiles + "/export", Access: "read", Tag: TagKeys,
		Summary: "Export the plans, labels and notes of keys in the format that an import reads.", Answer: "The file.",
	}
	ListPlans = Op[None, Page[PlanCount]]{
		ID: "listPlans", Route: "GET " + PathPlans, Access: "read", Tag: TagKeys,
		Summary: "List the plans, with the number of keys of each and the policy that applies to them.", Answer: "The plans, the most keys first, at most 1,000.",
	}
	GetProfile = Op[ByKey, Profile]{
		ID: "getProfile", Route: "GET " + PathKeys + "/:key", Access: "read", Tag: TagKeys,
		Summary: "Show the plan, the labels, the note and the limit of a key.", Answer: "Its plan, labels, note and limit.",
	}
	PutProfile = Op[ProfileRequest, Profile]{
		ID: "putProfile", Route: "PUT " + PathKeys + "/:key", Access: "operate", Tag: TagKeys,
		Summary: "Set the plan, the labels and the note of a key, or replace those whose ETag If-Match has.", Answer: "The plan, labels, note and limit of the key now.",
	}
	DeleteProfile = Op[DeleteProfileRequest, None]{
		ID: "deleteProfile", Route: "DELETE " + PathKeys + "/:key", Access: "operate", Tag: TagKeys,
		Summary: "Delete the plan, the labels, the note and the limit of a key, whose ETag If-Match has.", Answer: "It is deleted.",
	}
	PutLimit = Op[OwnLimitRequest, Profile]{
		ID: "putLimit", Route: "PUT " + PathLimits + "/:key", Access: "operate", Tag: TagKeys,
		Summary: "Give a key a limit of its own, which replaces an earlier one.", Answer: "The plan, labels, note and limit of the key now.",
		Doc: "Until it expires or is ended, its rules replace those of the key's policy. Requests that were counted before still count. Blocks, exemptions, policies with conditions or an outcome, and policies that a check names still apply.",
	}
	EndLimit = Op[EndLimitRequest, Profile]{
		ID: "endLimit", Route: "DELETE " + PathLimits + "/:key", Access: "operate", Tag: TagKeys,
		Summary: "End a key's own limit.", Answer: "What the key still has.",
	}
)

// ProfileRequest replaces the plan, the labels and the note of a key. Where the key has a
// profile, this needs its ETag, or *. What is omitted is
// removed; the key's own limit stays.
type ProfileRequest struct {
	Key     string `path:"key" json:"-"`
	IfMatch string `header:"If-Match" json:"-"`
	// Plan is 1 to 64 of a-z, 0-9, dot, underscore and dash.
	Plan string `json:"plan,omitzero"`
	// Labels are at most 16, each 1 to 64 of a-z, 0-9 and . _ - = : / @.
	Labels []string `json:"labels,omitzero"`
	Note   string   `json:"note,omitzero"` // at most 500 bytes
}

// OwnLimit is a limit of one key's own: while it is active, its rules replace those of the
// key's policy.
type OwnLimit struct {
	Rules     []string `json:"rules"` // for example 5/1s
	Reason    string   `json:"reason"`
	Author    string   `json:"author"`
	Active    bool     `json:"active"` // whether it has not expired
	CreatedAt Time     `json:"created_at"`
	ExpiresAt Time     `json:"expires_at"` // null: until it is ended
}

// OwnLimitRequest gives a key a limit of its own. With neither ExpiresIn nor ExpiresAt it
// is active until it is ended.
type OwnLimitRequest struct {
	Key       string   `path:"key" json:"-"`
	Rules     []string `json:"rules"` // 1 to 8, for example 5/s
	Reason    string   `json:"reason"`
	ExpiresIn Duration `json:"expires_in,omitzero"`
	ExpiresAt Time     `json:"expires_at,omitzero"`
}

// ProfileImportOf says how a file of keys is imported.
type ProfileImportOf struct {
	SkipBad bool `query:"skip_bad" json:"-"` // Leave invalid rows out instead of importing nothing.
	DryRun  bool `query:"dry_run" json:"-"`  // Change nothing, and answer with what would be done, invalid rows included.
}

// ProfileImport is what an import of profiles did, or a dry run would do.
type ProfileImport struct {
	DryRun    bool `json:"dry_run"`   // nothing was changed; the counts are what an import would do
	Rows      int  `json:"rows"`      // valid and invalid
	Created   int  `json:"created"`   // keys that had no profile
	Replaced  int  `json:"replaced"`  // keys that had another profile
	Unchanged int  `json:"unchanged"` // keys that had the same profile
	Invalid   int  `json:"invalid"`   // rows that cannot be imported
	Limits    int  `json:"limits"`    // rows with a limit, which is not imported; rows has none that have nothing else
	// InvalidRows are the first of the invalid rows.
	InvalidRows []BadRow `json:"invalid_rows"`
	// Plans are those that the valid rows name, the one of most rows first.
	Plans []ImportedPlan `json:"plans"`
	// Changes are the first of the keys that a dry run would create or replace, in the
	// order of the file; empty after an import.
	Changes []ProfileImportChange `json:"changes"`
}

// ImportedPlan is a plan that a file of keys names.
type ImportedPlan struct {
	Plan string `json:"plan"` // the name of the plan
	Rows int    `json:"rows"` // the number of rows that name it
	// Policy is the enforcing policy that selects keys of the plan, null for none: their
	// plan then changes nothing.
	Policy NullString `json:"policy"`
}

// ProfileImportChange is what a file changes of one key.
type ProfileImportChange struct {
	Line   int             `json:"line"`   // of the file, from 1
	Key    string          `json:"key"`    // the key
	Before *ProfileRequest `json:"before"` // what is kept of the key now, null for nothing
	After  ProfileRequest  `json:"after"`  // what would be kept
}

// PlanCount is how many keys have a plan.
type PlanCount struct {
	Plan string `json:"plan"` // the name of the plan
	Keys int    `json:"keys"` // the number of keys that have it
	// Policy is the enforcing policy that selects keys of the plan, null for none: their
	// plan then changes nothing.
	Policy NullString `json:"policy"`
}
