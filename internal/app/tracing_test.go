package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/stint-dev/stint/test/servers"
)

// spans collects the spans that are sent over OTLP.
type spans struct {
	mu  sync.Mutex
	all []*tracev1.Span
}

func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var sent collector.ExportTraceServiceRequest
	if err != nil || proto.Unmarshal(body, &sent) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range sent.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			s.all = append(s.all, scope.Spans...)
		}
	}
}

// named returns the first span of a name, within a parent unless that is nil.
func (s *spans) named(name string, parent []byte) *tracev1.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.Name == name && (parent == nil || string(one.ParentSpanId) == string(parent)) {
			return one
		}
	}
	return nil
}

func TestTraceCoversChecksLogsProblemsAndOffences(t *testing.T) {
	sent := &spans{}
	server := httptest.NewServer(sent)
	t.Cleanup(server.Close)
	n := startNode(t, servers.Redis(t), servers.Postgres(t).URL, filepath.Join(t.TempDir(), "data"),
		"--grpc-listen", "127.0.0.1:0",
		"--trace-endpoint", server.URL+"/v1/traces", "--trace-ratio", "off", "--check-log-ratio", "100%", "--log-format", "json")
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	ask := func(admin bool, method, path, body string) (*http.Response, string) {
		t.Helper()
		address := n.CheckAddr()
		if admin {
			address = n.AdminAddr()
		}
		header := bearer(testToken)
		header.Set("Traceparent", "00-"+id+"-00f067aa0ba902b7-01")
		return send(t, address, header, method, path, body)
	}
	if answer, text := ask(true, "PUT", "/v1/policies/traced", `{"match":["traced:*","envoy:traced:*"],"rules":["1/h"]}`); answer.StatusCode != http.StatusCreated {
		t.Fatal(text)
	}
	answer, _ := ask(false, "POST", "/v1/check", `{"key":"traced:one"}`)
	if parent := answer.Header.Get("Traceresponse"); !strings.HasPrefix(parent, "00-"+id+"-") {
		t.Errorf("got the Traceresponse %q, want the trace %s", parent, id)
	}
	refused := ""
	servers.Await(t, "a check is refused", func() bool { // the second, or a later one if a loaded machine decides without Redis
		_, refused = ask(false, "POST", "/v1/check", `{"key":"traced:one"}`)
		return strings.Contains(refused, `"allowed":false`)
	})
	if _, problem := ask(false, "POST", "/v1/check", `{`); !strings.Contains(problem, `"trace_id":"`+id+`"`) {
		t.Errorf("got the problem %s, want the trace id", problem)
	}
	servers.Await(t, "the access log has the trace id", func() bool {
		return strings.Contains(n.log.String(), `"key":"traced:one","policy":"traced","trace_id":"`+id+`"`)
	})
	refusal := strings.SplitN(strings.SplitN(refused, `"id":"`, 2)[1], `"`, 2)[0]
	servers.Await(t, "the offence has the trace id", func() bool {
		_, text := ask(true, "GET", "/v1/refusals/"+refusal, "")
		return strings.Contains(text, id)
	})
	refusal = askEnvoy(t, n, "00-"+id+"-00f067aa0ba902b7-01")
	servers.Await(t, "the offence of a call over gRPC has the trace id", func() bool {
		_, text := ask(true, "GET", "/v1/refusals/"+refusal, "")
		return strings.Contains(text, id)
	})
	wantProfiles(t, n)
	n.stop() // which sends the remaining spans
	call := sent.named("envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", nil)
	if call == nil || sent.named("log decide", call.GetSpanId()) == nil {
		t.Error("a call over gRPC has no span with the log's decision in it")
	}
	for _, name := range []string{"POST /v1/check", "PUT /v1/policies/:name", "database change", "log decide"} {
		if sent.named(name, nil) == nil {
			t.Errorf("there is no span %q", name)
		}
	}
	check := sent.named("POST /v1/check", nil)
	if sent.named("log decide", check.GetSpanId()) == nil {
		t.Error("the log's decision is not part of the check")
	}
	for _, attribute := range check.GetAttributes() {
		if strings.Contains(attribute.GetValue().GetStringValue(), "traced:one") {
			t.Error("the span contains the key")
		}
	}
}

// askEnvoy calls the Rate Limit Service twice as Envoy does within a trace, and returns
// the id of the refusal.
func askEnvoy(t *testing.T, n *testNode, traceparent string) string {
	t.Helper()
	conn, err := grpc.NewClient(n.grpc.listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", traceparent, "x-stint-token", testToken)
	q := &ratelimitv3.RateLimitRequest{Domain: "traced", Descriptors: []*commonv3.RateLimitDescriptor{{
		Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "user", Value: "a"}},
	}}}
	refusal := ""
	servers.Await(t, "a call is refused", func() bool {
		answer, err := ratelimitv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, q, grpc.WaitForReady(true))
		if err != nil {
			t.Fatal(err)
		}
		refusal = answer.GetDynamicMetadata().GetFields()["refusal_id"].GetStringValue()
		return answer.GetOverallCode() == ratelimitv3.RateLimitResponse_OVER_LIMIT
	})
	return refusal
}

// wantProfiles checks that admins get profiles of the process and others none.
func wantProfiles(t *testing.T, n *testNode) {
	t.Helper()
	status, made := n.ask(t, true, "POST", "/v1/tokens", `{"name":"reader","scopes":["read","operate"]}`, testToken)
	if status != http.StatusCreated {
		t.Fatal(made)
	}
	reader := strings.SplitN(strings.SplitN(made, `"secret":"`, 2)[1], `"`, 2)[0]
	for _, test := range []struct {
		path, token string
		want        int
	}{
		{"heap", testToken, http.StatusOK}, {"goroutine?debug=1", testToken, http.StatusOK}, {"profile?seconds=1", testToken, http.StatusOK},
		{"heap", reader, http.StatusForbidden}, {"heap", "", http.StatusUnauthorized}, {"cmdline", testToken, http.StatusNotFound},
		{"profile?seconds=61", testToken, http.StatusUnprocessableEntity}, {"heap?seconds=x", testToken, http.StatusUnprocessableEntity},
	} {
		if status, body := n.ask(t, true, "GET", "/debug/pprof/"+test.path, "", test.token); status != test.want {
			t.Errorf("%s: got %d, want %d: %.200s", test.path, status, test.want, body)
		}
	}
}

func TestTraceEndpointMustBeURL(t *testing.T) {
	if _, err := Load([]string{"--trace-endpoint", "collector:4318"}, nil); err == nil {
		t.Error("Load accepted an endpoint that is no URL")
	}
}
