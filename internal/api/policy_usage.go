package api

import (
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// getPolicyUsage answers with the checks that a policy decided in a time range.
func (h *offenderHandler) getPolicyUsage(c *httpserver.Call, in wire.UsageOf) (out wire.PolicyUsage, err error) {
	from, to, err := h.timesOf(in.TimeRange)
	if err != nil {
		return out, err
	}
	u, err := h.detection.PolicyUsage(c.Context(), in.Name, from, to)
	if err != nil {
		return out, err
	}
	out = wire.PolicyUsage{
		Name: u.Policy.Name, From: wire.At(u.From), To: wire.At(u.To), Allowed: u.Totals.Allowed, Limited: u.Totals.Limited,
		ShadowLimited: u.Totals.ShadowLimited, Keys: u.Keys, LastAt: wire.At(u.Last), Rules: []wire.RuleUsage{}, SampleRatio: u.SampleRatio, Note: wire.NullString(u.Note),
	}
	for _, r := range u.Rules {
		rule := wire.RuleUsage{Rule: r.Rule.String(), Keys: r.Keys, Near: r.Near, Over: r.Over, Median: r.Median, P95: r.P95, P99: r.P99, Max: r.Max}
		for _, k := range r.Busiest {
			rule.Busiest = append(rule.Busiest, wire.KeyPeak{Key: k.Key, Peak: k.Peak, At: wire.At(k.At)})
		}
		out.Rules = append(out.Rules, rule)
	}
	return out, nil
}
