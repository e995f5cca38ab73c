package tracing

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

func TestParseParent(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for text, want := range map[string]bool{
		good: true,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00":      true,
		"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more": true,
		"":          false,
		good + "-x": false,
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":  false,
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01":  false,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01":  false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01":  false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01":  false,
		"00-4bf92f3577b34da6a3ce929d0e0e473\n-00f067aa0ba902b7-01": false,
		"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x": false,
	} {
		p := ParseParent([]byte(text))
		if p.IsZero() == want {
			t.Errorf("ParseParent(%q): got %+v", text, p)
		}
		if want && p.TraceID() != "4bf92f3577b34da6a3ce929d0e0e4736" {
			t.Errorf("ParseParent(%q): got the trace %s", text, p.TraceID())
		}
	}
	if text := string(ParseParent([]byte(good)).AppendTo(nil)); text != good {
		t.Errorf("AppendTo: got %s", text)
	}
}

func TestSamplerLimitsTracesThatCallersRequest(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := &sampler{root: sdktrace.NeverSample(), now: func() time.Time { return now }}
	asked := sdktrace.SamplingParameters{
		Name: "POST /v1/check",
		ParentContext: trace.ContextWithRemoteSpanContext(t.Context(),
			ParseParent([]byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")).context()),
	}
	count := func() (n int) {
		for range 3 * maxAsked {
			if s.ShouldSample(asked).Decision == sdktrace.RecordAndSample {
				n++
			}
		}
		return n
	}
	if n := count(); n != maxAsked {
		t.Errorf("sampled %d requests in a second, want maxAsked", n)
	}
	now = now.Add(time.Second)
	if n := count(); n != maxAsked {
		t.Errorf("sampled %d requests in the next second, want maxAsked", n)
	}
	for name, want := range map[string]sdktrace.SamplingDecision{"job daily-report": sdktrace.RecordAndSample, "redis": sdktrace.Drop} {
		if got := s.ShouldSample(sdktrace.SamplingParameters{Name: name, ParentContext: t.Context()}).Decision; got != want {
			t.Errorf("ShouldSample(%s): got %v", name, got)
		}
	}
}

// The endpoint has no credentials, so that operators need another place for them.
func TestSpansAreSentWithTheHeadersOfTheEnvironment(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20abc")
	got := make(chan string, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("Authorization") }))
	defer collector.Close()
	tracer, err := New(t.Context(), Options{Endpoint: collector.URL + "/v1/traces", Ratio: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	_, job := tracer.Job(t.Context(), "a")
	job.End(nil)
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if header := <-got; header != "Bearer abc" {
		t.Errorf("the collector got the header %q", header)
	}
}

func TestCallSpansAreRecordedOnlyWithinATrace(t *testing.T) {
	ended := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(ended), sdktrace.WithSampler(&sampler{root: sdktrace.AlwaysSample(), now: time.Now}))
	tracer := &Tracer{tracer: provider.Tracer(""), provider: provider}
	tracer.Call(t.Context(), "database read", time.Now(), nil)
	tracer.Shared(t.Context(), "redis decide", time.Now(), nil)
	ctx, job := tracer.Job(t.Context(), "a")
	tracer.Call(ctx, "database write", time.Now(), nil)
	job.End(nil)
	var names []string
	for _, span := range ended.Ended() {
		names = append(names, span.Name())
	}
	if want := []string{"redis decide", "database write", "job a"}; !slices.Equal(names, want) {
		t.Errorf("got the spans %q, want %q", names, want)
	}
}

func TestNilTracerTracesNothing(t *testing.T) {
	var tracer *Tracer
	ctx, span := tracer.Request(Parent{}, "", time.Time{})
	span.Set("a", "b")
	span.SetInt("a", 1)
	span.End(nil)
	if _, part := tracer.Part(ctx, ""); part != nil || span != nil || !span.Parent().IsZero() {
		t.Error("a nil Tracer returned a span")
	}
	if _, job := tracer.Job(ctx, ""); job != nil {
		t.Error("a nil Tracer returned a span of a job")
	}
	tracer.Call(ctx, "", time.Time{}, nil)
	if err := tracer.Close(ctx); err != nil {
		t.Error(err)
	}
}
