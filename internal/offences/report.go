package offences

import (
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/profiles"
)

// Offender is one offender of a report.
type Offender struct {
	Ranked
	// Allowed is exact if OffenderReport.AllowedExact is set. Otherwise it covers only the
	// minutes in which the key offended or was among the heaviest. It is the number under the
	// requested policy, whatever the source and rule.
	Allowed int64
	// Ratio is the ratio of refused checks, 0 to 1.
	Ratio float64
	// Policy, Kind and RefusedBy are those with the most offences of the key.
	Policy    int64
	Kind      Kind
	RefusedBy string
	// Block is active, or hidden by Exemption; nil for none.
	Block     *blocks.Entry
	Exemption *blocks.Entry
	// BlockedScopes are the scopes of active blocks of the key, sorted; nil if it is exempt.
	BlockedScopes []string
	// Plan is the key's plan, "" for none. OwnLimit is the key's own active limit, nil for none.
	Plan     string
	OwnLimit *profiles.Limit
	// Escalation is the state of the key under the policy with the most offences. If a block
	// refused most, or if that policy has no escalation, it is the state under the policy with
	// the highest level that may count the key; nil if there is none.
	Escalation *EscalationStatus
	// Trend is the number of offences in equal parts of the span.
	Trend []int64
}

// OffenderReport is one page of offenders.
type OffenderReport struct {
	Ranking
	Rows []Offender
	// States is the number of selected keys by state, regardless of Query.State, if it was
	// requested. It does not include Unread.
	States map[Triage]int64
	// AllowedExact reports that Allowed is exact: the span has traffic for every key, and the
	// allowed checks are counted for these keys under the requested policy. It is false for
	// further keys, for shadow policies and for policies that apply in addition to others.
	AllowedExact bool
}

// RuleRow is one rule or block of a report on rules.
type RuleRow struct {
	RuleTotal
	Ratio float64 // of all refused checks, 0 to 1
}

// TimelinePoint is one part of a key's timeline.
type TimelinePoint struct {
	At                       time.Time
	Limited, Blocked, Shadow int64
}

// Timeline is the activity of one key over a span.
type Timeline struct {
	Key string
	Span
	// Step is the length of each point, at least an hour or a day if only hours or days are kept.
	Step   time.Duration
	Points []TimelinePoint
	// Allowed is the known number of allowed checks, which is a lower bound if the key was not
	// always among the heaviest.
	Allowed int64
	Events  []EscalationEvent
}

// Divide sets the span and divides it into empty points.
func (t *Timeline) Divide(span Span, points int) {
	t.Span, t.Step, t.Points = span, span.Part(points), make([]TimelinePoint, points)
	for i := range t.Points {
		t.Points[i].At = span.From.Add(time.Duration(i) * t.Step)
	}
}

// Add adds n offences of a kind.
func (p *TimelinePoint) Add(kind Kind, n int64) {
	switch kind {
	case Limited:
		p.Limited += n
	case Blocked:
		p.Blocked += n
	case Shadow:
		p.Shadow += n
	}
}
