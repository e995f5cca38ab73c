package api

import (
	"context"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

func (s *API) handleLive(c *httpserver.Call) error {
	c.Set(fiber.HeaderContentType, fiber.MIMETextPlainCharsetUTF8)
	return c.SendString("ok\n")
}

func (s *API) handleReady(c *httpserver.Call) error {
	ctx := c.Context()
	r := s.readiness(ctx)
	status := http.StatusOK
	if !r.Ready {
		status = http.StatusServiceUnavailable
	}
	return c.SendJSON(status, r)
}

func (s *API) readiness(ctx context.Context) wire.Readiness {
	if s.Ready != nil {
		return s.Ready(ctx)
	}
	part := wire.Part{Name: "catalog", OK: s.Catalog.Loaded()}
	if !part.OK {
		part.Detail = "The policies and blocks have not been loaded yet."
	} else if since, err := s.Catalog.Failing(); err != nil {
		part.OK, part.Since = false, wire.At(since)
		part.Detail = "The database is unreachable; checks go on with the last policies and blocks known."
	}
	return wire.Readiness{Ready: s.Catalog.Loaded(), Changes: part.OK, Parts: []wire.Part{part}}
}
