package gate

import (
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
)

// memberOf returns the plan and the limit of k, nil for none. It looks nothing up if no policy
// selects by plan and no key has a limit of its own.
func memberOf(view View, k keys.Key, selector *rules.Selector) *profiles.Member {
	if set := view.Profiles(); selector.HasPlans() || set.HasLimits() {
		return set.Find(k)
	}
	return nil
}

// applyOwnLimit replaces the rules of the policy that selects the key by those of the key's own
// limit. If the check names another policy, that policy keeps its rules.
func (d *Decision) applyOwnLimit(selector *rules.Selector, who rules.Subject, member *profiles.Member) {
	limit := member.LimitAt(d.At)
	if limit == nil {
		return
	}
	own, _ := selector.Select(who)
	if d.Check.Policy != "" && (d.Policy == nil || d.Policy != own) {
		return
	}
	d.Policy, d.OwnLimit = limit.Apply(own), limit
}
