package wire

import (
	"time"

	"github.com/go-json-experiment/json"
)

// The paths of what is declared here.
const (
	PathCheck = "/v1/check"
	PathBatch = "/v1/check/batch"
)

// TagChecks is the group of these operations in the OpenAPI document.
var TagChecks = Tag{"checks", "Checks and reservations, which clients and gateways ask for."}

// The decisions.
const (
	Allowed     = "allowed"
	Limited     = "limited"     // by a rule: 429
	Blocked     = "blocked"     // by a block: 403
	Challenged  = "challenged"  // until a challenge is solved: 429
	Unavailable = "unavailable" // an outage under on_failure deny: 503
)

// The details that a check may ask for.
const (
	DetailRules = "rules" // what each rule has left; the default of one check
	DetailNone  = "none"  // the decision only, which is cheaper; the default in a batch
)

// ChargeAlways charges a refused check too, as far as its cost fits.
const ChargeAlways = "always"

// Bounds of a check.
const (
	MaxBatch      = 1000 // checks in one batch
	MaxCost       = 1000
	MaxUsage      = 100_000               // a cost with ChargeAlways
	MaxAmount     = 1_000_000_000_000_000 // a cost under policies that count amounts
	MaxSource     = 64                    // bytes
	MaxMeta       = 8                     // entries
	MaxMetaName   = 32                    // bytes
	MaxMetaValue  = 256                   // bytes
	MaxPolicyName = 64                    // bytes
	MaxKeys       = 16                    // keys in one check
	MaxID         = 64                    // characters of an idempotency_key
	MaxPass       = 512                   // bytes of a pass

	MaxWait = Duration(time.Hour)
	MinHold = Duration(time.Second)
	MaxHold = Duration(24 * time.Hour)
)

// CheckRequest asks whether a key may do one more request.
type CheckRequest struct {
	Key    string `json:"key"`
	Policy string `json:"policy,omitzero"`                   // by name; the best match if omitted
	Cost   int    `json:"cost,omitzero"`                     // 1 to MaxCost, to MaxUsage with ChargeAlways, to MaxAmount for amounts; if omitted, the policy's cost, which is 1 unless it says so
	Peek   bool   `json:"peek,omitzero"`                     // answer and charge nothing
	Detail string `json:"detail,omitzero" enum:"rules,none"` // rules if omitted; none is cheaper
	Source string `json:"source,omitzero"`                   // who asks, shown with an offence
	// Meta is shown with an offence and never trusted.
	Meta map[string]string `json:"meta,omitzero"`
	// Request has the attributes of the request, for policies with conditions.
	Request RequestAttributes `json:"request,omitzero"`
	// Values are further values of the request by their names, such as {"account":"alice"}, which
	// distinct rules count and by which policies count further keys. Up to MaxValues, the
	// names as those of outcomes; "" counts as absent.
	Values map[string]string `json:"values,omitzero"`
	// MaxWait is how long the caller would wait for its reservation, up to MaxWait; one
	// that comes within it is reserved. If omitted, nothing is reserved.
	MaxWait Duration `json:"max_wait,omitzero"`
	// Cancellable makes an allowed check answer with a reservation, for now unless it waits, whose handle
	// cancels what was charged for as long as it counts, at most ten minutes. What a policy holds has a handle of
	// its own. It cannot be combined with Charge.
	Cancellable bool `json:"cancellable,omitzero"`
	// Hold holds the cost for a time, 1s to 1d, until the caller settles it with what was used; see
	// settleHold. Policies that count requests charge it as usual. If omitted, the policy says for how long;
	// most charge at once. It cannot be combined with MaxWait or Charge.
	Hold Duration `json:"hold,omitzero"`
	// Charge is ChargeAlways for usage that is reported after the fact: where a rule
	// refuses the check, as much of its cost as fits is charged. Only allowed checks
	// are charged if omitted. It cannot be combined with MaxWait.
	Charge string `json:"charge,omitzero" enum:"always"`
	// Pass is the value of the cookie stint_pass of the client, which solving a challenge has
	// given it: what challenges lets it through, and it is counted by its pass too. A pass that
	// does not hold is ignored. Of several cookies, which another site of the same domain may have
	// set, send all values with spaces between: the first that holds counts. At most MaxPass bytes.
	Pass string `json:"pass,omitzero"`
	// IdempotencyKey names the request: one that comes again within a minute of
	// its reservation is answered again and not charged. 1 to MaxID printable ASCII
	// characters.
	IdempotencyKey string `json:"idempotency_key,omitzero"`
}

// Decision answers a check.
type Decision struct {
	// ID opens the record of a refusal; null if nothing was refused.
	ID       NullString `json:"id"`
	Decision string     `json:"decision" enum:"allowed,limited,blocked,unavailable"`
	Allowed  bool       `json:"allowed"` // whether the request may be done
	Key      string     `json:"key"`     // canonical
	Policy   NullString `json:"policy"`
	Mode     NullString `json:"mode" enum:"enforce,shadow,off"`
	// Conditional is omitted unless the policy has conditions: the answer is then about
	// this request and not about every request of the key.
	Conditional bool `json:"conditional,omitzero"`
	// DerivedKey is the further key of the request, by the also of the policy, that the
	// answer is about; omitted if it is about the key itself.
	DerivedKey string `json:"derived_key,omitzero"`
	// OwnLimit is omitted unless the key has a limit of its own: the rules are then its own
	// and not those of the policy.
	OwnLimit bool `json:"own_limit,omitzero"`
	Degraded bool `json:"degraded"`
	// DegradedReason is omitted unless Degraded is true.
	DegradedReason string `json:"degraded_reason,omitzero"`
	// RetryAfterMS and RetryAt say when to ask again: 0 and null if the
	// request was allowed, both null if waiting never helps.
	RetryAfterMS *int64 `json:"retry_after_ms"`
	RetryAt      Time   `json:"retry_at"`
	// Rule makes the caller wait longest.
	Rule NullString `json:"rule"`
	// Rules is null if it was not asked for or is not known.
	Rules  RuleStates    `json:"rules"`
	Block  *DecidedBlock `json:"block"`  // the block that refuses, null without one
	Shadow *Shadow       `json:"shadow"` // what a shadow policy would have decided, null without one
	// Waiting is omitted unless a max_wait was sent, or cancellable.
	*Waiting
	// Hold is what the check holds, omitted if it holds nothing or is not allowed.
	Hold *Hold `json:"hold,omitzero"`
	// TooManyHolds is omitted unless the check waits longest because the key has 1,024 open holds.
	TooManyHolds bool `json:"too_many_holds,omitzero"`
	// Replayed reports that the idempotency_key was charged before and nothing was
	// charged now.
	Replayed bool `json:"replayed,omitzero"`
	// Evidence says in a sentence what the key got its points for; omitted unless a rule of points refused it.
	Evidence string `json:"evidence,omitzero"`
	// Exemption is the one that allowed the key, omitted without one.
	Exemption *DecidedExemption `json:"exemption,omitzero"`
	// Warnings is omitted without any; an example is a block that an exemption hides.
	Warnings []string `json:"warnings,omitempty"`
	// Reason is challenged if the client may go on once its browser has solved a challenge: the
	// decision, for clients that do not know challenges, is limited or blocked, by what
	// challenges. Omitted otherwise.
	Reason string `json:"reason,omitzero" enum:"challenged"`
	// Challenge is the path of the page where a challenged browser gets a pass, to which
	// ?to= and the path where it was may be added; omitted without that Reason.
	Challenge string `json:"challenge,omitzero"`
}

// RuleStates is what each rule has left, null on the wire if it is nil.
type RuleStates []RuleState

// MarshalJSON writes null or the list.
func (s RuleStates) MarshalJSON() ([]byte, error) {
	return json.Marshal([]RuleState(s), json.FormatNilSliceAsNull(true))
}

// RuleState is what one rule has left after the answer.
type RuleState struct {
	Rule      string `json:"rule"`
	Limit     int    `json:"limit"`
	WindowMS  int64  `json:"window_ms"` // 0 for a rule of what is concurrent; the longest there is for a period of the calendar
	Remaining int    `json:"remaining"`
	// RetryAfterMS is this rule's own wait for this cost: 0 if the rule allows it,
	// null if it never will.
	RetryAfterMS *int64 `json:"retry_after_ms"`
	// ResetAfterMS is the time until the rule's whole limit is available again without
	// further requests; 0 if nothing counts.
	ResetAfterMS int64 `json:"reset_after_ms"`
}

// DecidedBlock is the block that refuses a key.
type DecidedBlock struct {
	ID        string `json:"id"`
	Pattern   string `json:"pattern"`
	Scope     string `json:"scope,omitzero"` // of the checks that it refuses; omitted if all
	Reason    string `json:"reason"`
	Source    string `json:"source" enum:"manual,automatic,imported,list"`
	ExpiresAt Time   `json:"expires_at"`
}

// DecidedExemption is the exemption that let a key through.
type DecidedExemption struct {
	ID        string `json:"id"`
	Pattern   string `json:"pattern"`
	Reason    string `json:"reason"`
	ExpiresAt Time   `json:"expires_at"`
}

// Shadow is what a shadow policy would have decided.
type Shadow struct {
	ID           NullString `json:"id"`
	Decision     string     `json:"decision" enum:"allowed,limited,blocked,unavailable"`
	Allowed      bool       `json:"allowed"` // whether it would have allowed the request
	Policy       string     `json:"policy"`
	DerivedKey   string     `json:"derived_key,omitzero"` // as in a Decision
	RetryAfterMS *int64     `json:"retry_after_ms"`
	RetryAt      Time       `json:"retry_at"`
	Rule         NullString `json:"rule"`
	Rules        RuleStates `json:"rules"`
}

// BatchRequest asks up to MaxBatch checks, each on its own.
type BatchRequest struct {
	Checks []CheckRequest `json:"checks"` // 1 to MaxBatch
}

// BatchAnswer holds the answers in the order of the checks.
type BatchAnswer struct {
	Decisions []BatchItem `json:"decisions"` // in the order of the checks
}

// BatchItem is a decision, or in its place what was wrong with the check:
// exactly one of the two is not nil.
type BatchItem struct {
	Decision *Decision
	Problem  *Problem
}

// MarshalJSON writes the one that is not nil.
func (i BatchItem) MarshalJSON() ([]byte, error) {
	if i.Problem != nil {
		return json.Marshal(i.Problem)
	}
	return json.Marshal(i.Decision)
}

// UnmarshalJSON reads a decision, which says "decision", or else a problem.
func (i *BatchItem) UnmarshalJSON(text []byte) error {
	var d Decision
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	*i = BatchItem{}
	if d.Decision != "" {
		i.Decision = &d
		return nil
	}
	i.Problem = new(Problem)
	return json.Unmarshal(text, i.Problem)
}

// JSONSchemaOneOf returns a value of each type that an item may have, for the OpenAPI
// document.
func (BatchItem) JSONSchemaOneOf() []any { return []any{Decision{}, Problem{}} }
