package envoy

import (
	"context"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/tracing"
)

// traceparentMetadata names the trace of a caller (W3C Trace Context).
const traceparentMetadata = "traceparent"

// traceIDKey is the context key of the id of a call's trace.
type traceIDKey struct{}

// trace begins the span of a call, if it is traced, and returns the context of what is
// asked of the gate. That has no end, as the gate has a deadline of its own and a caller
// who has gone is charged all the same.
func (s *Server) trace(call context.Context, method string, began time.Time) (context.Context, *tracing.Span) {
	md, _ := metadata.FromIncomingContext(call)
	parent := parentOf(md)
	ctx, span := s.o.Tracer.Request(parent, strings.TrimPrefix(method, "/"), began)
	if span != nil {
		parent = span.Parent()
		span.Set("stint.door", Door)
	}
	if !parent.IsZero() {
		ctx = context.WithValue(ctx, traceIDKey{}, parent.TraceID())
	}
	return ctx, span
}

// parentOf returns the trace that a call names, the zero Parent for none.
func parentOf(md metadata.MD) tracing.Parent {
	if lines := md[traceparentMetadata]; len(lines) == 1 {
		return tracing.ParseParent([]byte(lines[0]))
	}
	return tracing.Parent{}
}

// endTrace ends the span of a call that is answered as an HTTP status would.
func endTrace(span *tracing.Span, status int, err error) {
	if span == nil {
		return
	}
	span.SetInt("http.response.status_code", status)
	outcome := OutcomeOf(status)
	if outcome != "" {
		span.Set("stint.outcome", string(outcome))
	}
	if status < http.StatusInternalServerError || outcome != "" { // a mistake of the caller is no failure of the node
		err = nil
	}
	span.End(err)
}

// contextOf is the context of what an HTTP request asks of the gate.
func contextOf(c *httpserver.Call) context.Context {
	ctx := c.DecisionContext()
	if id := c.TraceID(); id != "" {
		ctx = context.WithValue(ctx, traceIDKey{}, id)
	}
	return ctx
}

// metaOf returns what is shown with the offence of a call: the id of its trace.
func metaOf(ctx context.Context) map[string]string {
	id, _ := ctx.Value(traceIDKey{}).(string)
	return metaOfTrace(id)
}

func metaOfTrace(id string) map[string]string {
	if id == "" {
		return nil
	}
	return map[string]string{httpserver.TraceKey: id}
}
