package httpserver

import (
	"errors"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/tracing"
)

// The headers of traces, for requests and responses (W3C Trace Context).
var (
	traceparentHeader   = []byte("Traceparent")
	traceresponseHeader = []byte("Traceresponse")
)

var errAnswered = errors.New("answered with a fault of the server")

// trace begins the span of a request, if it is traced.
func (s *Server) trace(c *Call, r *Route) {
	c.Parent = tracing.ParseParent(c.Request().Header.PeekCanonical(traceparentHeader))
	if s.o.Tracer == nil {
		return
	}
	ctx, span := s.o.Tracer.Request(c.Parent, r.Method+" "+r.Path, c.Ctx.Context().Time())
	if span == nil {
		return
	}
	c.traced, c.Span = ctx, span
	span.Set("request_id", c.RequestID)
	c.SetHeader(traceresponseHeader, span.Parent().AppendTo(nil))
}

// endTrace ends the span of a request once it is answered.
func (s *Server) endTrace(c *Call, r *Route) {
	if c.Span == nil {
		return
	}
	status := c.Response().StatusCode()
	c.Span.Set("http.request.method", c.Method())
	c.Span.Set("http.route", r.Path)
	c.Span.SetInt("http.response.status_code", status)
	if r.Door != "" {
		c.Span.Set("stint.door", r.Door)
	}
	if c.Outcome != "" {
		c.Span.Set("stint.outcome", c.Outcome)
	}
	var err error
	if status >= http.StatusInternalServerError && c.Outcome == "" {
		err = errAnswered
	}
	c.Span.End(err)
}

// traceID returns the trace id of a request without a Call, "" for none.
func traceID(c *fiber.Ctx) string {
	if span := tracing.ParseParent(c.Response().Header.PeekCanonical(traceresponseHeader)); !span.IsZero() {
		return span.TraceID()
	}
	return tracing.ParseParent(c.Request().Header.PeekCanonical(traceparentHeader)).TraceID()
}
