package api

import (
	"time"

	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/wire"
)

// fromExplanation returns an explanation as the API shows it. policyName names
// the policy of an automatic block.
func fromExplanation(x *gate.Explanation, policyName func(id int64) string) wire.KeyExplanation {
	out := wire.KeyExplanation{
		Key: x.Key.String(), At: wire.At(x.At), Decision: string(x.Outcome), NextAllowedAt: wire.At(x.NextAllowed),
		Degraded: x.Degraded != "", DegradedReason: x.Degraded,
		Exemptions: []wire.Entry{}, Blocks: []wire.Entry{}, Warnings: []string{},
		Policy: fromKeyPolicy(x.Enforcing), Shadow: fromKeyPolicy(x.Shadow),
	}
	for _, e := range x.Exemptions {
		out.Exemptions = append(out.Exemptions, fromEntry(e, policyName(e.PolicyID), x.At))
	}
	for _, b := range x.Blocks {
		out.Blocks = append(out.Blocks, fromEntry(b, policyName(b.PolicyID), x.At))
		if len(x.Exemptions) > 0 {
			out.Warnings = append(out.Warnings, "The block "+b.ID+" of "+b.Pattern.String()+
				" would refuse this key, but the exemption "+x.Exemptions[0].ID+" of "+x.Exemptions[0].Pattern.String()+" hides it.")
		}
	}
	return out
}

func fromKeyPolicy(px *gate.PolicyExplanation) *wire.KeyPolicy {
	if px == nil {
		return nil
	}
	out := &wire.KeyPolicy{
		Name: px.Policy.Name, Version: px.Policy.Version, Mode: string(px.Policy.Mode), Algorithm: px.Policy.Algorithm, Options: fromOptions(px.Policy.Options), Pattern: wire.NullString(px.Pattern.String()),
		Allowed: px.Allowed, RetryAt: wire.At(px.Answer.RetryAt), Rules: []wire.KeyRule{}, Timestamps: fromTimes(px.Timestamps),
	}
	if i := px.Answer.Rule; i >= 0 && i < len(px.Policy.Rules) {
		out.Rule = wire.NullString(px.Policy.Rules[i].String())
	}
	for _, r := range px.Rules {
		out.Rules = append(out.Rules, wire.KeyRule{
			Rule: r.Rule.String(), Limit: r.Rule.Limit, WindowMS: r.Rule.WindowMS(),
			Used: r.Used, Remaining: r.Remaining, RetryAt: wire.At(r.RetryAt), NextExpiryAt: wire.At(r.NextExpiry),
		})
	}
	return out
}

func fromTimes(all []time.Time) []wire.Time {
	times := make([]wire.Time, len(all))
	for i, t := range all {
		times[i] = wire.At(t)
	}
	return times
}
