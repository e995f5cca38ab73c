package admin

import (
	"fmt"
	"slices"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// refusesNewly says why replacing before by after needs a confirmation: every request of a broad
// pattern is newly refused. It is "" if not. Both may be nil.
func refusesNewly(before, after *rules.Policy) string {
	if !refusesAll(after) {
		return ""
	}
	which := ""
	if when := after.When.Describe(); when != "" {
		which = " " + when
	}
	if after.InAttack {
		which += " while an attack goes on"
	}
	for _, p := range after.Match {
		if reason := BroadReason(p); reason != "" && (!refusesAll(before) || !slices.Contains(before.Match, p) || before.InAttack && !after.InAttack || !before.When.IsZero() && !before.When.Equal(after.When)) {
			return fmt.Sprintf("it refuses every request of %s%s, and %s", p, which, reason)
		}
	}
	return ""
}

// nextBroader returns the policy that decides about the keys of p: that of the most specific of
// the patterns that cover p.
func nextBroader(all []*rules.Policy, p keys.Pattern) (next *rules.Policy) {
	var pattern keys.Pattern
	for _, policy := range all {
		if policy.Mode == rules.Shadow || policy.IsConditional() {
			continue
		}
		for _, m := range policy.Match {
			if m.Covers(p) && (next == nil || pattern.Covers(m)) {
				next, pattern = policy, m
			}
		}
	}
	return next
}

// refusesAll reports whether a policy refuses every request of its keys, or of those of them that its
// conditions select by who asks. A policy with conditions on what is asked for does not: its purpose is
// to refuse requests that meet them.
func refusesAll(p *rules.Policy) bool {
	return p != nil && p.Mode == rules.Enforce && !p.IsReported() && p.Rules.Distinct() == "" && !p.When.IsNarrow() && slices.ContainsFunc(p.Rules, func(r rules.Rule) bool { return r.Limit == 0 })
}

// needConfirmPolicy returns the error for policies that must be confirmed by their
// comma-separated names, nil if reason is "".
func needConfirmPolicy(names, reason string) error {
	if reason == "" {
		return nil
	}
	e := fault.New(fault.NeedConfirm, "Nothing was changed. The policy %s needs a confirmation: %s. To go on, send it again with confirm=%s.", names, reason, names)
	e.Field = "confirm"
	e.Detail = map[string]any{"confirm": names, "confirm_reason": reason}
	return e
}

// restoredPolicy returns the policy that undoing a change puts into effect, nil for none. isUndone is
// false for a change that does not change which keys a policy has.
func restoredPolicy(e *audit.Record) (restored *rules.Policy, isUndone bool, err error) {
	if e.Action != "policy.create" && e.Action != "policy.replace" && e.Action != "policy.delete" {
		return nil, false, nil
	}
	if restored, err = rules.ReadStored(e.Before); err != nil {
		return nil, false, fmt.Errorf("audit entry %d: %w", e.ID, err)
	}
	return restored, true, nil
}
