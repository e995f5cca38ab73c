package api

import (
	"net/http"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
)

func (s *Server) listEscalationEvents(c *Call) error {
	q := c.query(append([]string{"policy", "key", "limit"}, spanParams...)...)
	from, to := s.span(q)
	f := offences.EscalationFilter{From: from, To: to, Policy: s.policyID(q), Limit: q.limit()}
	if q.err != nil {
		return q.err
	}
	if q.given("key") {
		key, err := s.key(q.values["key"])
		if err != nil {
			return err
		}
		f.Key = key.String()
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	events, err := s.Offenders.Store.EscalationEvents(ctx, f)
	if err != nil {
		return err
	}
	return sendJSON(c, http.StatusOK, wholePage(events, v1.FromEscalationEvent))
}

func (s *Server) listEscalationPauses(c *Call) error {
	ctx, cancel := c.StoreContext()
	defer cancel()
	stops, err := s.Offenders.Store.EscalationPauses(ctx)
	if err != nil {
		return err
	}
	return sendJSON(c, http.StatusOK, wholePage(stops, func(stop offences.EscalationPause) v1.EscalationPause {
		return v1.EscalationPause{Policy: stop.Name, At: v1.At(stop.At), Detail: stop.Detail}
	}))
}

func (s *Server) resumeEscalation(c *Call) error {
	name, err := c.param("name")
	if err != nil {
		return err
	}
	p, found := s.Catalog.Selector().ByName(name)
	if !found {
		return fault.New(fault.NotFound, "There is no policy of that name.")
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	if err := s.Offenders.Store.ResumeEscalation(ctx, c.Actor(), p.ID); err != nil {
		return err
	}
	return c.SendStatus(http.StatusNoContent)
}
