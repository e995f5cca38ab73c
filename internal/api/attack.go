package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/wire"
)

var opGetAttack = &Operation{
	ID: "getAttack", Tag: "offenders", Summary: "Whether there is an attack now, since when, and from where.",
	Answers: ok("The rates of now and of the baseline, and the source of an attack.", wire.Attack{}),
}

func (s *API) getAttack(c *httpserver.Call) error {
	if q := c.ParseQuery(); q.Err() != nil {
		return q.Err()
	}
	a, err := s.Offenders.Attack(c.Context())
	if err != nil {
		return err
	}
	out := wire.Attack{At: wire.At(s.Now()), Active: a.IsActive(), Now: rates(a.Now)}
	if a.IsActive() {
		out.Since = wire.At(a.Since)
	}
	if a.HasBaseline {
		baseline := rates(a.Baseline)
		out.Baseline = &baseline
	}
	if source := a.Source; source != nil {
		out.Source = &wire.AttackSource{
			Pattern: source.Pattern.String(), Ratio: source.Ratio, Keys: source.Keys, Policy: wire.NullString(s.policyName(source.Policy)),
			Rule: wire.NullString(source.Rule), Blocked: source.IsBlocked, Exempt: source.IsExempt,
		}
	}
	return c.SendJSON(http.StatusOK, out)
}

func rates(r offences.Rates) wire.Rates {
	return wire.Rates{Allowed: r.Allowed, Limited: r.Limited, Blocked: r.Blocked}
}
