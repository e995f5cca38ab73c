package api

import (
	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// explainPolicy explains the active version of a policy.
func (h *policyHandler) explainPolicy(c *httpserver.Call, in wire.ByName) (wire.PolicyExplanation, error) {
	p, err := h.policies.FindPolicyByName(c.Context(), in.Name)
	if err != nil {
		return wire.PolicyExplanation{}, err
	}
	return fromPolicyExplanation(admin.ExplainPolicy(p, p)), nil
}

// explainDraft explains a policy that has not been saved.
func (h *policyHandler) explainDraft(c *httpserver.Call, in wire.PolicyDraft) (wire.PolicyExplanation, error) {
	draft, err := policyOf(&in.PolicyRequest, h.catalog.Parser(), in.Policy)
	if err != nil {
		return wire.PolicyExplanation{}, err
	}
	x, err := h.policies.Explain(c.Context(), draft)
	if err != nil {
		return wire.PolicyExplanation{}, err
	}
	return fromPolicyExplanation(x), nil
}

// fromPolicyExplanation returns an explanation as the API shows it.
func fromPolicyExplanation(x *admin.PolicyExplanation) wire.PolicyExplanation {
	out := wire.PolicyExplanation{
		Name: x.Policy.Name, Applies: wire.NullString(x.Applies), Limits: x.Limits, Details: wire.NullString(x.Details), Counting: x.Policy.DescribeCounting(),
		Advice: wire.NullString(x.Advice), UsedUp: []wire.RuleUsedUp{}, Warnings: fromPolicy(x.Policy).Warnings,
		Changes: fromFieldChanges(x.Changes), ResetsCounts: wire.NullString(x.ResetsCounts), ConfirmReason: wire.NullString(x.ConfirmReason),
	}
	if x.Problem != nil {
		out.Problem = wire.NullString(x.Problem.Error())
	}
	if x.Active != nil {
		out.Version = x.Active.Version
	}
	for _, u := range x.UsedUp {
		out.UsedUp = append(out.UsedUp, wire.RuleUsedUp{Rule: u.Rule.String(), AfterMS: u.After.Milliseconds()})
	}
	return out
}

func fromFieldChanges(all []rules.FieldChange) []wire.FieldChange {
	out := make([]wire.FieldChange, len(all))
	for i, c := range all {
		out[i] = wire.FieldChange(c)
	}
	return out
}
