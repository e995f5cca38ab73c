package api

import (
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
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
		routes.Answers(wire.GetTraffic, h.getTraffic),
		routes.Answers(wire.RuleTotals, h.getRuleTotals),
	}
}

// maxPoints is the maximum number of points in a time range.
const maxPoints = 2000

func (h *trafficHandler) getTraffic(c *httpserver.Call, in wire.TrafficOf) (out wire.Traffic, err error) {
	from, to, err := h.timesOf(in.TimeRange)
	if err != nil {
		return out, err
	}
	step, err := stepOf(in.Step, to.Sub(from))
	if err != nil {
		return out, err
	}
	policy, err := h.policyOf(in.Policy)
	if err != nil {
		return out, err
	}
	series, err := h.detection.Traffic(c.Context(), policy, from, to, step)
	if err != nil {
		return out, err
	}
	out = wire.Traffic{From: wire.At(series.From), To: wire.At(series.To), StepMS: series.Step.Milliseconds(), Points: make([]wire.TrafficPoint, 0, len(series.Points))}
	for _, p := range series.Points {
		out.Points = append(out.Points, wire.TrafficPoint{
			At: wire.At(p.At), Allowed: p.Allowed, Limited: p.Limited, Blocked: p.Blocked, Challenged: p.Challenged, Unavailable: p.Unavailable,
			ShadowLimited: p.ShadowLimited, KeysEstimate: p.Keys, KeysError: offences.DistinctError,
		})
	}
	return out, nil
}

// stepOf returns the length of each part of a span, in whole minutes. By default a span has about
// 100 parts.
func stepOf(text string, span time.Duration) (time.Duration, error) {
	step := max(time.Minute, (span / 100).Truncate(time.Minute))
	if text != "" {
		var err error
		if step, err = rules.ParseDuration(text); err != nil || step < time.Minute || step%time.Minute != 0 {
			return 0, fault.Field("step", `must be whole minutes, for example "1m" or "1h"`)
		}
	}
	if span/step > maxPoints {
		return 0, fault.Field("step", "divides the time range into too many parts; make it longer")
	}
	return step, nil
}

func (h *trafficHandler) getRuleTotals(c *httpserver.Call, in wire.TimeRange) (page wire.Page[wire.RuleTotal], err error) {
	from, to, err := h.timesOf(in)
	if err != nil {
		return page, err
	}
	rows, err := h.detection.Rules(c.Context(), from, to)
	return wire.WholePage(rows, func(r offences.RuleRow) wire.RuleTotal {
		return wire.RuleTotal{
			Policy: wire.NullString(h.policyName(r.Policy)), Decision: r.Kind.String(), RefusedBy: r.RefusedBy,
			Refused: r.Refused(), WouldRefuse: r.WouldRefuse(), Keys: r.Keys, Ratio: r.Ratio,
		}
	}), err
}
