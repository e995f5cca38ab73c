package rules

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/keys"
)

// Mode is the effect of a policy's decisions.
type Mode string

// The modes of a policy.
const (
	Enforce Mode = "enforce" // its decisions are the answers
	Shadow  Mode = "shadow"  // its decisions are only counted and shown
	Off     Mode = "off"     // it decides nothing and allows what it selects
)

// OnFailure says what a policy does while the log is unreachable.
type OnFailure string

// What a policy does during an outage of the log.
const (
	FailLocal OnFailure = "local" // this node counts under the same stack in memory
	FailAllow OnFailure = "allow"
	FailDeny  OnFailure = "deny" // unavailable, 503
)

// OnLimit says what happens to a key that reaches a limit of a policy.
type OnLimit string

// What happens to a key that reaches a limit.
const (
	LimitOnLimit OnLimit = ""      // its requests are refused until there is room again; "limit" in a document
	BlockOnLimit OnLimit = "block" // it is also blocked at once, for as long as the escalation says
	// ChallengeOnLimit refuses its requests until there is room or the client has a pass.
	ChallengeOnLimit OnLimit = "challenge"
)

// BlockAtOnce returns the escalation of a policy with BlockOnLimit that has none of its own.
func BlockAtOnce() *Escalation {
	return &Escalation{Threshold: 1, Window: time.Minute, Duration: time.Hour, Factor: 2, MaxDuration: 24 * time.Hour, DecayAfter: 24 * time.Hour}
}

// Escalation adds automatic blocks. If checks of one key are limited Threshold times within
// Window, the key is blocked for Duration. Each further block is Factor times longer, up to
// MaxDuration. The key goes down one level for each DecayAfter without an offence.
type Escalation struct {
	Threshold   int
	Window      time.Duration // whole minutes
	Duration    time.Duration
	Factor      float64 // 1 or more
	MaxDuration time.Duration
	DecayAfter  time.Duration
	// ChallengeLevels is how many of the first blocks challenge: they let clients with a pass through.
	ChallengeLevels int
}

// MaxChallengeLevels is the most levels of an escalation that may challenge.
const MaxChallengeLevels = 10

// TagOf returns a tag of this version of this policy. A policy that is created again under the
// same name has another tag, and so has a version whose number is used again after a restore.
func TagOf(p *Policy) etag.Tag {
	state := etag.Of(p.ID, p.Version, p.Revision, p.Created.UnixMilli(), p.Updated.UnixMilli())
	return etag.Tag(strconv.FormatInt(p.Version, 10)) + "-" + state
}

// Policy is a named stack of rules and the patterns of keys that it limits.
type Policy struct {
	ID      int64 // never reused
	Name    string
	Version int64 // 1 for a new policy; each replacement adds 1
	Match   []keys.Pattern
	// When is the conditions that a request must meet for the policy to apply. With conditions
	// the policy applies in addition to the key's other policies; see Selector.
	When conditions.When
	// InAttack limits the policy to the time in which an attack goes on; see Selector.During. It is the
	// condition "attack" of documents.
	InAttack bool
	// Outcome is the outcome whose reports charge the policy, "" if checks charge it; see
	// IsReported.
	Outcome string
	// Scope restricts what a policy with an outcome refuses to checks of that scope; "" for every
	// check.
	Scope string
	Rules Stack
	// Evidence is for what requests get the points that the rules limit, none if the rules count
	// something else.
	Evidence Items
	// Also are the further keys that each request that the policy counts also counts for.
	Also Also
	// Derived is the further key that this part of a policy limits, nil for a whole policy. Only
	// a Selector creates such parts; see Selector.DerivedOf.
	Derived *Derived
	// Part is the position of Derived in the policy's Also, from 1; 0 for a whole policy.
	Part int
	// ofRequest is set in a part whose policy depends on the request.
	ofRequest bool
	Mode      Mode
	// OnFailure is what the policy does while the log is unreachable.
	OnFailure OnFailure
	// OnLimit is what happens to a key that reaches a limit.
	OnLimit OnLimit
	// Algorithm is the name of an algorithm in package algorithms, and Options are its settings.
	Algorithm string
	Options   algorithms.Options
	// Cost is the amount of a check that says none, 0 for 1.
	Cost int
	// Hold is for how long a check holds its cost if it does not say so itself, 0 if it then charges it.
	Hold time.Duration
	// OnExpiry is what a hold that was never settled leaves, "" for the default; see Expiry.
	OnExpiry   OnExpiry
	Escalation *Escalation // nil: never blocks automatically
	// Generation is part of the name of the log. It changes if MovesGeneration says so.
	Generation int64
	// Retention is how much of the log must be kept for this version and for recently replaced
	// ones, so that changing a policy and reverting the change does not forget requests.
	Retention Retention
	Created   time.Time
	Updated   time.Time
	UpdatedBy string
	Revision  int64 // of the change that made this version
}

// Retention bounds what a log keeps: its newest Entries, none of them older than Window.
type Retention struct {
	Entries int
	Window  time.Duration
}

// Cover returns the larger of both bounds and what s needs.
func (r Retention) Cover(s Stack) Retention {
	return r.and(Retention{Entries: s.LargestLimit(), Window: s.LongestWindow()})
}

// and returns the larger of both bounds and those of other.
func (r Retention) and(other Retention) Retention {
	return Retention{Entries: max(r.Entries, other.Entries), Window: max(r.Window, other.Window)}
}

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// CheckName returns an error unless name is 1 to 64 of a-z, 0-9, dot,
// underscore and dash, beginning with a letter or digit.
func CheckName(name string) error {
	if !namePattern.MatchString(name) {
		return &FieldError{Field: "name", Problem: "must be 1 to 64 of a-z, 0-9, dot, underscore and dash, beginning with a letter or digit"}
	}
	return nil
}

// FieldError says which field of a policy is wrong and what would be right.
type FieldError struct {
	Field   string // as in the API, for example "escalation.window"
	Problem string
}

// Error returns one line that is safe to print.
func (e *FieldError) Error() string { return e.Field + " " + e.Problem }

// Validate returns nil or a *FieldError for the first field that is wrong. It does not consider
// other policies.
func (p *Policy) Validate() error {
	if err := CheckName(p.Name); err != nil {
		return err
	}
	if len(p.Match) == 0 {
		return &FieldError{"match", "is empty; name at least one pattern, * for every key"}
	}
	seen := map[string]bool{}
	for i, m := range p.Match {
		if m.IsZero() {
			return &FieldError{fmt.Sprintf("match[%d]", i), "is empty; name a pattern, * for every key"}
		}
		if err := checkPlanPattern(m); err != nil {
			return &FieldError{fmt.Sprintf("match[%d]", i), err.Error()}
		}
		if seen[m.String()] {
			return &FieldError{fmt.Sprintf("match[%d]", i), fmt.Sprintf("names %q a second time", m)}
		}
		seen[m.String()] = true
	}
	if _, err := NewStack(p.Rules...); err != nil {
		return &FieldError{"rules", "are wrong: " + err.Error()}
	}
	switch p.Mode {
	case Enforce, Shadow, Off:
	default:
		return &FieldError{"mode", "must be enforce, shadow or off"}
	}
	switch p.OnFailure {
	case FailLocal, FailAllow, FailDeny:
	default:
		return &FieldError{"on_failure", "must be local, allow or deny"}
	}
	if err := p.validateOnLimit(); err != nil {
		return err
	}
	if err := p.validateAlgorithm(); err != nil {
		return err
	}
	if err := p.validateHolds(); err != nil {
		return err
	}
	if err := p.validateEvidence(); err != nil {
		return err
	}
	if err := p.validateOutcome(); err != nil {
		return err
	}
	if err := p.validateDistinct(); err != nil {
		return err
	}
	if err := p.Also.validate(p); err != nil {
		return err
	}
	if err := p.validateInAttack(); err != nil {
		return err
	}
	if p.IsConditional() && p.Options.CountRefused {
		return &FieldError{"options.count_refused", "cannot be combined with when, outcome or distinct: such a policy is decided together with others, and their refusals are not counted"}
	}
	if p.Escalation != nil {
		return p.Escalation.validate()
	}
	return nil
}

func (p *Policy) validateOnLimit() error {
	switch {
	case p.OnLimit != LimitOnLimit && p.OnLimit != BlockOnLimit && p.OnLimit != ChallengeOnLimit:
		return &FieldError{"on_limit", "must be limit, block or challenge"}
	case p.OnLimit == BlockOnLimit && p.Escalation == nil:
		return &FieldError{"escalation", "is missing: on_limit block needs to know for how long"}
	case p.OnLimit == BlockOnLimit && p.Escalation.Threshold != 1:
		return &FieldError{"escalation.threshold", "must be 1 beside on_limit: block, which blocks a key when it first reaches a limit; or leave on_limit out"}
	}
	return nil
}

// maxBlock is the longest block that an escalation may have: a leap year.
const maxBlock = 366 * 24 * time.Hour

func (e *Escalation) validate() error {
	switch {
	case e.Threshold < 1 || e.Threshold > 1_000_000_000:
		return &FieldError{"escalation.threshold", "must be 1 to 1,000,000,000"}
	case e.Window < time.Minute || e.Window > 24*time.Hour || e.Window%time.Minute != 0:
		return &FieldError{"escalation.window", "must be whole minutes, 1m to 24h"}
	case e.Duration < time.Second || e.Duration > maxBlock:
		return &FieldError{"escalation.duration", "must be 1s to 366d"}
	case !(e.Factor >= 1 && e.Factor <= 100):
		return &FieldError{"escalation.factor", "must be 1 to 100"}
	case e.MaxDuration < e.Duration || e.MaxDuration > maxBlock:
		return &FieldError{"escalation.max_duration", "must be at least duration and at most 366d"}
	case e.DecayAfter < time.Minute || e.DecayAfter > maxBlock:
		return &FieldError{"escalation.decay_after", "must be 1m to 366d"}
	case e.ChallengeLevels < 0 || e.ChallengeLevels > MaxChallengeLevels:
		return &FieldError{"escalation.challenge_levels", "must be 0 to 10"}
	}
	return nil
}
