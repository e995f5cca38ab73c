package httpserver

import (
	"context"
	"math"
	"net"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/tracing"
)

// untraced does what tracing, if disabled, adds to the plain version for one request: the lines
// of handle, logAccess, DecisionContext, endTrace and release. The fast path has none of it,
// since it checks for tracing at the start of the node.
func untraced(s *Server, c *Call, r *Route) (context.Context, string) {
	if s.o.Tracer != nil || len(c.Request().Header.PeekCanonical(traceparentHeader)) > 0 {
		s.trace(c, r)
	}
	ctx := c.DecisionContext()
	id := c.Span.Parent().TraceID()
	s.endTrace(c, r)
	c.Parent, c.Span, c.traced = tracing.Parent{}, nil, nil
	return ctx, id
}

// BenchmarkTracingOff measures the cost of disabled tracing for a request: the minimum of many
// short parts, which other work on the machine disturbs least. make bench-tracing compares it
// with a whole check.
func BenchmarkTracingOff(b *testing.B) {
	s := New(Options{}, []Route{{Listener: Checks, Method: "POST", Path: "/v1/check", Access: identity.Public, Handler: func(*Call) error { return nil }}})
	app := s.CheckApp()
	var request fasthttp.Request
	request.Header.SetMethod("POST")
	request.SetRequestURI("/v1/check")
	for name, value := range map[string]string{"Host": "127.0.0.1:8080", "Content-Type": "application/json", "User-Agent": "bench", "Accept-Encoding": "gzip"} {
		request.Header.Set(name, value)
	}
	var ctx fasthttp.RequestCtx
	ctx.Init(&request, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, nil)
	fc := app.AcquireCtx(&ctx)
	defer app.ReleaseCtx(fc)
	call, route := &Call{Ctx: fc, server: s}, &s.routes[0]

	const part = 1000
	least := time.Duration(math.MaxInt64)
	var kept context.Context
	for b.Loop() {
		began := time.Now()
		for range part {
			kept, _ = untraced(s, call, route)
		}
		least = min(least, time.Since(began))
	}
	if kept != context.Background() {
		b.Fatal("the request is traced")
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(least)/part, "tracing-ns")
}
