package envoy

import (
	"net/http"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/gofiber/fiber/v2"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// Path is the path at which the Rate Limit Service accepts JSON, as envoyproxy/ratelimit does.
const Path = "/json"

// Door is the door's name in metrics.
const Door = "envoy"

// Routes returns the door's route on the check listener.
func (s *Server) Routes() []httpserver.Route {
	return []httpserver.Route{{
		Listener: httpserver.Checks, Method: http.MethodPost, Path: Path, Access: identity.Check, Handler: s.handleJSON, Door: Door,
	}}
}

// handleJSON answers ShouldRateLimit in JSON, with any Content-Type: 200, 429 if the request is
// over a limit, 400 if it is invalid or comes from a web page.
func (s *Server) handleJSON(c *httpserver.Call) error {
	// A browser sends a page's request without asking first if its Content-Type may be any.
	if c.Get(fiber.HeaderOrigin) != "" {
		return fault.New(fault.Malformed, "Requests of web pages are not answered here: leave out the header Origin.")
	}
	body, err := c.ReadBody(maxMessage)
	if err != nil {
		return err
	}
	if err := httpserver.CheckDepth(body); err != nil {
		return err
	}
	q := new(ratelimitv3.RateLimitRequest)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, q); err != nil {
		return fault.New(fault.Malformed, "The body must be a RateLimitRequest as JSON.")
	}
	answer, err := s.ShouldRateLimit(contextOf(c), q)
	if fault.Is(err, fault.Invalid) {
		return fault.New(fault.Malformed, "%s", err.Error())
	}
	if err != nil {
		return err
	}
	text, err := protojson.Marshal(answer)
	if err != nil {
		return err
	}
	status := statusOf(answer, nil)
	c.Outcome = string(OutcomeOf(status))
	c.Status(status)
	c.Response().SetBody(text)
	c.Response().Header.SetContentType("application/json")
	return nil
}
