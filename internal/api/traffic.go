package api

import (
	"net/http"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// trafficHandler serves the numbers of checks over time and by rule.
type trafficHandler struct {
	common
	detection *admin.Detection
}

func (h *trafficHandler) routes() []route {
	return []route{
		onAdmin(get, wire.PathTraffic, identity.Read, h.getTraffic, opGetTraffic),
		onAdmin(get, wire.PathTraffic+"/rules", identity.Read, h.getRuleTotals, opRuleTotals),
	}
}

var (
	opGetTraffic = &openapi.Operation{
		ID: "getTraffic", Tag: "offenders", Summary: "Show how many checks were allowed and refused over time.",
		Query:   append([]openapi.Param{policyParam, {Name: "step", Doc: "How long each part is, whole minutes such as 1m or 1h."}}, timeRangeQuery...),
		Answers: ok("The traffic of each part of the time range.", wire.Traffic{}),
	}
	opRuleTotals = &openapi.Operation{
		ID: "ruleTotals", Tag: "offenders", Summary: "List how much each rule and block refused, also the rules that refused nobody.",
		Query: timeRangeQuery, Answers: ok("Every rule and block that refused, and the rules that did not.", wire.Page[wire.RuleTotal]{}),
	}
)

// maxPoints is the maximum number of points in a time range.
const maxPoints = 2000

func (h *trafficHandler) getTraffic(c *httpserver.Call) error {
	q := c.ParseQuery(append([]string{"policy", "step"}, timeRangeParams...)...)
	from, to := h.timeRange(q)
	step := h.step(q, to.Sub(from))
	if q.Err() != nil {
		return q.Err()
	}
	policy, err := h.policyID(q)
	if err != nil {
		return err
	}
	series, err := h.detection.Traffic(c.Context(), policy, from, to, step)
	if err != nil {
		return err
	}
	out := wire.Traffic{From: wire.At(series.From), To: wire.At(series.To), StepMS: series.Step.Milliseconds(), Points: make([]wire.TrafficPoint, 0, len(series.Points))}
	for _, p := range series.Points {
		out.Points = append(out.Points, wire.TrafficPoint{
			At: wire.At(p.At), Allowed: p.Allowed, Limited: p.Limited, Blocked: p.Blocked, Unavailable: p.Unavailable,
			ShadowLimited: p.ShadowLimited, KeysEstimate: p.Keys, KeysError: offences.DistinctError,
		})
	}
	return c.SendJSON(http.StatusOK, out)
}

// step returns the length of each part of a span, in whole minutes. By default a span has about
// 100 parts.
func (h *trafficHandler) step(q *httpserver.Query, span time.Duration) time.Duration {
	step := max(time.Minute, (span / 100).Truncate(time.Minute))
	if q.Given("step") {
		var err error
		if step, err = rules.ParseDuration(q.Raw("step")); err != nil || step < time.Minute || step%time.Minute != 0 {
			q.Fail("step", `must be whole minutes, for example "1m" or "1h"`)
			return time.Minute
		}
	}
	if q.Err() == nil && span/step > maxPoints {
		q.Fail("step", "divides the time range into too many parts; make it longer")
	}
	return step
}

func (h *trafficHandler) getRuleTotals(c *httpserver.Call) error {
	q := c.ParseQuery(timeRangeParams...)
	from, to := h.timeRange(q)
	if q.Err() != nil {
		return q.Err()
	}
	rows, err := h.detection.Rules(c.Context(), from, to)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, singlePage(rows, func(r offences.RuleRow) wire.RuleTotal {
		return wire.RuleTotal{
			Policy: wire.NullString(h.policyName(r.Policy)), Decision: r.Kind.String(), RefusedBy: r.RefusedBy,
			Refused: r.Refused(), WouldRefuse: r.WouldRefuse(), Keys: r.Keys, Ratio: r.Ratio,
		}
	}))
}
