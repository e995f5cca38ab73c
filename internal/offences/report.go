package offences

import (
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/profiles"
)

// Offender is one offender of a report.
type Offender struct {
	Ranked
	// Allowed is exact where OffenderReport.AllowedExact says so, and else what is
	// known of the minutes in which the key was among the heaviest or offended.
	// It is of the policy that was asked for, whatever the source and rule.
	Allowed int64
	// Ratio is the refused part of the checks, 0 to 1.
	Ratio float64
	// Policy and RefusedBy refused most of the
	Policy    int64
	Kind      Kind
	RefusedBy string
	// Block is active, or hidden by Exemption; nil if none.
	Block     *blocks.Entry
	Exemption *blocks.Entry
	// Plan is the key's plan, "" for none, and OwnLimit its own limit that holds now, nil for
	// none.
	Plan     string
	OwnLimit *profiles.Limit
	// Escalation is the state of the key under the policy that refused most of it; if that
	// was a block, or the policy has no escalation, under the one with the highest level that
	// may count the key; nil where none has one.
	Escalation *EscalationStatus
	// Trend is the offences in equal parts of the span.
	Trend []int64
}

// OffenderReport is one page of offenders.
type OffenderReport struct {
	Ranking
	Rows []Offender
	// States counts the keys that the other filters select by their state, if it was asked
	// for: of those before Unread.
	States map[Triage]int64
	// AllowedExact says that the traffic memory held every key of the span, and that what the
	// keys were allowed is counted for them and under the policy that was asked for. It is not
	// for further keys, and not under shadow policies and policies that apply in addition to
	// others.
	AllowedExact bool
}

// RuleRow is one rule or block of a report on rules.
type RuleRow struct {
	RuleTotal
	Ratio float64 // of all that was refused, 0 to 1
}

// TimelinePoint is one part of a key's timeline.
type TimelinePoint struct {
	At                       time.Time
	Limited, Blocked, Shadow int64
}

// Timeline is what one key did over a span.
type Timeline struct {
	Key string
	Span
	// Step is the length of each point, not less than an hour or a day where no more is kept.
	Step   time.Duration
	Points []TimelinePoint
	// Allowed is what the traffic memory knows, a lower bound where the key
	// was not always among the heaviest.
	Allowed int64
	Events  []EscalationEvent
}

// Divide sets the span and so many empty points of it.
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
