package admin

import (
	"context"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
)

// DetectionView is the node's copy of policies and entries.
type DetectionView interface {
	Selector() *rules.Selector
	Blocks() *blocks.Set
	Subject(k keys.Key) rules.Subject
	Profiles() *profiles.Set
}

// ListStore reads the lists that are pulled.
type ListStore interface {
	FindLists(ctx context.Context, secrets bool) ([]blocks.List, error)
}

// PolicyFinder finds one policy in the database. The error of one that was deleted says when, and how it comes back.
type PolicyFinder interface {
	FindPolicyByName(ctx context.Context, name string) (*rules.Policy, error)
}

// Detection contains the use cases of offences, attacks and escalations: who offended, when and
// why. It is safe for concurrent use.
type Detection struct {
	Store     DetectionStore
	Attacks   AttackStore // the attacks that were announced
	Proposals *Proposals
	Lists     ListStore // nil for none
	Policies  PolicyFinder
	View      DetectionView
	Requests  KeyRequestSource // the requests that this node keeps; nil for none
	Secret    func() []byte    // secret of the refusal ids; nil means none
	Now       func() time.Time // nil means time.Now
}

func (d *Detection) now() time.Time {
	if d.Now == nil {
		return time.Now()
	}
	return d.Now()
}

// policy returns the policy of a name that is in force.
func (d *Detection) policy(ctx context.Context, name string) (*rules.Policy, error) {
	if p, found := d.View.Selector().ByName(name); found {
		return p, nil
	}
	if _, err := d.Policies.FindPolicyByName(ctx, name); err != nil {
		return nil, err
	}
	return nil, fault.New(fault.NotFound, "This node does not have the policy %q yet; ask again.", name)
}

// ErrNotCounted is the error for requests about offences on a node that does not count them.
var ErrNotCounted = fault.New(fault.NotFound, "This node does not count offences.")

// Seen sums the activity of the keys that a pattern selects.
func (d *Detection) Seen(ctx context.Context, p keys.Pattern, from, to time.Time) (offences.Seen, error) {
	return d.Store.Seen(ctx, p, from, to, 1)
}

// ActiveKeys returns a page of the keys that were checked, most checks first.
func (d *Detection) ActiveKeys(ctx context.Context, q offences.ActiveQuery) (offences.ActiveKeys, error) {
	if _, is := q.Pattern.Origin(); is {
		return offences.ActiveKeys{}, fault.Field("pattern", "Must be a network, or the beginning of keys with *.")
	}
	active, err := d.Store.ActiveKeys(ctx, q)
	if err != nil {
		return active, err
	}
	at, page := map[string]*offences.ActiveKey{}, []string{}
	for i := range active.Rows {
		if row := &active.Rows[i]; row.Limited > 0 {
			at[row.Key], page = row, append(page, row.Key)
		}
	}
	details, _, err := d.Store.Details(ctx, offences.Query{Policy: q.Policy}, page, active.Span, 1)
	for _, detail := range details {
		if detail.Kind == offences.Blocked {
			row := at[detail.Key]
			blocked := min(detail.Count, row.Limited)
			row.Blocked, row.Limited = row.Blocked+blocked, row.Limited-blocked
		}
	}
	return active, err
}

// Offenders ranks the offenders of a span.
func (d *Detection) Offenders(ctx context.Context, q offences.Query) (*offences.OffenderReport, error) {
	states, err := selectState(&q, d.View.Blocks(), d.now())
	if err != nil {
		return nil, err
	}
	ranking, err := d.Store.Rank(ctx, q)
	if err != nil {
		return nil, err
	}
	r, err := withDetails(ctx, d, q, ranking)
	if err != nil {
		return nil, err
	}
	r.States = states
	return r, nil
}

// EachOffenderPage calls do with all offenders of a span, in order, a page of Rows at a time. The
// keys and their counts are of one state of the database, however long do takes.
func (d *Detection) EachOffenderPage(ctx context.Context, q offences.Query, do func(*offences.OffenderReport) error) error {
	if _, err := selectState(&q, d.View.Blocks(), d.now()); err != nil {
		return err
	}
	return d.Store.EachRankedPage(ctx, q, func(ranking offences.Ranking) error {
		r, err := withDetails(ctx, d, q, ranking)
		if err != nil {
			return err
		}
		return do(r)
	})
}

// withDetails adds to ranked keys what else is known of them.
func withDetails(ctx context.Context, d *Detection, q offences.Query, ranking offences.Ranking) (*offences.OffenderReport, error) {
	r := &offences.OffenderReport{Ranking: ranking, AllowedExact: ranking.Untracked == 0 && !isInAddition(d.View.Selector(), q.Policy)}
	page := make([]string, len(ranking.Rows))
	at := make(map[string]*offences.Offender, len(page))
	r.Rows = make([]offences.Offender, len(page))
	for i, ranked := range ranking.Rows {
		page[i] = ranked.Key
		r.Rows[i].Ranked = ranked
		at[ranked.Key] = &r.Rows[i]
	}
	if err := addDetails(ctx, d.Store, q, ranking.Span, page, at); err != nil {
		return nil, err
	}
	if err := d.addTraffic(ctx, q.Policy, r, page, at); err != nil {
		return nil, err
	}
	statuses, err := d.mainStatuses(ctx, page, q.Shadow, func(key string) int64 {
		if at[key].Kind == offences.Blocked { // blocked: the policy does not matter
			return 0
		}
		return at[key].Policy
	})
	if err != nil {
		return nil, err
	}
	now := d.now()
	for i := range r.Rows {
		row := &r.Rows[i]
		row.Escalation = statuses[row.Key]
		if k, err := offences.ParseKey(row.Key); err == nil {
			verdict := d.View.Blocks().Match(k, now)
			row.Block, row.Exemption = verdict.Block, verdict.Exemption
			if row.Exemption == nil {
				for _, scoped := range d.View.Blocks().SelectingScoped(k, now) {
					if scope := scoped.ScopeOfChecks(); scope != "" {
						row.BlockedScopes = append(row.BlockedScopes, scope)
					}
				}
				row.BlockedScopes = slices.Compact(row.BlockedScopes)
			}
			member := d.View.Profiles().Find(k)
			row.Plan, row.OwnLimit = d.View.Subject(k).Plan, member.LimitAt(now)
		}
	}
	return r, nil
}

// CountOffenders returns the number of keys with offences in a time range.
func (d *Detection) CountOffenders(ctx context.Context, from, to time.Time) (int64, error) {
	ranking, err := d.Store.Rank(ctx, offences.Query{From: from, To: to, Limit: 1})
	return ranking.Keys, err
}

// SearchOffenders returns up to limit keys that contain text and had offences in a time range,
// those with most offences first.
func (d *Detection) SearchOffenders(ctx context.Context, text string, from, to time.Time, limit int) ([]offences.Ranked, error) {
	ranking, err := d.Store.Rank(ctx, offences.Query{From: from, To: to, Search: text, Limit: limit})
	return ranking.Rows, err
}

// isInAddition reports whether a policy applies in addition to another one, under which the
// checks that it allows are counted.
func isInAddition(selector *rules.Selector, policy int64) bool {
	p, found := selector.ByID(policy)
	return found && p.IsConditional()
}

// maxPoints bounds the points of a trend.
const maxPoints = 120

// finelySpan is the longest span whose trend has parts of less than an hour.
const finelySpan = 6 * time.Hour

func addDetails(ctx context.Context, store DetectionStore, q offences.Query, span offences.Span, page []string, at map[string]*offences.Offender) error {
	points := min(max(1, q.Points), maxPoints)
	if span.To.Sub(span.From) > finelySpan { // shorter parts would need all the minutes
		points = min(points, int(span.To.Sub(span.From)/time.Hour))
	}
	details, _, err := store.Details(ctx, q, page, span, points)
	if err != nil {
		return err
	}
	type refuser struct {
		key, name string
		policy    int64
		kind      offences.Kind
	}
	sums, largest := map[refuser]int64{}, map[string]int64{}
	for _, d := range details {
		row := at[d.Key]
		if q.Points > 0 {
			if row.Trend == nil {
				row.Trend = make([]int64, points)
			}
			row.Trend[min(d.Point, points-1)] += d.Count
		}
		id := refuser{d.Key, d.RefusedBy, d.Policy, d.Kind}
		sums[id] += d.Count
		if sums[id] > largest[d.Key] {
			largest[d.Key] = sums[id]
			row.Policy, row.Kind, row.RefusedBy = d.Policy, d.Kind, d.RefusedBy
		}
	}
	return nil
}

func (d *Detection) addTraffic(ctx context.Context, policy int64, r *offences.OffenderReport, page []string, at map[string]*offences.Offender) error {
	totals, err := d.Store.KeyTotals(ctx, policy, page, r.Span)
	if err != nil {
		return err
	}
	for _, t := range totals {
		at[t.Key].Allowed = t.Allowed
	}
	if len(totals) < len(page) { // a derived key has no traffic of its own, nor has any key under a shadow policy
		r.AllowedExact = false
	}
	for i := range r.Rows {
		if all := r.Rows[i].Offences + r.Rows[i].Allowed; all > 0 {
			r.Rows[i].Ratio = float64(r.Rows[i].Offences) / float64(all)
		}
	}
	return nil
}

// Traffic returns the traffic of a policy, 0 for all, in steps of resolution, rounded down to
// whole minutes. Steps of up to a day are aligned to midnight, so the first may begin before
// from. Steps without a check are omitted. The result contains the span and the step that were
// read.
func (d *Detection) Traffic(ctx context.Context, policy int64, from, to time.Time, resolution time.Duration) (offences.TrafficSeries, error) {
	from, step := firstStep(from, resolution)
	return d.Store.Traffic(ctx, policy, from, to, step)
}

// TrafficCounts is Traffic without the numbers of distinct keys. It takes less time.
func (d *Detection) TrafficCounts(ctx context.Context, policy int64, from, to time.Time, resolution time.Duration) (offences.TrafficSeries, error) {
	from, step := firstStep(from, resolution)
	return d.Store.TrafficCounts(ctx, policy, from, to, step)
}

// firstStep returns the start of the first step, and the length of the steps.
func firstStep(from time.Time, resolution time.Duration) (time.Time, time.Duration) {
	step := max(time.Minute, resolution.Truncate(time.Minute))
	if step <= 24*time.Hour {
		from = from.UTC().Truncate(step)
	}
	return from, step
}

// TrafficTotal returns the traffic of a policy, 0 for all, in a whole span, with the estimated
// number of distinct keys.
func (d *Detection) TrafficTotal(ctx context.Context, policy int64, from, to time.Time) (offences.TrafficPoint, error) {
	total := offences.TrafficPoint{At: from}
	series, err := d.Store.Traffic(ctx, policy, from, to, 0)
	for _, p := range series.Points {
		total.Add(p.Counts)
		total.Keys = p.Keys
	}
	return total, err
}

// Rules ranks the rules and blocks by what they refused. Rules of present policies that refused
// nothing come last.
func (d *Detection) Rules(ctx context.Context, from, to time.Time) ([]offences.RuleRow, error) {
	totals, err := d.Store.RuleTotals(ctx, offences.Span{From: from, To: to})
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
		all += t.Refused()
	}
	rows := make([]offences.RuleRow, 0, len(totals))
	for _, t := range totals {
		row := offences.RuleRow{RuleTotal: t}
		if all > 0 {
			row.Ratio = float64(t.Refused()) / float64(all)
		}
		rows = append(rows, row)
	}
	for _, p := range sortedPolicies(d.View.Selector()) {
		kind := offences.Limited
		switch p.Mode {
		case rules.Off:
			continue
		case rules.Shadow:
			kind = offences.Shadow
		}
		for _, rule := range p.Rules.Strings() {
			if !known[ruleID{p.ID, rule}] {
				rows = append(rows, offences.RuleRow{RuleTotal: offences.RuleTotal{Policy: p.ID, Kind: kind, RefusedBy: rule}})
			}
		}
	}
	return rows, nil
}

// Timeline returns the activity of a key in the given number of equal parts of a span, or in
// fewer if shorter parts are no longer stored.
func (d *Detection) Timeline(ctx context.Context, key keys.Key, from, to time.Time, points int) (*offences.Timeline, error) {
	points = min(max(1, points), 1440)
	asked := offences.Span{From: from.UTC().Truncate(time.Minute), To: to}
	t := &offences.Timeline{Key: key.String()}
	for _, shadow := range []bool{false, true} {
		details, reading, err := d.Store.Details(ctx, offences.Query{Shadow: shadow}, []string{t.Key}, asked, points)
		if err == nil && reading.Row > reading.Part(points) {
			points = max(1, int(reading.To.Sub(reading.From)/reading.Row))
			details, reading, err = d.Store.Details(ctx, offences.Query{Shadow: shadow}, []string{t.Key}, asked, points)
		}
		if err != nil {
			return nil, err
		}
		if t.Points == nil {
			t.Divide(reading.Span, points)
		}
		for _, d := range details {
			t.Points[min(d.Point, points-1)].Add(d.Kind, d.Count)
		}
	}
	totals, err := d.Store.KeyTotals(ctx, 0, []string{t.Key}, t.Span)
	if err != nil {
		return nil, err
	}
	for _, total := range totals {
		t.Allowed += total.Allowed
	}
	t.Events, _, err = d.Store.EscalationEvents(ctx, offences.EscalationFilter{From: t.From, To: t.To, Key: t.Key})
	return t, err
}
