package offenders

import (
	"context"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// Standing is where a key stands on its policy's ladder, and what comes next.
type Standing struct {
	Policy string // name
	Shadow bool   // it only says whom it would block
	Step   int    // blocks earned and not forgotten
	Steps  int    // how many there are until the longest block
	// Counted of Enough offences within Within are there for the next step.
	Counted, Enough int64
	Within          time.Duration
	Next            time.Duration // how long the next block is
	ForgetsAt       time.Time     // of one step, if it stays quiet; zero on the ground
	Stopped         bool          // the guard has stopped the ladder
}

// LadderState returns where a key stands on the ladder of the policy that
// limits it, and of the one that watches it; either may be nil.
func (s *Service) LadderState(ctx context.Context, key keys.Key) (enforcing, shadow *Standing, err error) {
	for _, of := range []struct {
		shadow bool
		to     **Standing
	}{{false, &enforcing}, {true, &shadow}} {
		all, err := s.standings(ctx, []string{key.String()}, of.shadow)
		if err != nil {
			return nil, nil, err
		}
		*of.to = all[key.String()]
	}
	return enforcing, shadow, nil
}

// standings returns where keys stand under the policies that limit them, or
// that watch them.
func (s *Service) standings(ctx context.Context, page []string, shadow bool) (map[string]*Standing, error) {
	states, err := s.Store.LadderStates(ctx, page)
	if err != nil {
		return nil, err
	}
	stops, err := s.Store.LadderStops(ctx)
	if err != nil {
		return nil, err
	}
	type id struct {
		policy int64
		key    string
	}
	known := map[id]LadderState{}
	for _, state := range states {
		known[id{state.Policy, state.Key}] = state
	}
	now := s.now().UnixMilli()
	counts, err := s.Store.LadderCounts(ctx, page, minuteOf(now)-longestWithin)
	if err != nil {
		return nil, err
	}
	counted := map[id][]LadderCount{}
	for _, c := range counts {
		counted[id{c.Policy, c.Key}] = append(counted[id{c.Policy, c.Key}], c)
	}
	selector := s.View.Selector()
	all := map[string]*Standing{}
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
		l := LaddersOf([]*rules.Policy{policy})[policy.ID]
		standing := l.standing(known[id{policy.ID, key}], counted[id{policy.ID, key}], now)
		standing.Stopped = slices.ContainsFunc(stops, func(stop LadderStop) bool { return stop.Policy == policy.ID })
		all[key] = standing
	}
	return all, nil
}

// longestWithin is the longest window that a ladder may have, in milliseconds.
const longestWithin = int64(24 * time.Hour / time.Millisecond)

func (l *Ladder) standing(state LadderState, counted []LadderCount, now int64) *Standing {
	state.Forget(l, now)
	standing := &Standing{
		Policy: l.Name, Shadow: l.Shadow, Step: state.Step, Steps: l.Steps(), Enough: int64(l.Offences),
		Within: l.Within, Next: l.BlockAfter(state.Step),
	}
	if at := state.ForgetsAt(l); at != 0 {
		standing.ForgetsAt = time.UnixMilli(at).UTC()
	}
	for _, c := range counted {
		if c.Minute >= l.CountFrom(state, 0, now) {
			standing.Counted += c.Offences
		}
	}
	return standing
}

// Steps returns how many steps it takes to the longest block.
func (l *Ladder) Steps() int {
	steps := 1
	for l.Factor > 1 && l.BlockAfter(steps-1) < l.Cap && steps < 1000 {
		steps++
	}
	return steps
}

func sortedPolicies(selector *rules.Selector) []*rules.Policy {
	all := selector.Policies()
	slices.SortFunc(all, func(a, b *rules.Policy) int { return int(a.ID - b.ID) })
	return all
}
