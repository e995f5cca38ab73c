package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
)

// handover says that keys leave an enforcing policy for another one, or for none, because of a
// change of policies.
type handover struct {
	from, to *rules.Policy // to is nil if no policy decides about the keys afterwards, and from itself if only in attacks
	changed  string        // the changed policy whose name confirms it
	patterns []keys.Pattern
	// keys and checks are those of the last day's recorded traffic that change hands, estimated
	// from the sample. They are meaningless unless isCounted is set.
	keys, checks int64
	isCounted    bool
}

// handovers compares which policy decides about each pattern before and after changes. It returns
// the patterns that leave a policy that decides now:
//
//   - for none, or for a policy that is off: nothing limits their keys afterwards;
//   - for another policy, because the policy that had the pattern has it no longer.
//
// A new pattern that takes some keys of a broader one to an enforcing policy is not among them: the
// change says so itself. An enforcing policy with conditions or an outcome decides in addition to
// others; its patterns leave it if it no longer applies to them, or only in attacks.
func handovers(all []*rules.Policy, changes []rules.PolicyChange) (found []*handover) {
	after := policiesAfter(all, changes...)
	add := func(from, to *rules.Policy, changed string, p keys.Pattern) {
		for _, h := range found {
			if h.from == from && h.to == to && h.changed == changed {
				if !slices.Contains(h.patterns, p) {
					h.patterns = append(h.patterns, p)
				}
				return
			}
		}
		found = append(found, &handover{from: from, to: to, changed: changed, patterns: []keys.Pattern{p}})
	}
	changes = slices.Clone(changes)
	slices.SortStableFunc(changes, func(a, b rules.PolicyChange) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range changes {
		before := policyNamed(all, c.Name)
		if before != nil && before.IsConditional() && before.Mode == rules.Enforce {
			for _, p := range before.Match {
				switch {
				case c.Policy == nil || c.Policy.Mode != rules.Enforce || !covers(c.Policy.Match, p):
					add(before, nil, c.Name, p)
				case c.Policy.InAttack && !before.InAttack:
					add(before, c.Policy, c.Name, p)
				}
			}
		}
		for _, p := range slices.Concat(matchOf(before), matchOf(c.Policy)) {
			from := nextBroader(all, p)
			to := nextBroader(after, p)
			if !leaves(p, from, to) {
				continue
			}
			changed := c.Name
			if slices.ContainsFunc(changes, func(c rules.PolicyChange) bool { return c.Name == from.Name }) {
				changed = from.Name
			}
			add(from, to, changed, p)
		}
	}
	return found
}

// leaves reports whether the keys of a pattern leave from for to. Either may be nil.
func leaves(p keys.Pattern, from, to *rules.Policy) bool {
	switch {
	case limits(from) && !limits(to):
		return true
	case from == nil || !limits(to) || from.Name == to.Name:
		return false // nothing limits them before either, or the same policy goes on
	}
	return slices.Contains(from.Match, p)
}

// limits reports whether a policy decides about keys and is not off.
func limits(p *rules.Policy) bool { return p != nil && p.Mode == rules.Enforce }

// matchOf returns the patterns by which a policy decides about keys, none for a shadow policy and
// for one that applies in addition to others.
func matchOf(p *rules.Policy) []keys.Pattern {
	if p == nil || p.Mode == rules.Shadow || p.IsConditional() {
		return nil
	}
	return p.Match
}

func covers(all []keys.Pattern, p keys.Pattern) bool {
	return slices.ContainsFunc(all, func(m keys.Pattern) bool { return m.Covers(p) })
}

// asks reports whether a handover needs a confirmation. It needs none if other policies limit the
// keys afterwards, without refusing all of them, and the recorded traffic has no such key. If no
// traffic is recorded here, broad patterns need one.
func (h *handover) asks() bool {
	isBroad := slices.ContainsFunc(h.patterns, func(p keys.Pattern) bool { return BroadReason(p) != "" })
	isUnlimited := !limits(h.to) && !h.from.IsConditional()
	return isUnlimited || refusesAll(h.to) || h.keys > 0 || isBroad && !h.isCounted
}

// reason says what a handover means, after "the policy needs a confirmation: ".
func (h *handover) reason() string {
	texts := make([]string, 0, maxPatternsNamed)
	for _, p := range h.patterns[:min(len(h.patterns), maxPatternsNamed)] {
		texts = append(texts, p.String())
	}
	which := strings.Join(texts, ", ")
	if more := len(h.patterns) - len(texts); more > 0 {
		which += fmt.Sprintf(" and %d more patterns", more)
	}
	var text string
	switch {
	case h.from.IsConditional() && h.to != nil:
		text = "it applies to " + which + " only while an attack goes on"
	case h.from.IsConditional():
		text = "it no longer applies to " + which
	case h.to == nil:
		text = "without it, " + which + " falls under no policy, and every request of it is allowed"
	case h.to.Name == h.from.Name:
		text = "it is off, and every request of " + which + " is allowed"
	case h.changed != h.from.Name:
		text = "it takes " + which + " from the policy " + h.from.Name + " and is off: every request of it is allowed"
	case h.to.Mode == rules.Off:
		text = "without it, " + which + " falls under the policy " + h.to.Name + ", which is off: every request of it is allowed"
	case refusesAll(h.to):
		text = "without it, " + which + " falls under the policy " + h.to.Name + ", which refuses every request of it"
	default:
		text = "without it, " + which + " falls under the policy " + h.to.Name
	}
	if h.keys > 0 {
		text += fmt.Sprintf("; this concerns %s with %s of the last day's recorded traffic", phrase.Count(h.keys, "key"), phrase.Count(h.checks, "check"))
	}
	return text
}

// maxPatternsNamed bounds the patterns that a reason names.
const maxPatternsNamed = 5

// count sets how many keys of the last day's recorded traffic each handover concerns, by comparing
// which policy each key selects before and after the changes.
func (p *Policies) count(ctx context.Context, found []*handover, all, after []*rules.Policy) error {
	if len(found) == 0 || p.Sample == nil {
		return nil
	}
	now := p.Now()
	sample, err := p.Sample(ctx, now.Add(-day), now)
	if err != nil {
		return err
	}
	checks := map[string]int64{}
	for _, point := range sample.Points {
		checks[point.Key] += int64(point.Count)
	}
	before, then := rules.NewSelector(all), rules.NewSelector(after)
	for _, h := range found {
		h.isCounted = true
	}
	for text, n := range checks {
		k, err := offences.ParseKey(text)
		if err != nil {
			continue
		}
		who := profiles.Subject(k, p.View.Profiles().Find(k))
		from, _ := before.Select(who)
		to, _ := then.Select(who)
		for _, h := range found {
			if h.from.IsConditional() && h.from.Matches(who) && (h.to == nil || h.to.InAttack || !h.to.Matches(who)) || from == h.from && to == h.to {
				h.keys++
				h.checks += n
			}
		}
	}
	for _, h := range found {
		h.keys, h.checks = int64(float64(h.keys)/sample.Ratio), int64(float64(h.checks)/sample.Ratio)
	}
	return nil
}

// needed returns the comma-separated names of the changed policies that need a confirmation, and
// why, with the name before each reason; "" for none. all are the policies before the changes.
func (p *Policies) needed(ctx context.Context, all []*rules.Policy, changes ...rules.PolicyChange) (names, reason string, err error) {
	found := handovers(all, changes)
	if err := p.count(ctx, found, all, policiesAfter(all, changes...)); err != nil {
		return "", "", err
	}
	var named, reasons []string
	for _, c := range changes {
		var why []string
		if r := refusesNewly(policyNamed(all, c.Name), c.Policy); r != "" {
			why = append(why, r)
		}
		for _, h := range found {
			if h.changed == c.Name && h.asks() {
				why = append(why, h.reason())
			}
		}
		if len(why) == 0 {
			continue
		}
		named, reasons = append(named, c.Name), append(reasons, c.Name+": "+strings.Join(why, ", and "))
	}
	return strings.Join(named, ","), strings.Join(reasons, "; "), nil
}
