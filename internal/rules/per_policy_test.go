package rules

import "testing"

func TestPerPolicyDerivesAgainForAnotherSelector(t *testing.T) {
	p, other := &Policy{Name: "a"}, &Policy{Name: "b"}
	first, second := NewSelector([]*Policy{p, other}), NewSelector([]*Policy{p, other})
	derived := 0
	derive := func(p *Policy) string {
		derived++
		return p.Name
	}
	var kept PerPolicy[string]
	for i, step := range []struct {
		policy   *Policy
		selector *Selector
		derived  int // number of derived values so far
	}{{p, first, 1}, {p, first, 1}, {other, first, 2}, {p, first, 2}, {p, second, 3}, {p, second, 3}, {p, first, 4}} {
		if got := kept.Of(step.policy, step.selector, derive); got != step.policy.Name || derived != step.derived {
			t.Errorf("step %d: got %q and derived %d times, want %q and %d", i, got, derived, step.policy.Name, step.derived)
		}
	}
}
