package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
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
		onAdmin(get, wire.PathEscalations+"/events", identity.Read, h.listEscalationEvents, opEscalationEvents),
		onAdmin(get, wire.PathEscalations+"/paused", identity.Read, h.listEscalationPauses, opEscalationPauses),
		onAdmin(post, wire.PathEscalations+"/:name/resume", identity.Operate, h.resumeEscalation, opResumeEscalation),
	}
}

var (
	opEscalationEvents = &openapi.Operation{
		ID: "listEscalationEvents", Tag: "offenders", Summary: "List what escalation did: automatic blocks, and those that a shadow policy would have made.",
		Query:   append([]openapi.Param{policyParam, {Name: "key", Doc: "Only about this key."}, cursorParam, limitParam}, timeRangeQuery...),
		Answers: ok("The events, the newest first.", wire.Page[wire.EscalationEvent]{}),
	}
	opEscalationPauses = &openapi.Operation{
		ID: "listPausedEscalations", Tag: "offenders", Summary: "List the paused escalations, which would have blocked too many keys.",
		Answers: ok("The paused escalations.", wire.Page[wire.EscalationPause]{}),
	}
	opResumeEscalation = &openapi.Operation{
		ID: "resumeEscalation", Tag: "offenders", Summary: "Resume the paused escalation of a policy.",
		Answers: []openapi.Answer{{Status: http.StatusNoContent, Doc: "It is resumed."}},
	}
)

func (h *escalationHandler) listEscalationEvents(c *httpserver.Call) error {
	q := c.ParseQuery(append([]string{"policy", "key", "cursor", "limit"}, timeRangeParams...)...)
	from, to := h.timeRange(q)
	f := offences.EscalationFilter{From: from, To: to, Cursor: q.Raw("cursor"), Limit: q.Limit()}
	if q.Err() != nil {
		return q.Err()
	}
	var err error
	if f.Policy, err = h.policyID(q); err != nil {
		return err
	}
	if q.Given("key") {
		key, err := h.key(q.Raw("key"))
		if err != nil {
			return err
		}
		f.Key = key.String()
	}
	events, next, err := h.detection.EscalationEvents(c.Context(), f)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, routes.CursorPage(events, next, fromEscalationEvent))
}

func (h *escalationHandler) listEscalationPauses(c *httpserver.Call) error {
	stops, err := h.detection.EscalationPauses(c.Context())
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, singlePage(stops, func(stop offences.EscalationPause) wire.EscalationPause {
		return wire.EscalationPause{Policy: stop.Name, At: wire.At(stop.At), Detail: stop.Detail}
	}))
}

func (h *escalationHandler) resumeEscalation(c *httpserver.Call) error {
	name, err := c.PathParam("name")
	if err != nil {
		return err
	}
	if err := h.detection.Resume(c.Context(), callerOf(c), name); err != nil {
		return err
	}
	return c.SendStatus(http.StatusNoContent)
}
