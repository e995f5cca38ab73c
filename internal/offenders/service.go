// Package offenders answers who offended, when and why, from what is recorded
// in the database.
package offenders

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

// View is the node's copy of what decides.
type View interface {
	Selector() *rules.Selector
	Blocks() *blocks.Set
}

// Service answers who offended, when and why. It is safe for use by many
// goroutines.
type Service struct {
	Store            Store
	Proposals        ProposalStore
	Entries          blocks.Store
	View             View
	ProposalSettings func() offences.ProposalSettings // nil means DefaultWider
	Now              func() time.Time                 // nil means time.Now
}

func (s *Service) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

// Row is one offender of a report.
type Row struct {
	offences.Ranked
	// Allowed is exact where Report.AllowedExact says so, and else what is
	// known of the minutes in which the key was among the heaviest or offended.
	// It is of the policy that was asked for, whatever the source and rule.
	Allowed int64
	// Share is the refused share of the checks, 0 to 1.
	Share float64
	// Policy and Decider refused most of the offences.
	Policy    int64
	Kind      offences.Kind
	RefusedBy string
	// Block stands now, or is hidden by Exemption; nil if none.
	Block     *blocks.Entry
	Exemption *blocks.Entry
	// Escalation is where the key stands, nil where its policy has none.
	Escalation *offences.EscalationStatus
	// Trend is the offences in equal parts of the span.
	Trend []int64
}

// Report is one page of offenders.
type Report struct {
	offences.Ranking
	Rows []Row
	// AllowedExact says that the traffic memory held every key of the span.
	AllowedExact bool
}

// Report ranks the offenders of a span.
func (s *Service) Report(ctx context.Context, q offences.Query) (*Report, error) {
	ranking, err := s.Store.Rank(ctx, q)
	if err != nil {
		return nil, err
	}
	r := &Report{Ranking: ranking, AllowedExact: ranking.Untracked == 0}
	page := make([]string, len(ranking.Rows))
	at := make(map[string]*Row, len(page))
	r.Rows = make([]Row, len(page))
	for i, ranked := range ranking.Rows {
		page[i] = ranked.Key
		r.Rows[i].Ranked = ranked
		at[ranked.Key] = &r.Rows[i]
	}
	if err := s.addDetails(ctx, q, ranking.Span, page, at); err != nil {
		return nil, err
	}
	if err := s.addTraffic(ctx, q.Policy, r, page, at); err != nil {
		return nil, err
	}
	standings, err := s.escalationStatuses(ctx, page, q.Shadow)
	if err != nil {
		return nil, err
	}
	now := s.now()
	for i := range r.Rows {
		row := &r.Rows[i]
		row.Escalation = standings[row.Key]
		if k, err := offences.ParseKey(row.Key); err == nil {
			verdict := s.View.Blocks().Match(k, now)
			row.Block, row.Exemption = verdict.Block, verdict.Exemption
		}
	}
	return r, nil
}

// maxPoints bounds a trend.
const maxPoints = 120

// finelySpan is the longest span whose trend has parts of less than an hour.
const finelySpan = 6 * time.Hour

func (s *Service) addDetails(ctx context.Context, q offences.Query, span offences.Span, page []string, at map[string]*Row) error {
	points := min(max(1, q.Points), maxPoints)
	if span.To.Sub(span.From) > finelySpan { // parts of less than an hour would read all the minutes
		points = min(points, int(span.To.Sub(span.From)/time.Hour))
	}
	details, err := s.Store.Details(ctx, q, page, span, points)
	if err != nil {
		return err
	}
	type decider struct {
		key, name string
		policy    int64
		kind      offences.Kind
	}
	sums, most := map[decider]int64{}, map[string]int64{}
	for _, d := range details {
		row := at[d.Key]
		if q.Points > 0 {
			if row.Trend == nil {
				row.Trend = make([]int64, points)
			}
			row.Trend[min(d.Point, points-1)] += d.Count
		}
		id := decider{d.Key, d.RefusedBy, d.Policy, d.Kind}
		sums[id] += d.Count
		if sums[id] > most[d.Key] {
			most[d.Key] = sums[id]
			row.Policy, row.Kind, row.RefusedBy = d.Policy, d.Kind, d.RefusedBy
		}
	}
	return nil
}

func (s *Service) addTraffic(ctx context.Context, policy int64, r *Report, page []string, at map[string]*Row) error {
	totals, err := s.Store.KeyTotals(ctx, policy, page, r.Span)
	if err != nil {
		return err
	}
	for _, t := range totals {
		at[t.Key].Allowed = t.Allowed
	}
	for i := range r.Rows {
		if all := r.Rows[i].Offences + r.Rows[i].Allowed; all > 0 {
			r.Rows[i].Share = float64(r.Rows[i].Offences) / float64(all)
		}
	}
	return nil
}

// Traffic returns the traffic of a policy, 0 for all, in steps of a resolution
// of whole minutes. Steps of up to a day begin where they would after
// midnight, the first one perhaps before from. Steps without a check are left
// out.
func (s *Service) Traffic(ctx context.Context, policy int64, from, to time.Time, resolution time.Duration) ([]offences.TrafficPoint, error) {
	step := max(time.Minute, resolution.Truncate(time.Minute))
	if step <= 24*time.Hour {
		from = from.UTC().Truncate(step)
	}
	return s.Store.Traffic(ctx, policy, from, to, step)
}

// TrafficTotal returns the traffic of a policy, 0 for all, over a whole span,
// and the estimated number of distinct keys.
func (s *Service) TrafficTotal(ctx context.Context, policy int64, from, to time.Time) (offences.TrafficPoint, error) {
	total := offences.TrafficPoint{At: from}
	points, err := s.Store.Traffic(ctx, policy, from, to, 0)
	for _, p := range points {
		total.Add(p.Counts)
		total.Keys = p.Keys
	}
	return total, err
}

// RuleRow is one rule or block of a report on rules.
type RuleRow struct {
	offences.RuleTotal
	Share float64 // of all that was refused, 0 to 1
}

// RulesReport ranks what refused most. Rules of present policies that refused
// nobody stand last.
func (s *Service) RulesReport(ctx context.Context, from, to time.Time) ([]RuleRow, error) {
	totals, err := s.Store.RuleTotals(ctx, offences.Span{From: from, To: to})
	if err != nil {
		return nil, err
	}
	var all int64
	type ruleID struct {
		policy int64
		rule   string
	}
	known := map[ruleID]bool{}
	for _, t := range totals {
		known[ruleID{t.Policy, t.RefusedBy}] = true
		if t.Kind != offences.Shadow {
			all += t.Refused
		}
	}
	rows := make([]RuleRow, 0, len(totals))
	for _, t := range totals {
		row := RuleRow{RuleTotal: t}
		if t.Kind != offences.Shadow && all > 0 {
			row.Share = float64(t.Refused) / float64(all)
		}
		rows = append(rows, row)
	}
	for _, p := range sortedPolicies(s.View.Selector()) {
		kind := offences.Limited
		switch p.Mode {
		case rules.Off:
			continue
		case rules.Shadow:
			kind = offences.Shadow
		}
		for _, rule := range p.Rules.Strings() {
			if !known[ruleID{p.ID, rule}] {
				rows = append(rows, RuleRow{RuleTotal: offences.RuleTotal{Policy: p.ID, Kind: kind, RefusedBy: rule}})
			}
		}
	}
	return rows, nil
}

// TimelinePoint is one part of a key's timeline.
type TimelinePoint struct {
	At                       time.Time
	Limited, Blocked, Shadow int64
}

// Timeline is what one key did over a span.
type Timeline struct {
	Key    string
	Points []TimelinePoint
	// Allowed is what the traffic memory knows, a lower bound where the key
	// was not always among the heaviest.
	Allowed int64
	Events  []offences.EscalationEvent
}

// Timeline returns what a key did, in so many equal parts of a span.
func (s *Service) Timeline(ctx context.Context, key keys.Key, from, to time.Time, points int) (*Timeline, error) {
	points = min(max(1, points), 1440)
	t := &Timeline{Key: key.String(), Points: make([]TimelinePoint, points)}
	from = from.UTC().Truncate(time.Minute)
	width := to.Sub(from) / time.Duration(points)
	for i := range t.Points {
		t.Points[i].At = from.Add(time.Duration(i) * width)
	}
	page := []string{t.Key}
	for _, shadow := range []bool{false, true} {
		details, err := s.Store.Details(ctx, offences.Query{Shadow: shadow}, page, offences.Span{From: from, To: to}, points)
		if err != nil {
			return nil, err
		}
		for _, d := range details {
			t.Points[min(d.Point, points-1)].add(d.Kind, d.Count)
		}
	}
	totals, err := s.Store.KeyTotals(ctx, 0, page, offences.Span{From: from, To: to})
	if err != nil {
		return nil, err
	}
	for _, total := range totals {
		t.Allowed += total.Allowed
	}
	t.Events, err = s.Store.EscalationEvents(ctx, offences.EscalationFilter{From: from, To: to, Key: t.Key})
	return t, err
}

func (p *TimelinePoint) add(kind offences.Kind, n int64) {
	switch kind {
	case offences.Limited:
		p.Limited += n
	case offences.Blocked:
		p.Blocked += n
	case offences.Shadow:
		p.Shadow += n
	}
}
