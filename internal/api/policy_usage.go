package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

var opPolicyUsage = &openapi.Operation{
	ID: "getPolicyUsage", Tag: "policies", Summary: "Show what a policy allowed and refused, and how close its keys came to each rule.",
	Query: timeRangeQuery, Answers: ok("The figures; those of the rules are of the keys in the traffic sample.", wire.PolicyUsage{}),
}

// getPolicyUsage answers with the checks that a policy decided in a time range.
func (h *offenderHandler) getPolicyUsage(c *httpserver.Call) error {
	name, err := c.PathParam("name")
	if err != nil {
		return err
	}
	q := c.ParseQuery(timeRangeParams...)
	from, to := h.timeRange(q)
	if q.Err() != nil {
		return q.Err()
	}
	u, err := h.detection.PolicyUsage(c.Context(), name, from, to)
	if err != nil {
		return err
	}
	out := wire.PolicyUsage{
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
	return c.SendJSON(http.StatusOK, out)
}
