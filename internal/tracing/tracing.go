// Package tracing makes spans of what a node does and sends them over OTLP. It is off
// without an endpoint: a nil *Tracer makes no spans. Keys, addresses and reasons are never
// in a span.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/stint-dev/stint/internal/escape"
)

// Options make a Tracer.
type Options struct {
	// Endpoint is the URL that takes spans as protobuf over HTTP, for example
	// http://127.0.0.1:4318/v1/traces.
	Endpoint string
	// Ratio is how many of the requests that bring no trace of their own are traced.
	Ratio   float64
	Version string
	Node    string
	Logger  *slog.Logger
}

// maxAsked is how many requests a second are traced because their callers ask for it:
// behind a proxy, anybody can.
const maxAsked = 100

// Tracer makes spans. A nil Tracer makes none.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider
}

// New returns a tracer. It does not wait for the endpoint; what cannot be sent is dropped
// and logged.
func New(ctx context.Context, o Options) (*Tracer, error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(o.Endpoint), otlptracehttp.WithTimeout(5*time.Second))
	if err != nil {
		return nil, fmt.Errorf("the exporter of spans: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		o.Logger.Warn("spans could not be sent", "error", escape.Log(err.Error()))
	}))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithSampler(&sampler{root: sdktrace.TraceIDRatioBased(o.Ratio), now: time.Now}),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "stint"), attribute.String("service.version", o.Version), attribute.String("service.instance.id", o.Node))),
	)
	return &Tracer{tracer: provider.Tracer("github.com/stint-dev/stint"), provider: provider}, nil
}

// Close sends the spans that are left, until ctx ends.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// sampler traces all that belongs to a span of ours, jobs, at most maxAsked requests a
// second whose callers trace them, and a ratio of the others.
type sampler struct {
	root   sdktrace.Sampler
	now    func() time.Time
	second atomic.Int64
	asked  atomic.Int64
}

// ShouldSample implements sdktrace.Sampler.
func (s *sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	parent := trace.SpanContextFromContext(p.ParentContext)
	follows := parent.IsSampled() && (!parent.IsRemote() || s.hasRoom())
	if follows || strings.HasPrefix(p.Name, jobPrefix) {
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample, Tracestate: parent.TraceState()}
	}
	if parent.IsValid() { // the caller, or the span that this belongs to, is not traced
		return sdktrace.SamplingResult{Decision: sdktrace.Drop, Tracestate: parent.TraceState()}
	}
	return s.root.ShouldSample(p)
}

func (s *sampler) hasRoom() bool {
	now := s.now().Unix()
	if before := s.second.Load(); before != now && s.second.CompareAndSwap(before, now) {
		s.asked.Store(0)
	}
	return s.asked.Add(1) <= maxAsked
}

// Description implements sdktrace.Sampler.
func (s *sampler) Description() string { return "Stint" }

// Span is one that is under way. A nil Span does nothing.
type Span struct{ span trace.Span }

// jobPrefix begins the names of jobs' spans.
const jobPrefix = "job "

// Request begins the span of a request that was read at an instant, of the trace of its
// caller where that is not zero. The span is nil where the request is not traced.
func (t *Tracer) Request(parent Parent, name string, began time.Time) (context.Context, *Span) {
	ctx := context.Background()
	if t == nil {
		return ctx, nil
	}
	if !parent.IsZero() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent.context())
	}
	return t.begin(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(began))
}

// Job begins the span of a run of a job.
func (t *Tracer) Job(ctx context.Context, name string) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	return t.begin(ctx, jobPrefix+name)
}

// Part begins a span within the span of ctx, and returns nil if ctx has none.
func (t *Tracer) Part(ctx context.Context, name string) (context.Context, *Span) {
	if t == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, nil
	}
	return t.begin(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
}

func (t *Tracer) begin(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, *Span) {
	ctx, span := t.tracer.Start(ctx, name, options...)
	if !span.IsRecording() {
		return ctx, nil
	}
	return ctx, &Span{span}
}

// Call makes the span of a finished call within the span of ctx, and none without one
// there.
func (t *Tracer) Call(ctx context.Context, name string, began time.Time, err error) {
	if t != nil && trace.SpanContextFromContext(ctx).IsSampled() {
		t.Shared(ctx, name, began, err)
	}
}

// Shared is Call for what serves many requests at once: without a span in ctx it is a
// trace of its own, in the ratio.
func (t *Tracer) Shared(ctx context.Context, name string, began time.Time, err error) {
	if t == nil {
		return
	}
	if _, span := t.begin(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(began)); span != nil {
		span.End(err)
	}
}

// Set adds an attribute.
func (s *Span) Set(name, value string) {
	if s != nil {
		s.span.SetAttributes(attribute.String(name, value))
	}
}

// SetInt adds an attribute.
func (s *Span) SetInt(name string, value int) {
	if s != nil {
		s.span.SetAttributes(attribute.Int(name, value))
	}
}

// End ends the span, with an error unless err is nil.
func (s *Span) End(err error) {
	if s == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, escape.Log(err.Error()))
	}
	s.span.End()
}

// Parent returns the span as the traceparent of what it calls, the zero Parent for nil.
func (s *Span) Parent() Parent {
	if s == nil {
		return Parent{}
	}
	c := s.span.SpanContext()
	return Parent{trace: c.TraceID(), span: c.SpanID(), sampled: c.IsSampled()}
}
