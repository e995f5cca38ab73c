package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/bouncers"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// bouncerHandler lists the bouncers.
type bouncerHandler struct{ bouncers *admin.Bouncers }

func (h *bouncerHandler) routes() []route {
	return []route{onAdmin(get, wire.PathBouncers, identity.Read, h.listBouncers, opListBouncers)}
}

var opListBouncers = &openapi.Operation{
	ID: "listBouncers", Tag: "bouncers", Summary: "List the CrowdSec bouncers that have fetched blocks in the last 30 days.",
	Answers: ok("The bouncers by token and address.", wire.Page[wire.Bouncer]{}),
}

func (h *bouncerHandler) listBouncers(c *httpserver.Call) error {
	all, err := h.bouncers.List(c.Context())
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, singlePage(all, fromBouncer))
}

func fromBouncer(b bouncers.Bouncer) wire.Bouncer {
	return wire.Bouncer{
		Type: b.Type, Version: b.Version, Mode: string(b.Mode), TokenID: b.TokenID, Token: b.TokenName, Address: b.Address.String(),
		FirstSeen: wire.At(b.First), LastPulled: wire.At(b.Last), Sent: b.Sent, Warning: b.Warning(),
	}
}
