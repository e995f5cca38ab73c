package blocklist

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// BroadPolicy says why putting after in the place of before needs a
// confirmation, "" where it needs none: it newly refuses every request of a
// broad pattern. Each may be nil for no policy.
func BroadPolicy(before, after *rules.Policy) string {
	if !refusesAll(after) {
		return ""
	}
	for _, p := range after.Match {
		if why := Broad(p); why != "" && !(refusesAll(before) && slices.Contains(before.Match, p)) {
			return fmt.Sprintf("it refuses every request of %s, and %s", p, why)
		}
	}
	return ""
}

// refusesAll reports whether a policy refuses whatever it selects.
func refusesAll(p *rules.Policy) bool {
	return p != nil && p.Mode == rules.Enforce && slices.ContainsFunc(p.Rules, func(r rules.Rule) bool { return r.Limit == 0 })
}

// NeedConfirmPolicy is the error of policies, one or several with commas between
// them, that must be confirmed by their names, since why; nil where why is "".
func NeedConfirmPolicy(names, why string) error {
	if why == "" {
		return nil
	}
	e := fault.New(fault.NeedConfirm, "Nothing was changed. The policy %s is broad: %s. Where that is meant, send it again with confirm=%s.", names, why, names)
	e.Field = "confirm"
	e.Detail = map[string]any{"confirm": names, "confirm_reason": why}
	return e
}

// BroughtBackPolicy returns the policy that undoing e brings back, and the one
// in whose place it comes, as far as BroadPolicy asks about them; nil for none.
func BroughtBackPolicy(e *audit.Record) (before, after *rules.Policy, err error) {
	if e.Action != "policy.replace" && e.Action != "policy.delete" {
		return nil, nil, nil
	}
	if after, err = policyOf(e, e.Before); err == nil {
		before, err = policyOf(e, e.After)
	}
	return before, after, err
}

func policyOf(e *audit.Record, document []byte) (*rules.Policy, error) {
	if len(document) == 0 {
		return nil, nil
	}
	var d *struct {
		Match []string   `json:"match"`
		Rules []string   `json:"rules"`
		Mode  rules.Mode `json:"mode"`
	}
	err := json.Unmarshal(document, &d)
	if d == nil || err != nil {
		return nil, err
	}
	p := &rules.Policy{Name: e.ObjectID, Mode: d.Mode}
	if p.Rules, err = rules.ParseStack(d.Rules); err != nil {
		return nil, fmt.Errorf("audit entry %d: %w", e.ID, err)
	}
	for _, text := range d.Match {
		m, err := keys.Parser{}.Pattern(text)
		if err != nil {
			return nil, fmt.Errorf("audit entry %d: %w", e.ID, err)
		}
		p.Match = append(p.Match, m)
	}
	return p, nil
}
