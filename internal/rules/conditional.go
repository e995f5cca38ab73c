package rules

import (
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
)

// MaxConditional is the maximum number of logs that all enforcing policies together may add to a
// check, besides the log of the key's own policy: one for each policy with conditions, an outcome
// or distinct rules that is not a trap, and one for each further key that a policy counts.
const MaxConditional = 15

// IsConditional reports whether the policy has conditions, an outcome or distinct rules, or is for
// attacks only, so that it applies in addition to the key's other policies.
func (p *Policy) IsConditional() bool {
	return !p.When.IsZero() || p.InAttack || p.IsReported() || p.Rules.Distinct() != ""
}

// DescribeDeletion says what happens to the keys of the policy when it is deleted.
func (p *Policy) DescribeDeletion() string {
	var text string
	switch {
	case p.Mode == Shadow:
		text = "It refuses nobody now, and nothing counts any more what it would refuse."
	case p.Mode == Off && p.IsConditional():
		text = "It refuses nobody now."
	case p.InAttack:
		text = "What it refuses while an attack goes on is then not refused any more."
	case p.IsConditional():
		text = "What it refuses is then not refused any more; the other policies of its keys go on."
	default:
		text = "Its keys then fall under the policy with the next broader pattern, and have no limit where there is none."
	}
	if p.Escalation != nil {
		text += " Its automatic blocks stay until they end."
	}
	return text
}

// IsReported reports whether reports of an outcome charge the policy: reports about a key that it
// matches, of requests that meet its conditions. Checks of the key then charge nothing, but all
// of them are refused, whatever the request, while the policy has no room for one more report.
//
// A policy with evidence is one too: what its checks show is charged as if it were reported.
func (p *Policy) IsReported() bool { return p.Outcome != "" || p.HasEvidence() }

// DependsOnRequest reports whether the decision about a key that the policy matches depends on
// the request.
func (p *Policy) DependsOnRequest() bool {
	if p.Derived != nil && (p.Derived.Name != Network || p.ofRequest) {
		return true
	}
	return p.IsConditional() && (!p.IsReported() || p.Scope != "")
}

// inAttackApplies is what DescribeApplies says of a policy for attacks.
const inAttackApplies = "Applies only while an attack goes on, in addition to the key's own policy"

// IsTrap reports whether the policy has conditions and refuses every request that
// meets them. A trap needs no log.
func (p *Policy) IsTrap() bool { return p.DependsOnRequest() && p.Rules.refusesAll() }

// DescribeApplies says in a sentence to which requests a policy with conditions, an outcome or
// distinct rules applies, "" for other policies.
func (p *Policy) DescribeApplies() string {
	if p.InAttack {
		text := inAttackApplies
		if name := p.Rules.Distinct(); name != "" {
			text += ", to requests of which the " + name + " is said"
		}
		if when := p.When.Describe(); when != "" {
			text += ", " + when
		}
		return text + "."
	}
	if p.HasEvidence() {
		return p.describeEvidence()
	}
	if name := p.Rules.Distinct(); name != "" && p.When.IsZero() && !p.IsReported() {
		return "Applies to requests of which the " + name + " is said, in addition to the key's own policy."
	}
	return p.When.DescribeApplies(p.Outcome, p.Scope)
}

// CanCount reports whether the rules count a request r of k, for which the caller also passes
// values. Distinct rules count it only if it has the value that they count.
func (s Stack) CanCount(k keys.Key, r *conditions.Request, values map[string]string) bool {
	return s.Distinct() == "" || s.ValueOf(k, r, values) != ""
}

// ValueOf returns the value that distinct rules count of a request r of k, for which the caller
// also passes values: what was said, or for "key" and "address" those of k. It is "" if the value
// is missing: such a request is not counted.
func (s Stack) ValueOf(k keys.Key, r *conditions.Request, values map[string]string) string {
	return valueOf(s.Distinct(), k, r, values)
}

func (p *Policy) validateDistinct() error {
	name := p.Rules.Distinct()
	switch {
	case name == "":
	case p.Algorithm != algorithms.TimestampLog:
		return &FieldError{"algorithm", "must be " + algorithms.TimestampLog + " beside distinct rules, which always count exactly"}
	}
	return nil
}

func (p *Policy) validateOutcome() error {
	switch {
	case p.Scope == "":
	case conditions.CheckScope(p.Scope) != nil:
		return &FieldError{"scope", conditions.CheckScope(p.Scope).Error()}
	case !p.IsReported():
		return &FieldError{"scope", "is possible only beside outcome; conditions say which checks another policy is about"}
	}
	if !p.IsReported() {
		return nil
	}
	if err := conditions.CheckOutcome(p.Outcome); err != nil && !p.HasEvidence() {
		return &FieldError{"outcome", err.Error()}
	}
	if len(p.Rules) == 0 || p.Rules.refusesAll() {
		return &FieldError{"rules", "must have at least one rule and no limit of 0 beside outcome: the policy refuses checks once that many outcomes were reported"}
	}
	return nil
}
