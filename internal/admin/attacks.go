package admin

import (
	"context"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

const (
	// detailedKeys is how many keys of a source are read to find its rule.
	detailedKeys = 20
	// maxCovering bounds the blocks and exemptions that are examined for one source.
	maxCovering = 50
)

// Attack reports whether there is an attack now, compared with the last day, and from which
// source.
func (d *Detection) Attack(ctx context.Context) (*offences.Attack, error) {
	now := d.now().UTC()
	a, err := d.detect(ctx, now)
	if err == nil && a.IsActive() {
		a.Source, err = findAttackSource(ctx, d.Store, d.View, a.Since, now)
	}
	return a, err
}

// detect is Attack without the source.
func (d *Detection) detect(ctx context.Context, now time.Time) (*offences.Attack, error) {
	recent, err := d.TrafficCounts(ctx, 0, now.Add(-offences.AttackSpan), now, time.Minute)
	if err != nil {
		return nil, err
	}
	hour := now.Truncate(time.Hour)
	past, err := d.TrafficCounts(ctx, 0, hour.Add(-offences.BaselineSpan), hour, time.Hour)
	if err != nil {
		return nil, err
	}
	begin := now.Add(-offences.AttackSpan)
	all := offences.Intervals(recent.Points, begin, now, time.Minute)
	// What is refused because there is an attack is no sign of one: the attack would never end.
	only := []int64{offences.AttackLists}
	for _, p := range d.View.Selector().InAttack() {
		only = append(only, p.ID)
	}
	for _, id := range only {
		if err := d.leaveOut(ctx, recent.Points, id, begin, now, time.Minute); err != nil {
			return nil, err
		}
		if err := d.leaveOut(ctx, past.Points, id, hour.Add(-offences.BaselineSpan), hour, time.Hour); err != nil {
			return nil, err
		}
	}
	return offences.DetectAttack(offences.Intervals(recent.Points, begin, now, time.Minute), offences.Intervals(past.Points, hour.Add(-offences.BaselineSpan), hour, time.Hour), all), nil
}

// InForce returns the names of the policies and of the lists that apply only because an announced
// attack goes on.
func (d *Detection) InForce(ctx context.Context) (m wire.AttackMeasures, err error) {
	m = wire.AttackMeasures{Policies: []string{}, Sources: []string{}}
	open, err := d.Attacks.OpenAttack(ctx)
	if err != nil || open == nil {
		return m, err
	}
	for _, p := range d.View.Selector().InAttack() {
		if p.Mode == rules.Enforce {
			m.Policies = append(m.Policies, p.Name)
		}
	}
	if d.Lists == nil {
		return m, nil
	}
	all, err := d.Lists.FindLists(ctx, false)
	for i := range all {
		if l := &all[i]; l.As == blocks.AsAttack && l.State.Rows > 0 {
			m.Sources = append(m.Sources, l.Name)
		}
	}
	return m, err
}

// leaveOut takes what a policy refused out of the counts of all.
func (d *Detection) leaveOut(ctx context.Context, points []offences.TrafficPoint, policy int64, from, to time.Time, step time.Duration) error {
	own, err := d.TrafficCounts(ctx, policy, from, to, step)
	if err != nil {
		return err
	}
	refused := map[int64]offences.Counts{}
	for _, p := range own.Points {
		refused[p.At.UnixMilli()] = p.Counts
	}
	for i := range points {
		p := &points[i]
		if r, has := refused[p.At.UnixMilli()]; has {
			p.Limited, p.Challenged = max(0, p.Limited-r.Limited), max(0, p.Challenged-r.Challenged)
			if policy == offences.AttackLists { // a block refuses keys of a policy for attacks as at other times
				p.Blocked = max(0, p.Blocked-r.Blocked)
			}
		}
	}
	return nil
}

// FindAttacks returns a page of the attacks that were announced, the newest first. cursor is that
// of the previous page, "" for the first. next is the cursor of the next page, "" on the last.
func (d *Detection) FindAttacks(ctx context.Context, cursor string, limit int) (page []*offences.AttackCourse, next string, err error) {
	return d.Attacks.FindAttacks(ctx, cursor, limit)
}

// findAttackSource returns the key or range with the most offences since a time, and the
// entries that cover it; nil if there is none.
func findAttackSource(ctx context.Context, store DetectionStore, view DetectionView, since, now time.Time) (*offences.AttackSource, error) {
	ranking, err := store.Rank(ctx, offences.Query{From: since, To: now, Limit: offences.SourceKeys})
	if err != nil {
		return nil, err
	}
	source := offences.FindAttackSource(ranking.Rows, ranking.Offences+ranking.Other, isFurtherKey(view.Selector().Policies()))
	if source == nil {
		return nil, nil
	}
	within := make([]string, 0, detailedKeys)
	for _, row := range ranking.Rows {
		if k, err := offences.ParseKey(row.Key); err == nil && (row.Key == source.Key || source.Pattern.Matches(k)) && len(within) < detailedKeys {
			within = append(within, row.Key)
		}
	}
	details, _, err := store.Details(ctx, offences.Query{}, within, ranking.Span, 1)
	if err != nil {
		return nil, err
	}
	source.SetRule(details)
	set := view.Blocks()
	for _, b := range set.Overlapping(blocks.Block, source.Pattern, now, maxCovering) {
		source.IsBlocked = source.IsBlocked || b.Pattern.Covers(source.Pattern)
	}
	for _, e := range set.Overlapping(blocks.Exemption, source.Pattern, now, maxCovering) {
		source.IsExempt = source.IsExempt || e.Pattern.Covers(source.Pattern)
	}
	return source, nil
}

// isFurtherKey returns a function that reports whether one of policies, including those that
// are off, counts a key as a derived key.
func isFurtherKey(policies []*rules.Policy) func(keys.Key) bool {
	return func(k keys.Key) bool {
		return slices.ContainsFunc(policies, func(p *rules.Policy) bool {
			return slices.ContainsFunc(p.Also, func(one rules.Derived) bool { return one.Makes(k) })
		})
	}
}
