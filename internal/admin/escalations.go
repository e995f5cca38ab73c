package admin

import (
	"context"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

// EscalationStatus returns the state of a key in the escalation of the policy that
// limits it, and of its shadow policy; either may be nil.
func (d *Detection) EscalationStatus(ctx context.Context, key keys.Key) (enforcing, shadow *offences.EscalationStatus, err error) {
	for _, of := range []struct {
		shadow bool
		to     **offences.EscalationStatus
	}{{false, &enforcing}, {true, &shadow}} {
		all, err := d.escalationStatuses(ctx, []string{key.String()}, of.shadow)
		if err != nil {
			return nil, nil, err
		}
		*of.to = all[key.String()]
	}
	return enforcing, shadow, nil
}

// ConditionalEscalations returns the states of a key in the escalations of the policies
// with conditions or an outcome that may apply to it, by their ids.
func (d *Detection) ConditionalEscalations(ctx context.Context, key keys.Key) (map[int64]*offences.EscalationStatus, error) {
	selector := d.View.Selector()
	conditional := func(k keys.Key) []*rules.Policy { return selector.Conditional(d.View.Subject(k)) }
	if len(conditional(key)) == 0 {
		return nil, nil
	}
	all, err := d.statusesUnder(ctx, []string{key.String()}, conditional)
	return all[key.String()], err
}

// escalationStatuses returns the states of keys under the policies that limit them,
// or under their shadow policies.
func (d *Detection) escalationStatuses(ctx context.Context, page []string, shadow bool) (map[string]*offences.EscalationStatus, error) {
	selector := d.View.Selector()
	found, err := d.statusesUnder(ctx, page, func(k keys.Key) []*rules.Policy {
		policy, shadowPolicy := selector.Select(d.View.Subject(k))
		if shadow {
			policy = shadowPolicy
		}
		return []*rules.Policy{policy}
	})
	if err != nil {
		return nil, err
	}
	all := map[string]*offences.EscalationStatus{}
	for key, byPolicy := range found {
		for _, status := range byPolicy { // one
			all[key] = status
		}
	}
	return all, nil
}

// statusesUnder returns the states of keys by key and policy, under the policies with an
// escalation that policiesOf returns; these may be nil.
func (d *Detection) statusesUnder(ctx context.Context, page []string, policiesOf func(keys.Key) []*rules.Policy) (map[string]map[int64]*offences.EscalationStatus, error) {
	states, err := d.Store.EscalationStates(ctx, page)
	if err != nil {
		return nil, err
	}
	pauses, err := d.Store.EscalationPauses(ctx)
	if err != nil {
		return nil, err
	}
	type id struct {
		policy int64
		key    string
	}
	known := map[id]offences.State{}
	for _, state := range states {
		known[id{state.Policy, state.Key}] = state
	}
	now := d.now().UnixMilli()
	counts, err := d.Store.EscalationCounts(ctx, page, offences.MinuteOf(now)-maxWindow)
	if err != nil {
		return nil, err
	}
	counted := map[id][]offences.EscalationCount{}
	for _, c := range counts {
		counted[id{c.Policy, c.Key}] = append(counted[id{c.Policy, c.Key}], c)
	}
	all := map[string]map[int64]*offences.EscalationStatus{}
	for _, key := range page {
		k, err := offences.ParseKey(key)
		if err != nil {
			continue
		}
		all[key] = map[int64]*offences.EscalationStatus{}
		for _, policy := range policiesOf(k) {
			if policy == nil || policy.Escalation == nil || policy.Mode == rules.Off {
				continue
			}
			l := offences.EscalationsOf([]*rules.Policy{policy})[policy.ID]
			status := l.Status(known[id{policy.ID, key}], counted[id{policy.ID, key}], now)
			status.Paused = slices.ContainsFunc(pauses, func(p offences.EscalationPause) bool { return p.Policy == policy.ID })
			all[key][policy.ID] = status
		}
	}
	return all, nil
}

// maxWindow is the longest window that an escalation may have, in milliseconds.
const maxWindow = int64(24 * time.Hour / time.Millisecond)

func sortedPolicies(selector *rules.Selector) []*rules.Policy {
	all := selector.Policies()
	slices.SortFunc(all, func(a, b *rules.Policy) int { return int(a.ID - b.ID) })
	return all
}

// EscalationEvents returns what the escalations did, as a filter selects it.
func (d *Detection) EscalationEvents(ctx context.Context, f offences.EscalationFilter) ([]offences.EscalationEvent, error) {
	return d.Store.EscalationEvents(ctx, f)
}

// EscalationPauses returns the escalations that are paused, of policies that still have one.
func (d *Detection) EscalationPauses(ctx context.Context) ([]offences.EscalationPause, error) {
	all, err := d.Store.EscalationPauses(ctx)
	selector := d.View.Selector()
	return slices.DeleteFunc(all, func(p offences.EscalationPause) bool {
		policy, found := selector.ByID(p.Policy)
		return !found || policy.Escalation == nil
	}), err
}

// Resume lets the paused escalation of a policy go on; NotFound where there is no
// policy of the name, or its escalation is not paused.
func (d *Detection) Resume(ctx context.Context, c Caller, policy string) error {
	p, found := d.View.Selector().ByName(policy)
	if !found {
		return fault.New(fault.NotFound, "There is no policy of that name.")
	}
	return d.Store.ResumeEscalation(ctx, c.Actor, p.ID)
}
