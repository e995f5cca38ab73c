package offenders

import (
	"context"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// EscalationStatus is where a key stands under its policy's escalation, and what comes next.
type EscalationStatus struct {
	Policy string // name
	Shadow bool   // it only says whom it would block
	Level  int    // blocks earned and not forgotten
	Levels int    // how many there are until the longest block
	// Counted of Enough offences within Within are there for the next step.
	Count, Threshold int64
	Window           time.Duration
	Next             time.Duration // how long the next block is
	DecaysAt         time.Time     // of one step, if it stays quiet; zero on the ground
	Paused           bool          // the guard has stopped the escalation
}

// EscalationState returns where a key stands in the escalation of the policy that
// limits it, and of the one that watches it; either may be nil.
func (s *Service) EscalationStatus(ctx context.Context, key keys.Key) (enforcing, shadow *EscalationStatus, err error) {
	for _, of := range []struct {
		shadow bool
		to     **EscalationStatus
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
func (s *Service) escalationStatuses(ctx context.Context, page []string, shadow bool) (map[string]*EscalationStatus, error) {
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
	known := map[id]State{}
	for _, state := range states {
		known[id{state.Policy, state.Key}] = state
	}
	now := s.now().UnixMilli()
	counts, err := s.Store.EscalationCounts(ctx, page, minuteOf(now)-maxWindow)
	if err != nil {
		return nil, err
	}
	counted := map[id][]EscalationCount{}
	for _, c := range counts {
		counted[id{c.Policy, c.Key}] = append(counted[id{c.Policy, c.Key}], c)
	}
	selector := s.View.Selector()
	all := map[string]*EscalationStatus{}
	for _, key := range page {
		k, err := ParseKey(key)
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
		l := EscalationsOf([]*rules.Policy{policy})[policy.ID]
		standing := l.status(known[id{policy.ID, key}], counted[id{policy.ID, key}], now)
		standing.Paused = slices.ContainsFunc(stops, func(stop EscalationPause) bool { return stop.Policy == policy.ID })
		all[key] = standing
	}
	return all, nil
}

// longestWithin is the longest window that an escalation may have, in milliseconds.
const maxWindow = int64(24 * time.Hour / time.Millisecond)

func (l *EscalationPolicy) status(state State, counted []EscalationCount, now int64) *EscalationStatus {
	state.Decay(l, now)
	standing := &EscalationStatus{
		Policy: l.Name, Shadow: l.Shadow, Level: state.Level, Levels: l.Levels(), Threshold: int64(l.Threshold),
		Window: l.Window, Next: l.BlockAfter(state.Level),
	}
	if at := state.DecaysAt(l); at != 0 {
		standing.DecaysAt = time.UnixMilli(at).UTC()
	}
	for _, c := range counted {
		if c.Minute >= l.CountFrom(state, 0, now) {
			standing.Count += c.Offences
		}
	}
	return standing
}

// Steps returns how many steps it takes to the longest block.
func (l *EscalationPolicy) Levels() int {
	steps := 1
	for l.Factor > 1 && l.BlockAfter(steps-1) < l.MaxDuration && steps < 1000 {
		steps++
	}
	return steps
}

func sortedPolicies(selector *rules.Selector) []*rules.Policy {
	all := selector.Policies()
	slices.SortFunc(all, func(a, b *rules.Policy) int { return int(a.ID - b.ID) })
	return all
}
