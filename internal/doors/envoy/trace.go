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

// traceparentMetadata is the metadata with the trace of a caller (W3C Trace Context).
const traceparentMetadata = "traceparent"

// traceIDKey is the context key of a call's trace id.
type traceIDKey struct{}

// trace begins the span of a call, if it is traced, and returns the context for calls of the
// gate. That context is never cancelled: the gate has its own deadline, and a caller who has
// disconnected is charged anyway.
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

// endTrace ends the span of a call with the corresponding HTTP status.
func endTrace(span *tracing.Span, status int, err error) {
	if span == nil {
		return
	}
	span.SetInt("http.response.status_code", status)
	outcome := OutcomeOf(status)
	if outcome != "" {
		span.Set("stint.outcome", string(outcome))
	}
	if status < http.StatusInternalServerError || outcome != "" { // a mistake of the caller is not a failure of the node
		err = nil
	}
	span.End(err)
}

// contextOf returns the context for calls of the gate by an HTTP request.
func contextOf(c *httpserver.Call) context.Context {
	ctx := c.DecisionContext()
	if id := c.TraceID(); id != "" {
		ctx = context.WithValue(ctx, traceIDKey{}, id)
	}
	return ctx
}

// metaOf returns the metadata for the offence of a call: its trace id.
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
