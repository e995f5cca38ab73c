package api

import (
	"context"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// healthHandler answers probes.
type healthHandler struct {
	common
	ready func(ctx context.Context) wire.Readiness // nil checks the catalog only
}

func (h *healthHandler) routes() []route {
	return []route{
		onChecks(get, "/livez", identity.Public, h.handleLive, nil),
		onChecks(get, "/readyz", identity.Public, h.handleReady, nil),
		onAdmin(get, "/livez", identity.Public, h.handleLive, opLive),
		onAdmin(get, "/readyz", identity.Public, h.handleReady, opReady),
	}
}

var (
	opLive = &openapi.Operation{
		ID: "live", Tag: wire.TagHealth, Summary: "Check that the process is alive.",
		Answers: []openapi.Answer{{Status: http.StatusOK, Doc: "The process is alive.", Types: []string{"text/plain"}}},
	}
	opReady = &openapi.Operation{
		ID: "ready", Tag: wire.TagHealth, Summary: "Show whether this node can answer checks, and which part fails.",
		Answers: append(ok("The node is ready.", wire.Readiness{}), openapi.Answer{Status: http.StatusServiceUnavailable, Doc: "The node is not ready.", Body: wire.Readiness{}}),
	}
)

func (h *healthHandler) handleLive(c *httpserver.Call) error {
	c.Set(fiber.HeaderContentType, fiber.MIMETextPlainCharsetUTF8)
	return c.SendString("ok\n")
}

func (h *healthHandler) handleReady(c *httpserver.Call) error {
	r := h.readiness(c.Context())
	status := http.StatusOK
	if !r.Ready {
		status = http.StatusServiceUnavailable
	}
	return c.SendJSON(status, r)
}

func (h *healthHandler) readiness(ctx context.Context) wire.Readiness {
	if h.ready != nil {
		return h.ready(ctx)
	}
	part := wire.Part{Name: "catalog", OK: h.catalog.Loaded()}
	if !part.OK {
		part.Detail = "The policies and blocks have not been loaded yet."
	} else if since, err := h.catalog.Failing(); err != nil {
		part.OK, part.Since = false, wire.At(since)
		part.Detail = "The database is unreachable; checks go on with the last policies and blocks known."
	}
	return wire.Readiness{Ready: h.catalog.Loaded(), Changes: part.OK, Parts: []wire.Part{part}}
}
