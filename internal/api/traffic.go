package api

import (
	"net/http"
	"time"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/offenders"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// maxPoints bounds the parts that a span is divided into.
const maxPoints = 2000

func (s *API) getTraffic(c *httpserver.Call) error {
	q := c.ParseQuery(append([]string{"policy", "step"}, spanParams...)...)
	from, to := s.span(q)
	policy := s.policyID(q)
	step := s.step(q, to.Sub(from))
	if q.Err() != nil {
		return q.Err()
	}
	ctx := c.Context()
	points, err := s.Offenders.Traffic(ctx, policy, from, to, step)
	if err != nil {
		return err
	}
	out := wire.Traffic{From: wire.At(from), To: wire.At(to), StepMS: step.Milliseconds(), Points: make([]wire.TrafficPoint, 0, len(points))}
	for _, p := range points {
		out.Points = append(out.Points, wire.TrafficPoint{
			At: wire.At(p.At), Allowed: p.Allowed, Limited: p.Limited, Blocked: p.Blocked, Unavailable: p.Unavailable,
			ShadowLimited: p.ShadowLimited, KeysEstimate: p.Keys, KeysError: offences.DistinctError,
		})
	}
	return c.SendJSON(http.StatusOK, out)
}

// step reads how long each part of a span is: whole minutes, by default so
// many that there are about a hundred parts.
func (s *API) step(q *httpserver.Query, span time.Duration) time.Duration {
	step := max(time.Minute, (span / 100).Truncate(time.Minute))
	if q.Given("step") {
		var err error
		if step, err = rules.ParseDuration(q.Raw("step")); err != nil || step < time.Minute || step%time.Minute != 0 {
			q.Fail("step", `must be whole minutes, for example "1m" or "1h"`)
			return time.Minute
		}
	}
	if q.Err() == nil && span/step > maxPoints {
		q.Fail("step", "divides the span into too many parts; make it longer")
	}
	return step
}

func (s *API) getRuleTotals(c *httpserver.Call) error {
	q := c.ParseQuery(spanParams...)
	from, to := s.span(q)
	if q.Err() != nil {
		return q.Err()
	}
	ctx := c.Context()
	rows, err := s.Offenders.RulesReport(ctx, from, to)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wholePage(rows, func(r offenders.RuleRow) wire.RuleTotal {
		return wire.RuleTotal{
			Policy: wire.NullString(s.policyName(r.Policy)), Decision: r.Kind.String(), DecidedBy: r.RefusedBy,
			Refused: r.Refused, Keys: r.Keys, Share: r.Share,
		}
	}))
}
