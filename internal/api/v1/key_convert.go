package v1

import (
	"time"

	"github.com/stint-dev/stint/internal/gate"
)

// FromExplanation returns an explanation as the API shows it. policyName names
// the policy of an automatic block.
func FromExplanation(x *gate.Explanation, policyName func(id int64) string) KeyExplanation {
	out := KeyExplanation{
		Key: x.Key.String(), At: At(x.At), Decision: string(x.Outcome), NextAllowedAt: At(x.NextAllowed),
		Degraded: x.Degraded != "", DegradedReason: x.Degraded,
		Exemptions: []Exemption{}, Blocks: []Block{}, Warnings: []string{},
		Policy: fromKeyPolicy(x.Enforcing), Shadow: fromKeyPolicy(x.Shadow),
	}
	for _, e := range x.Exemptions {
		out.Exemptions = append(out.Exemptions, FromExemption(e, x.At))
	}
	for _, b := range x.Blocks {
		out.Blocks = append(out.Blocks, FromBlock(b, policyName(b.Policy), x.At))
		if len(x.Exemptions) > 0 {
			out.Warnings = append(out.Warnings, "The block "+b.ID+" of "+b.Pattern.String()+
				" would refuse this key, but the exemption "+x.Exemptions[0].ID+" of "+x.Exemptions[0].Pattern.String()+" hides it.")
		}
	}
	return out
}

func fromKeyPolicy(px *gate.PolicyExplanation) *KeyPolicy {
	if px == nil {
		return nil
	}
	out := &KeyPolicy{
		Name: px.Policy.Name, Version: px.Policy.Version, Mode: string(px.Policy.Mode), Algorithm: px.Policy.Algorithm, Options: FromOptions(px.Policy.Options), Pattern: NullString(px.Pattern.String()),
		Allowed: px.Allowed, RetryAt: At(px.Answer.RetryAt), Rules: []KeyRule{}, Timestamps: fromTimes(px.Timestamps),
	}
	if i := px.Answer.Rule; i >= 0 && i < len(px.Policy.Rules) {
		out.Rule = NullString(px.Policy.Rules[i].String())
	}
	for _, r := range px.Rules {
		out.Rules = append(out.Rules, KeyRule{
			Rule: r.Rule.String(), Limit: r.Rule.Limit, WindowMS: r.Rule.WindowMS(),
			Used: r.Used, Remaining: r.Remaining, RetryAt: At(r.RetryAt), NextExpiryAt: At(r.NextExpiry),
		})
	}
	return out
}

func fromTimes(all []time.Time) []Time {
	out := make([]Time, len(all))
	for i, t := range all {
		out[i] = At(t)
	}
	return out
}
