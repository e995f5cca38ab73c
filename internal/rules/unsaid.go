package rules

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
)

// UnsaidAfter is how many requests a policy applies to without a value that it counts by, or that
// its conditions are about, until that is reported: it never counts anything then.
const UnsaidAfter = 1000

// The values that every check has without saying them: its own key, and the address in it.
const (
	ownKey     = "key"
	ownAddress = "address"
)

// valueOf returns the value with a name: what was said, or of these two names that of the key.
func valueOf(name string, k keys.Key, r *conditions.Request, values map[string]string) string {
	said := r.Named(name, values)
	switch {
	case said != "":
	case name == ownKey:
		return k.String()
	case name == ownAddress:
		if network, isAddress := k.Network(); isAddress {
			return network.String()
		}
	}
	return said
}

// isOwn reports whether rules count a value that a request need not say.
func (s Stack) isOwn() bool { return s.Distinct() == ownKey || s.Distinct() == ownAddress }

// awaited is a value that a policy needs requests to say.
type awaited struct {
	policy      *Policy
	value       string
	isCondition bool         // a condition is about it
	said        atomic.Bool  // by any request
	unsaid      atomic.Int64 // requests that the policy applies to and that did not say it
}

// awaits returns the values that requests must say for p to count by them.
func (p *Policy) awaits() []*awaited {
	if p.Mode == Off || len(p.Rules) == 0 {
		return nil
	}
	var all []*awaited
	isCondition := true
	add := func(name string) {
		if name != "" && name != ownKey && name != ownAddress && !slices.ContainsFunc(all, func(a *awaited) bool { return a.value == name }) {
			all = append(all, &awaited{policy: p, value: name, isCondition: isCondition})
		}
	}
	for a, patterns := range p.When {
		if len(patterns) > 0 {
			add(conditions.Attribute(a).String()) //nolint:gosec // at most three
		}
	}
	isCondition = false
	add(p.Rules.Distinct())
	for _, d := range p.Also {
		if d.Name != Network {
			add(d.Name)
		}
		add(d.Rules.Distinct())
	}
	return all
}

// Notice counts a check, or a report of an outcome, towards the values that the policies of who need
// it to say. It returns a warning when it was the last of UnsaidAfter without one of them, and ""
// otherwise.
func (s *Selector) Notice(who Subject, r *conditions.Request, values map[string]string, outcome string) (warning string) {
	for _, a := range s.awaited {
		if a.said.Load() || a.policy.Outcome != outcome || !a.policy.Matches(who) {
			continue
		}
		if r.Named(a.value, values) != "" {
			a.said.Store(true)
			continue
		}
		if !a.isCondition && !a.policy.When.IsZero() && (r == nil || !a.policy.When.Meets(r)) {
			continue
		}
		if a.unsaid.Add(1) == UnsaidAfter {
			warning = a.warning()
		}
	}
	return warning
}

func (a *awaited) isMissing() bool { return !a.said.Load() && a.unsaid.Load() >= UnsaidAfter }

func (a *awaited) warning() string {
	what, member := "checks", "request."
	if a.policy.IsReported() {
		what = "reports"
	}
	if !slices.Contains(conditions.Names(), a.value) {
		member = "values."
	}
	return fmt.Sprintf("None of %s %s that the policy %s applies to said the %s, so it never counts by it. Send it as %s%s, or have the gateway send it.",
		grouped(UnsaidAfter), what, a.policy.Name, a.value, member, a.value)
}

// Unsaid returns a warning for each value that requests never say to the policy with that id,
// as far as this selector has noticed.
func (s *Selector) Unsaid(policy int64) []string {
	var warnings []string
	for _, a := range s.awaited {
		if a.policy.ID == policy && a.isMissing() {
			warnings = append(warnings, a.warning())
		}
	}
	return warnings
}

// UnsaidValues returns how many values that policies need are never said.
func (s *Selector) UnsaidValues() (n int) {
	for _, a := range s.awaited {
		if a.isMissing() {
			n++
		}
	}
	return n
}

// ownKeyProblem says what is wrong with rules that count the key of each request in the log of
// that key, "" for nothing.
func ownKeyProblem(s Stack) string {
	if s.Distinct() != ownKey {
		return ""
	}
	return "count the different keys of one key, of which there is one; count those of a network, with the further key net:/24 50/1d distinct key"
}
