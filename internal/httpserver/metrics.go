package httpserver

import (
	"net/http"

	"github.com/gofiber/fiber/v2/middleware/adaptor"

	"github.com/stint-dev/stint/internal/identity"
)

// MetricsRoute returns the route for Prometheus, which needs a token with the scope read.
func MetricsRoute(h http.Handler) Route {
	answer := adaptor.HTTPHandler(h)
	return Route{Listener: Admin, Method: http.MethodGet, Path: "/metrics", Access: identity.Read,
		Handler: func(c *Call) error { return answer(c.Ctx) }}
}
