package api

import (
	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/wire"
)

// escalationHandler serves the events of escalations, and resumes paused ones.
type escalationHandler struct {
	common
	detection *admin.Detection
}

func (h *escalationHandler) routes() []route {
	return []route{
		routes.Answers(wire.ListEscalationEvents, h.listEscalationEvents),
		routes.Answers(wire.ListPausedEscalations, h.listEscalationPauses),
		routes.Answers(wire.ResumeEscalation, func(c *httpserver.Call, in wire.ByName) (wire.None, error) {
			return wire.None{}, h.detection.Resume(c.Context(), callerOf(c), in.Name)
		}),
	}
}

func (h *escalationHandler) listEscalationEvents(c *httpserver.Call, in wire.EscalationList) (page wire.Page[wire.EscalationEvent], err error) {
	f := offences.EscalationFilter{Cursor: in.Cursor, Limit: in.Limit}
	if f.From, f.To, err = h.timesOf(in.TimeRange); err != nil {
		return page, err
	}
	if f.Policy, err = h.policyOf(in.Policy); err != nil {
		return page, err
	}
	if in.Key != "" {
		key, err := h.key(in.Key)
		if err != nil {
			return page, err
		}
		f.Key = key.String()
	}
	events, next, err := h.detection.EscalationEvents(c.Context(), f)
	return wire.NewPage(events, next, fromEscalationEvent), err
}

func (h *escalationHandler) listEscalationPauses(c *httpserver.Call, _ wire.None) (wire.Page[wire.EscalationPause], error) {
	stops, err := h.detection.EscalationPauses(c.Context())
	return wire.WholePage(stops, func(stop offences.EscalationPause) wire.EscalationPause {
		return wire.EscalationPause{Policy: stop.Name, At: wire.At(stop.At), Detail: stop.Detail}
	}), err
}
