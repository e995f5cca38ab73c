package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/wire"
)

func (s *API) listEscalationEvents(c *httpserver.Call) error {
	q := c.ParseQuery(append([]string{"policy", "key", "limit"}, spanParams...)...)
	from, to := s.span(q)
	f := offences.EscalationFilter{From: from, To: to, Policy: s.policyID(q), Limit: q.Limit()}
	if q.Err() != nil {
		return q.Err()
	}
	if q.Given("key") {
		key, err := s.key(q.Raw("key"))
		if err != nil {
			return err
		}
		f.Key = key.String()
	}
	ctx := c.Context()
	events, err := s.Offenders.Store.EscalationEvents(ctx, f)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wholePage(events, fromEscalationEvent))
}

func (s *API) listEscalationPauses(c *httpserver.Call) error {
	ctx := c.Context()
	stops, err := s.Offenders.Store.EscalationPauses(ctx)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wholePage(stops, func(stop offences.EscalationPause) wire.EscalationPause {
		return wire.EscalationPause{Policy: stop.Name, At: wire.At(stop.At), Detail: stop.Detail}
	}))
}

func (s *API) resumeEscalation(c *httpserver.Call) error {
	name, err := c.PathParam("name")
	if err != nil {
		return err
	}
	p, found := s.Catalog.Selector().ByName(name)
	if !found {
		return fault.New(fault.NotFound, "There is no policy of that name.")
	}
	ctx := c.Context()
	if err := s.Offenders.Store.ResumeEscalation(ctx, c.Actor(), p.ID); err != nil {
		return err
	}
	return c.SendStatus(http.StatusNoContent)
}
