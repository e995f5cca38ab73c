package backtest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/answers"
)

// Report is what a backtest found.
type Report struct {
	Plan string `json:"plan"`
	// Estimate says that the source held only some of the requests.
	Estimate bool `json:"estimate"`
	// Requests is the sum of Allowed and Refused.
	Requests int64 `json:"requests"`
	Allowed  int64 `json:"allowed"`
	Refused  int64 `json:"refused"`
	// TooCostly are the refused requests whose cost is above what the rules
	// can ever allow.
	TooCostly int64 `json:"too_costly"`
	// Unlimited are the allowed requests that no rule applied to.
	Unlimited int64 `json:"unlimited"`
	// Blocked are the refused requests that an automatic block refused, and no rule.
	Blocked int64 `json:"blocked"`
	// Challenged are those of the refused that a challenge refused, under a policy or a block that
	// challenges: browsers that solve it would have gone on.
	Challenged int64 `json:"challenged,omitzero"`
	Keys       int64 `json:"keys"` // distinct ones
	// First and Last are the times of the first and last request, zero
	// without any.
	First time.Time   `json:"first,omitzero"`
	Last  time.Time   `json:"last,omitzero"`
	Rules []RuleCount `json:"rules"`
	// Reports are of the policies with an outcome.
	Reports []ReportCount `json:"reports"`
	// Evidence is what the items of the policies with evidence found, those of the most refused keys first.
	Evidence []EvidenceCount `json:"evidence,omitempty"`
	// Escalations are of the policies that have one, that with the most blocks first. The
	// safety limit of a server is left out.
	Escalations []EscalationCount `json:"escalations"`
	Offenders   []Offender        `json:"offenders"`         // the most refused first
	Timeline    *Timeline         `json:"timeline,omitzero"` // nil without requests
	// Score is nil unless a truth was given.
	Score *Score `json:"score,omitzero"`
	// Comparison is nil unless a second plan was given.
	Comparison *Comparison `json:"comparison,omitzero"`
	// shared names the requests for which the log has the address of a proxy, one sentence each; it is among
	// the warnings of Input.
	shared []string
	// Site is what the answers show of the site, zero for nothing.
	Site answers.SiteReport `json:"site,omitzero"`
	// Input is nil unless the requests came out of log files.
	Input *Input `json:"input,omitzero"`
}

// RuleCount is how often a rule refused a request.
type RuleCount struct {
	Policy string `json:"policy,omitzero"` // "" for the rules of a StackPlan
	Rule   string `json:"rule"`
	// DerivedKey is the further key that the rule limits, as "account" or "net:/24"; "" for
	// the key itself.
	DerivedKey string `json:"derived_key,omitzero"`
	Outcome    string `json:"outcome,omitzero"` // whose reports it counts, "" for checks
	Scope      string `json:"scope,omitzero"`   // in which it refuses, "" for every check
	Trap       bool   `json:"trap,omitzero"`
	Failed     int64  `json:"failed"`
	Alone      int64  `json:"alone"` // while every other rule allowed it
	// Decided counts each refused request once, under the rule that the answer names; those
	// that an automatic block refused are under the first rule of its policy.
	Decided int64 `json:"-"`

	challenges bool // clients with a pass go on
}

// ReportCount has the results of the reports of an outcome under one policy, or for a further
// key of it. Requests that were refused had no outcome.
type ReportCount struct {
	Policy     string `json:"policy"`
	DerivedKey string `json:"derived_key,omitzero"` // as in RuleCount
	Outcome    string `json:"outcome"`
	Charged    int64  `json:"charged"`
	Full       int64  `json:"full"`   // into a full limit: offences
	Unsaid     int64  `json:"unsaid"` // without the value or the address that is counted
}

// Offender is a key that was refused.
type Offender struct {
	Key      string    `json:"key"`
	Requests int64     `json:"requests"`
	Allowed  int64     `json:"allowed"`
	Refused  int64     `json:"refused"`
	Ratio    float64   `json:"ratio"` // of all refusals, 0 to 1
	First    time.Time `json:"first_refusal"`
	Last     time.Time `json:"last_refusal"`
	// FirstPolicy and FirstRule made the first refused request wait longest. The rule is as of
	// RuleCount.Text.
	FirstPolicy string `json:"first_policy,omitzero"`
	FirstRule   string `json:"first_rule"`
	// Traits are what it asked for, as far as the log says.
	Traits `json:",inline"`
}

// Comparison is how a plan differs from a second one.
type Comparison struct {
	Against     string            `json:"against"`
	Allowed     int64             `json:"allowed"`             // by the second plan
	Refused     int64             `json:"refused"`             // by the second plan
	Blocked     int64             `json:"blocked"`             // those of Refused that its automatic blocks refused
	Challenged  int64             `json:"challenged,omitzero"` // those of Refused that a challenge refused
	Rules       []RuleCount       `json:"rules"`               // of the second plan
	Reports     []ReportCount     `json:"reports"`             // of the second plan
	Evidence    []EvidenceCount   `json:"evidence,omitempty"`  // of the second plan
	Escalations []EscalationCount `json:"escalations"`         // of the second plan
	Score       *Score            `json:"score,omitzero"`      // of the second plan, nil without a truth
	// NewlyRefused are the requests that only the first plan refuses and
	// NewlyAllowed those that only the second one refuses.
	NewlyRefused     int64    `json:"newly_refused"`
	NewlyAllowed     int64    `json:"newly_allowed"`
	NewlyRefusedKeys []Change `json:"newly_refused_keys"` // the most first
	NewlyAllowedKeys []Change `json:"newly_allowed_keys"` // the most first
}

// Change is a key that two plans treat differently.
type Change struct {
	Key string `json:"key"`
	// Changed is how many of its requests are newly refused, or newly allowed.
	Changed        int64     `json:"changed"`
	Requests       int64     `json:"requests"`
	Refused        int64     `json:"refused"`         // by the first plan
	RefusedAgainst int64     `json:"refused_against"` // by the second plan
	First          time.Time `json:"first"`           // of the changed requests
}

// Input counts what was read from log files.
type Input struct {
	accesslog.Counts `json:",inline"`
	OutOfOrder       int64 `json:"out_of_order"` // older than the one before them
	LeftOut          int64 `json:"left_out"`     // of those, older than could be sorted in memory
}

// Text returns the rule, behind the further key that it limits, if any.
func (c *RuleCount) Text() string { return strings.TrimSpace(c.DerivedKey + " " + c.Rule) }

// name returns the policy and the rule, and in brackets what it counts and refuses.
func (c *RuleCount) name() string {
	var notes []string
	if c.Trap {
		notes = append(notes, "trap")
	}
	if c.Outcome != "" {
		notes = append(notes, c.Outcome)
	}
	if c.Scope != "" {
		notes = append(notes, "scope "+c.Scope)
	}
	name := ruleName(c.Policy, c.Text())
	if len(notes) > 0 {
		name += " (" + strings.Join(notes, ", ") + ")"
	}
	return name
}

// name returns the policy and the outcome, and the further key if it is about one.
func (c *ReportCount) name() string {
	return strings.TrimSpace(printable(c.Policy)+" "+c.DerivedKey) + " (" + c.Outcome + ")"
}

// name returns the policy, and the scope of its blocks.
func (c *EscalationCount) name() string {
	if c.Scope == "" {
		return printable(c.Policy)
	}
	return printable(c.Policy) + " (scope " + c.Scope + ")"
}

func (r *run) report() *Report {
	t := r.plan
	report := &Report{
		Plan: r.options.Plan.String(), Estimate: r.options.Estimate,
		Requests: r.records, Allowed: t.allowed, Refused: t.refused,
		TooCostly: t.tooCostly, Unlimited: t.unlimited, Blocked: t.blocked, Challenged: t.challenged,
		Keys: int64(len(r.keys)), Rules: t.ruleCounts(), Reports: t.reportCounts(), Escalations: t.escalationCounts(), Timeline: r.timeline.result(),
	}
	report.Evidence = t.evidenceCounts(func(key string) bool { h := r.keys[key]; return h != nil && h.refused > 0 })
	report.shared = r.sharedWarnings()
	if site := r.options.Outcomes.Site(); site != nil {
		report.Site = site.Report()
	}
	if r.score != nil {
		report.Score = r.score.Score()
	}
	if r.records > 0 {
		report.First, report.Last = timeOf(r.first), timeOf(r.last)
	}
	for _, h := range r.keys {
		if h.refused > 0 {
			report.Offenders = append(report.Offenders, h.offender(t.refused))
		}
	}
	slices.SortFunc(report.Offenders, func(a, b Offender) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Key, b.Key))
	})
	if r.against != nil {
		report.Comparison = r.comparison()
	}
	return report
}

func (h *history) offender(refused int64) Offender {
	return Offender{
		Key: h.key, Requests: h.requests, Allowed: h.requests - h.refused, Refused: h.refused,
		Ratio: float64(h.refused) / float64(refused),
		First: timeOf(h.firstRefusal), Last: timeOf(h.lastRefusal),
		FirstPolicy: h.firstRule.Policy, FirstRule: h.firstRule.Text(), Traits: h.observed.traits(),
	}
}

func (r *run) comparison() *Comparison {
	t := r.against
	c := &Comparison{Against: r.options.Against.String(), Allowed: t.allowed, Refused: t.refused, Blocked: t.blocked, Challenged: t.challenged,
		Rules: t.ruleCounts(), Reports: t.reportCounts(), Escalations: t.escalationCounts()}
	c.Evidence = t.evidenceCounts(func(key string) bool { h := r.keys[key]; return h != nil && h.refusedAgainst > 0 })
	if r.scoreAgainst != nil {
		c.Score = r.scoreAgainst.Score()
	}
	for _, h := range r.keys {
		if h.newlyRefused > 0 {
			c.NewlyRefused += h.newlyRefused
			c.NewlyRefusedKeys = append(c.NewlyRefusedKeys, h.change(h.newlyRefused, h.firstNewlyRefused))
		}
		if h.newlyAllowed > 0 {
			c.NewlyAllowed += h.newlyAllowed
			c.NewlyAllowedKeys = append(c.NewlyAllowedKeys, h.change(h.newlyAllowed, h.firstNewlyFree))
		}
	}
	for _, changes := range [][]Change{c.NewlyRefusedKeys, c.NewlyAllowedKeys} {
		slices.SortFunc(changes, func(a, b Change) int {
			return cmp.Or(cmp.Compare(b.Changed, a.Changed), cmp.Compare(a.Key, b.Key))
		})
	}
	return c
}

func (h *history) change(changed, first int64) Change {
	return Change{
		Key: h.key, Changed: changed, Requests: h.requests, Refused: h.refused,
		RefusedAgainst: h.refusedAgainst, First: timeOf(first),
	}
}

func timeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
