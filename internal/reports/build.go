package reports

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/rules"
)

// topKeys is how many keys and rules a document names.
const topKeys = 20

// newAfter is how long a key must not have offended to be new.
const newAfter = 30 * 24 * time.Hour

// Builder makes documents.
type Builder struct {
	Store     Store
	Counts    Counts
	Detection Detection
	Proposals Proposals
	View      View
	// Origin says whose address a key is, "" where that is not known; nil where nothing is.
	Origin func(ctx context.Context, key string) string
	Now    func() time.Time
}

// Build makes the document of the last whole period before now and keeps it.
func (b *Builder) Build(ctx context.Context, kind Kind, now time.Time) (*Document, error) {
	from, to := kind.Period(now)
	d, err := b.document(ctx, kind, from, to)
	if err != nil {
		return nil, err
	}
	return d, b.Store.PutDocument(ctx, d)
}

// Today is the id of the document that BuildToday makes.
const Today = "today"

// BuildToday makes the document of the present day, from midnight UTC to the end of the
// present minute, compared with the same hours of the day before. It is not kept.
func (b *Builder) BuildToday(ctx context.Context) (*Document, error) {
	now := b.Now().UTC()
	d, err := b.document(ctx, Daily, now.Truncate(24*time.Hour), now.Truncate(time.Minute).Add(time.Minute))
	if err != nil {
		return nil, err
	}
	d.ID = Today
	return d, nil
}

func (b *Builder) document(ctx context.Context, kind Kind, from, to time.Time) (*Document, error) {
	d := &Document{Kind: kind, From: from, To: to, Created: b.Now().UTC()}
	for _, part := range []func(context.Context, *Document) error{b.totals, b.traffic, b.offenders, b.newcomers, b.blocks, b.rules, b.attention} {
		if err := part(ctx, d); err != nil {
			return nil, fmt.Errorf("the %s report of %s: %w", kind, from.Format(time.DateOnly), err)
		}
	}
	return d, nil
}

func (b *Builder) totals(ctx context.Context, d *Document) error {
	var err error
	if d.Totals, err = b.totalsOf(ctx, d.From, d.To); err != nil {
		return err
	}
	length := d.Kind.length()
	before, err := b.totalsOf(ctx, d.From.Add(-length), d.To.Add(-length))
	if err == nil && before.Allowed+before.Refused()+before.Unavailable > 0 {
		d.Before = &before
	}
	return err
}

func (b *Builder) totalsOf(ctx context.Context, from, to time.Time) (t Totals, err error) {
	p, err := b.Detection.TrafficTotal(ctx, 0, from, to)
	if err != nil {
		return t, err
	}
	t = Totals{Allowed: p.Allowed, Limited: p.Limited, Blocked: p.Blocked, Challenged: p.Challenged, Unavailable: p.Unavailable,
		ShadowLimited: p.ShadowLimited, Keys: p.Keys, KeysError: offences.DistinctError}
	ranking, err := b.Counts.Rank(ctx, offences.Query{From: from, To: to, Limit: 1})
	t.Offenders = ranking.Keys
	return t, err
}

func (b *Builder) traffic(ctx context.Context, d *Document) error {
	step := time.Hour
	if d.Kind == Weekly {
		step = 6 * time.Hour
	}
	traffic, err := b.Detection.TrafficCounts(ctx, 0, d.From, d.To, step)
	if err != nil {
		return err
	}
	step = traffic.Step
	d.Traffic = make([]Point, (d.To.Sub(d.From)+step-1)/step)
	for i := range d.Traffic {
		d.Traffic[i].At = d.From.Add(time.Duration(i) * step)
	}
	for _, p := range traffic.Points {
		at := &d.Traffic[p.At.Sub(d.From)/step]
		at.Allowed, at.Limited, at.Challenged, at.Blocked = p.Allowed, p.Limited, p.Challenged, p.Blocked
	}
	return nil
}

func (b *Builder) offenders(ctx context.Context, d *Document) error {
	report, err := b.Detection.Offenders(ctx, offences.Query{From: d.From, To: d.To, Limit: topKeys})
	if err != nil {
		return err
	}
	for _, r := range report.Rows {
		d.Top = append(d.Top, Offender{Key: r.Key, Offences: r.Offences, Allowed: r.Allowed, RefusedRatio: r.Ratio,
			Policy: b.policyName(r.Policy), RefusedBy: r.RefusedBy, First: r.First, Last: r.Last, Origin: b.originOf(ctx, r.Key)})
	}
	if report.Other > 0 {
		d.Attention = append(d.Attention, phrase.Number(report.Other)+" offences were counted without their keys, because more keys offended at once than are counted one by one.")
	}
	return nil
}

func (b *Builder) newcomers(ctx context.Context, d *Document) error {
	fresh, n, err := b.Counts.NewOffenders(ctx, d.From.Add(-newAfter), d.From, d.To, topKeys)
	d.NewKeys = n
	for _, r := range fresh {
		d.New = append(d.New, NewOffender{Key: r.Key, Offences: r.Offences, First: r.First, Last: r.Last, Origin: b.originOf(ctx, r.Key)})
	}
	return err
}

func (b *Builder) originOf(ctx context.Context, key string) string {
	if b.Origin == nil {
		return ""
	}
	return b.Origin(ctx, key)
}

func (b *Builder) blocks(ctx context.Context, d *Document) (err error) {
	d.Blocks, err = b.Store.CountBlockChanges(ctx, d.From, d.To)
	return err
}

func (b *Builder) rules(ctx context.Context, d *Document) error {
	rows, err := b.Detection.Rules(ctx, d.From, d.To)
	if err != nil {
		return err
	}
	blocked := map[int64]int{} // the index in d.Rules, by policy
	for _, r := range rows {
		rule := Rule{Policy: b.policyName(r.Policy), Rule: r.RefusedBy, Kind: r.Kind.String(), Refused: r.Refused(), WouldRefuse: r.WouldRefuse(), Keys: r.Keys, Ratio: r.Ratio}
		if rule.WouldRefuse > 0 {
			d.Shadow = append(d.Shadow, rule)
			continue
		}
		if rule.Refused == 0 {
			d.Silent = append(d.Silent, rule)
			continue
		}
		if r.Kind == offences.Blocked { // an escalation makes a block for each key, which would leave no room for rules
			rule.Rule = ""
			if i, known := blocked[r.Policy]; known {
				d.Rules[i].Refused += rule.Refused
				d.Rules[i].Keys += rule.Keys
				d.Rules[i].Ratio += rule.Ratio
				continue
			}
			blocked[r.Policy] = len(d.Rules)
		}
		d.Rules = append(d.Rules, rule)
	}
	slices.SortStableFunc(d.Rules, func(a, b Rule) int { return cmp.Compare(b.Refused, a.Refused) })
	slices.SortStableFunc(d.Shadow, func(a, b Rule) int { return cmp.Compare(b.WouldRefuse, a.WouldRefuse) })
	d.Rules, d.Shadow = d.Rules[:min(len(d.Rules), topKeys)], d.Shadow[:min(len(d.Shadow), topKeys)]
	return nil
}

// attention says what somebody should look at.
func (b *Builder) attention(ctx context.Context, d *Document) error {
	stops, err := b.Detection.EscalationPauses(ctx)
	if err != nil {
		return err
	}
	for _, s := range stops {
		d.Attention = append(d.Attention, s.Detail)
	}
	open, _, err := b.Proposals.Find(ctx, offences.OpenProposals, "", 0)
	if err != nil {
		return err
	}
	switch n := len(open); {
	case n == 1:
		d.Attention = append(d.Attention, "1 proposal to block a range waits for a decision.")
	case n > 1:
		d.Attention = append(d.Attention, phrase.Number(n)+" proposals to block a range wait for a decision.")
	}
	if n := d.Totals.Unavailable; n > 0 {
		d.Attention = append(d.Attention, phrase.Count(n, "check")+" could not be answered because the timestamp log was unreachable.")
	}
	if d.Before != nil && d.Before.Refused() > 0 && d.Totals.Refused() >= 2*d.Before.Refused() {
		d.Attention = append(d.Attention, fmt.Sprintf("%s checks were refused, %.1f times as many as in the period before.",
			phrase.Number(d.Totals.Refused()), float64(d.Totals.Refused())/float64(d.Before.Refused())))
	}
	for _, p := range b.View.Selector().Policies() {
		if p.Mode == rules.Shadow && d.To.Sub(p.Updated) > 14*24*time.Hour {
			d.Attention = append(d.Attention, fmt.Sprintf("The policy %s has been in shadow mode for %d days.", p.Name, int(d.To.Sub(p.Updated).Hours()/24)))
		}
	}
	return nil
}

func (b *Builder) policyName(id int64) string {
	if p, known := b.View.Selector().ByID(id); known {
		return p.Name
	}
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("deleted (%d)", id)
}
