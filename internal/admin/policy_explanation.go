package admin

import (
	"context"
	"strings"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
)

// PolicyExplanation says in words what a policy does, and what becomes of the active
// policy of its name when it is saved.
type PolicyExplanation struct {
	Policy *rules.Policy
	Active *rules.Policy // of the same name, nil if there is none
	// Limits is one sentence: "At most 20 in any minute."
	Limits string
	// Details say how soon the limits are used up at full speed, or what a counter does
	// not promise, "" for nothing.
	Details string
	// UsedUp is how soon each limit is used up at full speed, empty for counters, whose
	// bursts depend on when they come.
	UsedUp []rules.UsedUp
	Advice string // what would suit such rules better, "" for nothing
	// Changes are what differs from Active; all fields if there is none.
	Changes []rules.FieldChange
	// ResetsCounts says what becomes of the counts of the keys, "" if they stay.
	ResetsCounts string
	// ConfirmReason is why saving the policy needs a confirmation, "" if it needs none or
	// if that was not asked.
	ConfirmReason string
}

// ExplainPolicy explains a policy beside the active one of its name, nil for none. The
// policy needs valid rules and a valid algorithm; its other fields may be missing.
func ExplainPolicy(active, p *rules.Policy) *PolicyExplanation {
	x := &PolicyExplanation{Policy: p, Active: active, Advice: p.Advice(), Changes: rules.Diff(active, p), ResetsCounts: active.DescribeReset(p)}
	limits, details, several := strings.Cut(p.Describe(), ". ")
	if several {
		limits += "."
	}
	x.Limits, x.Details = limits, details
	if a := algorithms.ByName(p.Algorithm); a == nil || a.IsLog() {
		x.UsedUp = p.Rules.UsedUp()
	}
	return x
}

// Explain explains a valid policy that need not be saved, and says whether saving it
// needs a confirmation. It changes nothing.
func (p *Policies) Explain(ctx context.Context, draft *rules.Policy) (*PolicyExplanation, error) {
	all, err := p.Policies(ctx)
	if err != nil {
		return nil, err
	}
	x := ExplainPolicy(policyNamed(all, draft.Name), draft)
	x.ConfirmReason = broadPolicyReason(policiesAfter(all, rules.PolicyChange{Name: draft.Name, Policy: draft}), x.Active, draft)
	return x, nil
}
