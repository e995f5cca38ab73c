package rules

import (
	"fmt"
	"slices"
	"strings"
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
	attribute   known        // of that name, if there is one
	isCondition bool         // a condition is about it
	said        atomic.Bool  // by any request
	unsaid      atomic.Int64 // requests that the policy applies to and that did not say it
}

type known struct {
	of      conditions.Attribute
	isKnown bool
}

// awaits returns the values that requests must say for p to count by them.
func (p *Policy) awaits() []*awaited {
	if p.Mode == Off || len(p.Rules) == 0 {
		return nil
	}
	var all []*awaited
	isCondition := true
	add := func(name string) {
		attribute, err := conditions.ParseAttribute(name)
		if err == nil && attribute.IsFound() {
			return
		}
		if name != "" && name != ownKey && name != ownAddress && !slices.ContainsFunc(all, func(a *awaited) bool { return a.value == name }) {
			all = append(all, &awaited{policy: p, value: name, isCondition: isCondition, attribute: known{attribute, err == nil}})
		}
	}
	for _, a := range p.When.Attributes() {
		add(a.String())
	}
	isCondition = false
	add(p.Rules.Distinct())
	for _, d := range p.Also {
		for _, name := range strings.Split(d.Name, partsJoiner) {
			if name != Network && name != ownAddressPart {
				add(name)
			}
		}
		add(d.Rules.Distinct())
	}
	return all
}

// Notice counts a check, or a report of an outcome, towards the values that the policies of who need
// it to say. It returns a warning when it was the last of UnsaidAfter without one of them, and ""
// otherwise.
//
// It looks at most at noticed values, whatever number of policies there is: where more are awaited, the
// next request looks at the next of them.
func (s *Selector) Notice(who Subject, r *conditions.Request, values map[string]string, outcome string) (warning string) {
	all, from := s.awaited, 0
	if len(all) > noticed {
		from = int(s.nextAwaited.Add(noticed) % uint64(len(all))) //nolint:gosec // below the length
	}
	for i := range min(noticed, len(all)) {
		a := all[(from+i)%len(all)]
		if a.said.Load() || a.policy.Outcome != outcome {
			continue
		}
		isSaid := a.attribute.isKnown && r.Says(a.attribute.of) || (len(values) > 0 || r.HasValues()) && r.Named(a.value, values) != ""
		if !isSaid && a.unsaid.Load() >= UnsaidAfter || !a.policy.Matches(who) {
			continue
		}
		switch {
		case isSaid:
			a.said.Store(true)
		case !a.isCondition && !a.policy.When.IsZero() && (r == nil || !a.policy.When.Meets(r)):
		case a.unsaid.Add(1) == UnsaidAfter:
			warning = a.warning()
		}
	}
	return warning
}

// noticed is how many awaited values one request is compared with.
const noticed = 8

// Continue has s go on with what an earlier selector noticed of the policies that are still the same
// version. It returns s, and must be called before s is used.
func (s *Selector) Continue(earlier *Selector) *Selector {
	if earlier == nil {
		return s
	}
	for i, a := range s.awaited {
		at := slices.IndexFunc(earlier.awaited, func(b *awaited) bool {
			return b.policy.ID == a.policy.ID && b.policy.Version == a.policy.Version && b.value == a.value
		})
		if at >= 0 {
			s.awaited[i] = earlier.awaited[at]
		}
	}
	return s
}

func (a *awaited) isMissing() bool { return !a.said.Load() && a.unsaid.Load() >= UnsaidAfter }

func (a *awaited) warning() string {
	what, member := "checks", "request."
	if a.policy.IsReported() {
		what = "reports"
	}
	name := a.value
	if attribute, err := conditions.ParseAttribute(a.value); err != nil {
		member = "values."
	} else if source, own := attribute.Source(); source != "" {
		member, name = map[string]string{"header": "request.headers.", "query": "request.query.", "cookie": "request.cookies."}[source], own
	}
	return fmt.Sprintf("None of %s %s that the policy %s applies to said the %s, so it never counts by it. Send it as %s%s, or have the gateway send it.",
		grouped(UnsaidAfter), what, a.policy.Name, a.value, member, name)
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

// sameValueWarnings returns a warning for each rule of a stack that counts different values in logs in
// each of which there can only be one of them, as the accounts of one account. of are the names of what
// is the same for all requests that one log counts. Such rules are valid: earlier versions took them.
func sameValueWarnings(s Stack, of ...string) (warnings []Warning) {
	name := s.Distinct()
	if name == "" || !slices.Contains(of, name) {
		return nil
	}
	for _, r := range s {
		warnings = append(warnings, Warning{r, fmt.Sprintf("%s can never refuse anyone: where it counts, there is only one value of %s. "+
			"Count those of something wider, such as a network, by the further key net:/24 %[1]s.", r, name)})
	}
	return warnings
}

// AlsoWarnings returns the rules of further keys that can never refuse a request.
func (p *Policy) AlsoWarnings() (warnings []Warning) {
	for _, d := range p.Also {
		counted := d.Rules
		if len(counted) == 0 {
			counted = p.Rules
		}
		warnings = append(warnings, sameValueWarnings(counted, d.Name)...)
	}
	return warnings
}

// same returns what is the same for all requests that one log of the policy's keys counts.
func (p *Policy) same() []string {
	for _, m := range p.Match {
		if !strings.HasPrefix(m.String(), "ip:") {
			return []string{ownKey}
		}
	}
	return []string{ownKey, ownAddress}
}
