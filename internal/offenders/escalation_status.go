package offenders

import (
	"context"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

// EscalationState returns where a key stands in the escalation of the policy that
// limits it, and of the one that watches it; either may be nil.
func (s *Service) EscalationStatus(ctx context.Context, key keys.Key) (enforcing, shadow *offences.EscalationStatus, err error) {
	for _, of := range []struct {
		shadow bool
		to     **offences.EscalationStatus
	}{{false, &enforcing}, {true, &shadow}} {
		all, err := s.escalationStatuses(ctx, []string{key.String()}, of.shadow)
		if err != nil {
			return nil, nil, err
		}
		*of.to = all[key.String()]
	}
	return enforcing, shadow, nil
}

// standings returns where keys stand under the policies that limit them, or
// that watch them.
func (s *Service) escalationStatuses(ctx context.Context, page []string, shadow bool) (map[string]*offences.EscalationStatus, error) {
	states, err := s.Store.EscalationStates(ctx, page)
	if err != nil {
		return nil, err
	}
	stops, err := s.Store.EscalationPauses(ctx)
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
	now := s.now().UnixMilli()
	counts, err := s.Store.EscalationCounts(ctx, page, offences.MinuteOf(now)-maxWindow)
	if err != nil {
		return nil, err
	}
	counted := map[id][]offences.EscalationCount{}
	for _, c := range counts {
		counted[id{c.Policy, c.Key}] = append(counted[id{c.Policy, c.Key}], c)
	}
	selector := s.View.Selector()
	all := map[string]*offences.EscalationStatus{}
	for _, key := range page {
		k, err := offences.ParseKey(key)
		if err != nil {
			continue
		}
		policy, watching := selector.Select(k)
		if shadow {
			policy = watching
		}
		if policy == nil || policy.Escalation == nil || policy.Mode == rules.Off {
			continue
		}
		l := offences.EscalationsOf([]*rules.Policy{policy})[policy.ID]
		standing := l.Status(known[id{policy.ID, key}], counted[id{policy.ID, key}], now)
		standing.Paused = slices.ContainsFunc(stops, func(stop offences.EscalationPause) bool { return stop.Policy == policy.ID })
		all[key] = standing
	}
	return all, nil
}

// longestWithin is the longest window that an escalation may have, in milliseconds.
const maxWindow = int64(24 * time.Hour / time.Millisecond)

func sortedPolicies(selector *rules.Selector) []*rules.Policy {
	all := selector.Policies()
	slices.SortFunc(all, func(a, b *rules.Policy) int { return int(a.ID - b.ID) })
	return all
}
