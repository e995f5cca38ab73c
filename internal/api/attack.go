package api

import (
	"net/http"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/offences"
)

var opGetAttack = &Operation{
	ID: "getAttack", Tag: "offenders", Summary: "Whether there is an attack now, since when, and from where.",
	Answers: ok("The rates of now and of the baseline, and the source of an attack.", v1.Attack{}),
}

func (s *API) getAttack(c *httpserver.Call) error {
	if q := c.ParseQuery(); q.Err() != nil {
		return q.Err()
	}
	a, err := s.Offenders.Attack(c.Context())
	if err != nil {
		return err
	}
	out := v1.Attack{At: v1.At(s.Now()), Active: a.IsActive(), Now: rates(a.Now)}
	if a.IsActive() {
		out.Since = v1.At(a.Since)
	}
	if a.HasBaseline {
		baseline := rates(a.Baseline)
		out.Baseline = &baseline
	}
	if source := a.Source; source != nil {
		out.Source = &v1.AttackSource{
			Pattern: source.Pattern.String(), Ratio: source.Ratio, Keys: source.Keys, Policy: v1.NullString(s.policyName(source.Policy)),
			Rule: v1.NullString(source.Rule), Blocked: source.IsBlocked, Exempt: source.IsExempt,
		}
	}
	return c.SendJSON(http.StatusOK, out)
}

func rates(r offences.Rates) v1.Rates {
	return v1.Rates{Allowed: r.Allowed, Limited: r.Limited, Blocked: r.Blocked}
}
