package admin

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

// EscalationStatus returns the state of a key in the escalation of the policy that
// limits it, and of its shadow policy; either may be nil.
func (d *Detection) EscalationStatus(ctx context.Context, key keys.Key) (enforcing, shadow *offences.EscalationStatus, err error) {
	policy, shadowPolicy := d.View.Selector().Select(d.View.Subject(key))
	all, err := d.statusesUnder(ctx, []string{key.String()}, func(keys.Key) []*rules.Policy { return []*rules.Policy{policy, shadowPolicy} })
	of := all[key.String()]
	return of[idOf(policy)], of[idOf(shadowPolicy)], err
}

// idOf returns the id of a policy, 0 for nil.
func idOf(p *rules.Policy) int64 {
	if p == nil {
		return 0
	}
	return p.ID
}

// ConditionalEscalations returns the states of a key in the escalations of the policies that
// may count it in addition, by policy id; see additionalPolicies.
func (d *Detection) ConditionalEscalations(ctx context.Context, key keys.Key) (map[int64]*offences.EscalationStatus, error) {
	additional := additionalPolicies(d.View, key)
	if len(additional) == 0 {
		return nil, nil
	}
	all, err := d.statusesUnder(ctx, []string{key.String()}, func(keys.Key) []*rules.Policy { return additional })
	return all[key.String()], err
}

// additionalPolicies returns the policies that may count a key in addition to the one that
// limits it: those with conditions or an outcome, and those of which the key may be a derived
// key.
func additionalPolicies(view DetectionView, k keys.Key) []*rules.Policy {
	selector := view.Selector()
	all := selector.Conditional(view.Subject(k))
	for _, part := range selector.Making(k) {
		if p, found := selector.ByID(part.ID); found && !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// mainStatuses returns for each key the one state that is shown with its refusals, enforcing or
// shadow. It is the state under the policy that refused most, whose id refusing returns. If
// refusing returns 0, or a policy without an escalation, it is the highest state, and among
// equal ones that of the policy that limits the key.
func (d *Detection) mainStatuses(ctx context.Context, page []string, shadow bool, refusing func(key string) int64) (map[string]*offences.EscalationStatus, error) {
	limiting := map[string]int64{}
	found, err := d.statusesUnder(ctx, page, func(k keys.Key) []*rules.Policy {
		policy, shadowPolicy := d.View.Selector().Select(d.View.Subject(k))
		if shadow {
			policy = shadowPolicy
		}
		limiting[k.String()] = idOf(policy)
		additional := slices.DeleteFunc(additionalPolicies(d.View, k), func(p *rules.Policy) bool { return (p.Mode == rules.Shadow) != shadow })
		return append(additional, policy)
	})
	if err != nil {
		return nil, err
	}
	all := map[string]*offences.EscalationStatus{}
	for key, byPolicy := range found {
		if all[key] = byPolicy[refusing(key)]; all[key] != nil {
			continue
		}
		all[key] = byPolicy[limiting[key]]
		for _, id := range slices.Sorted(maps.Keys(byPolicy)) {
			if all[key] == nil || byPolicy[id].Level > all[key].Level {
				all[key] = byPolicy[id]
			}
		}
	}
	return all, nil
}

// statusesUnder returns states by key and policy. policiesOf returns the policies of a key,
// which may be nil; those without an escalation are ignored.
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
			if l.NeverBlocks(key) {
				continue
			}
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

// EscalationEvents returns a page of the escalation events that a filter selects; see
// DetectionStore.
func (d *Detection) EscalationEvents(ctx context.Context, f offences.EscalationFilter) (page []offences.EscalationEvent, next string, err error) {
	return d.Store.EscalationEvents(ctx, f)
}

// EscalationPauses returns the paused escalations of policies that still have an escalation.
func (d *Detection) EscalationPauses(ctx context.Context) ([]offences.EscalationPause, error) {
	all, err := d.Store.EscalationPauses(ctx)
	selector := d.View.Selector()
	return slices.DeleteFunc(all, func(p offences.EscalationPause) bool {
		policy, found := selector.ByID(p.Policy)
		return !found || policy.Escalation == nil
	}), err
}

// Resume resumes the paused escalation of a policy. The error is NotFound if there is no
// such policy or its escalation is not paused.
func (d *Detection) Resume(ctx context.Context, c Caller, policy string) error {
	p, err := d.policy(ctx, policy)
	if err != nil {
		return err
	}
	return d.Store.ResumeEscalation(ctx, c.Actor, p.ID)
}
