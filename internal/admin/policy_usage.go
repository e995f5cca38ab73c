package admin

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

// PolicyUsage is the effect of a policy in a span, and how close its keys came to its rules.
type PolicyUsage struct {
	Policy   *rules.Policy
	From, To time.Time
	PolicyUse
	// Rules are the rules that count requests, in the order of the policy. They are empty if
	// nothing is known about them; Note then says why.
	Rules []RuleUsage
	// SampleRatio is the ratio of the keys from which Rules are computed, 1 for all.
	SampleRatio float64
	Note        string // what Rules omit, "" for nothing
}

// PolicyUse is how much a policy decides, and so what its deletion would end. If a policy has
// conditions, an outcome or distinct values, Totals and Last only cover what it refused, since
// what it allowed is counted under the key's main policy. Keys covers all its decisions.
type PolicyUse struct {
	Totals offences.Counts
	Keys   int64 // estimated number of keys that it decided about
	// Last is the start of the step with the last check, zero for none. A step is a thousandth
	// of the span, at least a minute, and whole hours above half an hour.
	Last time.Time
}

// Checks returns how many checks the policy decided, or would have decided outside shadow mode.
func (u *PolicyUse) Checks() int64 {
	return u.Totals.Allowed + u.Totals.Limited + u.Totals.ShadowAllowed + u.Totals.ShadowLimited
}

// IsUsed reports whether the policy decided anything.
func (u *PolicyUse) IsUsed() bool { return u.Checks() > 0 || u.Keys > 0 }

// LastDay is the span of the use that is shown before a policy is deleted.
const LastDay = 24 * time.Hour

// ReadPolicyUse returns what a policy decided in a span.
func ReadPolicyUse(ctx context.Context, d *Detection, policy int64, from, to time.Time) (u PolicyUse, err error) {
	series, err := d.TrafficCounts(ctx, policy, from, to, useStep(to.Sub(from)))
	if err != nil {
		return u, err
	}
	for _, p := range series.Points {
		before := u.Checks()
		u.Totals.Add(p.Counts)
		if u.Checks() > before { // a policy does not decide checks of blocked keys
			u.Last = p.At
		}
	}
	u.Keys, err = d.Store.DistinctKeys(ctx, policy, from, to)
	return u, err
}

// useStep returns the length of the steps in which a span is read. Reading whole hours takes a
// fraction of the time of reading minutes.
func useStep(span time.Duration) time.Duration {
	step := max(time.Minute, (span / 1000).Truncate(time.Minute))
	if step > 30*time.Minute {
		step = (step + time.Hour - 1).Truncate(time.Hour)
	}
	return step
}

// RuleUsage is how close keys came to one rule. A key's peak is the highest cost of all its
// checks, allowed and refused, within one window of the rule.
type RuleUsage struct {
	Rule rules.Rule
	// Keys is the number of keys seen. Near counts those with a peak from four fifths of the
	// limit to the limit, Over those with a higher peak.
	Keys, Near, Over int
	// Median, P95, P99 and Max are percentiles of the keys' peaks.
	Median, P95, P99, Max int64
	Busiest               []KeyPeak // the highest peak first, at most maxBusiest
}

// KeyPeak is the peak of one key.
type KeyPeak struct {
	Key  string
	Peak int64
	At   time.Time // the end of its window
}

const (
	maxBusiest   = 5
	maxUsageSpan = 31 * 24 * time.Hour
)

// PolicyUsage returns the effect of a policy in a span. Peaks are computed from the traffic
// sample.
func (d *Detection) PolicyUsage(ctx context.Context, name string, from, to time.Time) (*PolicyUsage, error) {
	p, err := d.policy(ctx, name)
	if err != nil {
		return nil, err
	}
	if to.Sub(from) > maxUsageSpan {
		return nil, fault.Field("from", "must be at most 31 days before to")
	}
	u := &PolicyUsage{Policy: p, From: from, To: to}
	if u.PolicyUse, err = ReadPolicyUse(ctx, d, p.ID, from, to); err != nil {
		return nil, err
	}
	if p.IsConditional() {
		u.Note = "The traffic sample has keys and times only. How close keys came to the rules is not known for a policy with conditions, an outcome or a scope."
		return u, nil
	}
	if d.Secret == nil {
		u.Note = "No traffic is recorded here."
		return u, nil
	}
	sample, err := ReadTrafficSample(ctx, d.Store, d.Secret(), from, to)
	if err != nil {
		return nil, err
	}
	byKey := pointsUnder(d.View, p, sample)
	u.SampleRatio = sample.Ratio
	if len(byKey) == 0 {
		u.Note = "No key of this policy was recorded in this time."
		return u, nil
	}
	for _, rule := range p.Rules {
		if rule.Distinct != "" {
			u.Note = "Rules that count different values are left out: the traffic sample has no values."
			continue
		}
		if rule.IsConcurrent() {
			u.Note = "Rules of what is concurrent are left out: the traffic sample has no holds."
			continue
		}
		u.Rules = append(u.Rules, usageOf(rule, byKey))
	}
	return u, nil
}

// pointsUnder returns the points of the keys that a policy selects, by key and time.
func pointsUnder(view DetectionView, p *rules.Policy, sample *TrafficSample) map[string][]offences.SamplePoint {
	byKey, other := map[string][]offences.SamplePoint{}, map[string]bool{}
	for _, point := range sample.Points {
		if other[point.Key] {
			continue
		}
		if _, known := byKey[point.Key]; !known && !selectsKey(view, p, point.Key) {
			other[point.Key] = true
			continue
		}
		byKey[point.Key] = append(byKey[point.Key], point)
	}
	return byKey
}

func selectsKey(view DetectionView, p *rules.Policy, text string) bool {
	k, err := offences.ParseKey(text)
	if err != nil {
		return false
	}
	enforcing, shadow := view.Selector().Select(view.Subject(k))
	return enforcing == p || shadow == p
}

func usageOf(rule rules.Rule, byKey map[string][]offences.SamplePoint) RuleUsage {
	u := RuleUsage{Rule: rule, Keys: len(byKey)}
	peaks := make([]KeyPeak, 0, len(byKey))
	for key, points := range byKey {
		peak := peakOf(points, rule.WindowMS())
		peak.Key = key
		peaks = append(peaks, peak)
		switch limit := int64(rule.Limit); {
		case peak.Peak > limit:
			u.Over++
		case 5*peak.Peak >= 4*limit:
			u.Near++
		}
	}
	slices.SortFunc(peaks, func(a, b KeyPeak) int { return cmp.Or(cmp.Compare(b.Peak, a.Peak), cmp.Compare(a.Key, b.Key)) })
	at := func(hundredths int) int64 { // the peak that so many hundredths of the keys do not exceed
		return peaks[len(peaks)-max(1, (len(peaks)*hundredths+99)/100)].Peak
	}
	u.Median, u.P95, u.P99, u.Max = at(50), at(95), at(99), peaks[0].Peak
	u.Busiest = peaks[:min(len(peaks), maxBusiest)]
	return u
}

// peakOf returns the highest cost within one window of the given number of milliseconds. The
// points are sorted by time.
func peakOf(points []offences.SamplePoint, window int64) (most KeyPeak) {
	var sum int64
	first := 0
	for _, p := range points {
		sum += int64(p.Cost) * int64(p.Count)
		for points[first].At <= p.At-window {
			sum -= int64(points[first].Cost) * int64(points[first].Count)
			first++
		}
		if sum > most.Peak {
			most.Peak, most.At = sum, time.UnixMilli(p.At).UTC()
		}
	}
	return most
}
