package doors

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/stint-dev/stint/test/servers"
)

// Envoy's deadline is shorter than Redis takes here. Other callers have a longer one.
func TestEnvoyDeadlineOnSlowRedisDoesNotAffectOtherCallers(t *testing.T) {
	redis := servers.DedicatedRedis(t)
	proxy := servers.NewProxy(t, redis.Addr)
	e := startEnvoySide(t, "--redis-url", "redis://"+proxy.Addr, "--database-url", servers.Postgres(t).URL, "--check-deadline", "10s", "--grpc-deadline", "10ms")
	checks := &site{T: t, node: e.node, url: e.node.Check}
	proxy.Delay(15 * time.Millisecond) // each way
	for range 5 {
		for range 4 { // more failures of Redis in a row than begin an outage
			name := descriptor("user=alice")
			e.want(false, e.ask("closed", 0, name, descriptor("user=bob"))) // of several keys
			degraded := e.want(false, e.ask("closed", 0, name))
			if degraded.GetDynamicMetadata().GetFields()["degraded"].GetStringValue() == "" {
				t.Fatalf("on_failure did not decide: %v", degraded)
			}
		}
		answer := checks.send(http.MethodPost, "/v1/check", `{"key":"ip:198.51.100.7","policy":"limits","peek":true}`, "Content-Type: application/json")
		if answer.status != http.StatusOK || !strings.Contains(answer.body, `"degraded":false`) {
			t.Fatalf("another caller: got %+v, want no degraded decision", answer)
		}
	}
	if strings.Contains(e.node.Output(), "unreachable") {
		t.Errorf("the node reports an outage:\n%s", e.node.Output())
	}
}

func TestEnvoyListenerUsesTheCertificateOfTheChecks(t *testing.T) {
	cert, key := servers.Certificate(t, t.TempDir())
	e := startEnvoySide(t, "--tls-cert", cert, "--tls-key", key)
	ask := func(conn *grpc.ClientConn) error {
		_, err := ratelimitv3.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(),
			&ratelimitv3.RateLimitRequest{Domain: "site", Descriptors: []*commonv3.RateLimitDescriptor{descriptor("user=alice")}})
		return err
	}
	trusting, err := credentials.NewClientTLSFromFile(cert, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		option grpc.DialOption
		want   codes.Code
	}{
		"trusting the certificate": {grpc.WithTransportCredentials(trusting), codes.OK},
		"not trusting it":          {grpc.WithTransportCredentials(credentials.NewTLS(nil)), codes.Unavailable},
	} {
		conn, err := grpc.NewClient(e.addr, c.option)
		if err != nil {
			t.Fatal(err)
		}
		if err := ask(conn); status.Code(err) != c.want {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		conn.Close()
	}
	if err := ask(e.conn); status.Code(err) != codes.Unavailable {
		t.Errorf("a call without TLS: got %v, want Unavailable", err)
	}
}

// A node that shuts down answers the calls in flight, and accepts no more.
func TestEnvoyCallsInFlightAreAnsweredOnShutdown(t *testing.T) {
	redis := servers.DedicatedRedis(t)
	proxy := servers.NewProxy(t, redis.Addr)
	e := startEnvoySide(t, "--redis-url", "redis://"+proxy.Addr, "--database-url", servers.Postgres(t).URL, "--check-deadline", "10s", "--grpc-deadline", "10s")
	e.want(true, e.ask("site", 0, descriptor("user=first"))) // opens the connection
	proxy.Delay(200 * time.Millisecond)
	var calls []grpc.ClientStream
	for i := range 20 {
		call, err := e.conn.NewStream(t.Context(), &grpc.StreamDesc{}, ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		q := &ratelimitv3.RateLimitRequest{Domain: "site", Descriptors: []*commonv3.RateLimitDescriptor{descriptor(fmt.Sprintf("user=%d", i))}}
		if err := call.SendMsg(q); err != nil {
			t.Fatal(err)
		}
		if err := call.CloseSend(); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, call)
	}
	ended := make(chan struct{})
	go func() { e.node.Terminate(); close(ended) }()
	for i, call := range calls {
		answer := new(ratelimitv3.RateLimitResponse)
		if err := call.RecvMsg(answer); err != nil || answer.GetOverallCode() != ratelimitv3.RateLimitResponse_OK {
			t.Errorf("call %d: got %v, %v", i, answer, err)
		}
	}
	<-ended
	if _, err := authv3.NewAuthorizationClient(e.conn).Check(t.Context(), httpCheck("198.51.100.7", nil, nil)); status.Code(err) != codes.Unavailable {
		t.Errorf("a call after the shutdown: got %v, want Unavailable", err)
	}
}

func TestEnvoyCallsAreAllowedExactlyUpToTheLimit(t *testing.T) {
	e := startEnvoySide(t)
	const workers, each, limit = 8, 2500, 15000
	e.node.Do(t, http.MethodPut, "/v1/policies/many?confirm=many", fmt.Sprintf(`{"match":["envoy:many:*"],"rules":["%d/1d"]}`, limit), http.StatusCreated)
	client := ratelimitv3.NewRateLimitServiceClient(e.conn)
	q := &ratelimitv3.RateLimitRequest{Domain: "many", Descriptors: []*commonv3.RateLimitDescriptor{descriptor("user=alice")}}
	var allowed atomic.Int64
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for range each {
				answer, err := client.ShouldRateLimit(t.Context(), q)
				if err != nil {
					t.Error(err)
					return
				}
				if answer.GetOverallCode() == ratelimitv3.RateLimitResponse_OK {
					allowed.Add(1)
				}
			}
		})
	}
	wait.Wait()
	if n := allowed.Load(); n != limit {
		t.Errorf("%d calls were allowed, want %d", n, limit)
	}
}

// ext_authz has a status for what on_failure refuses: the HTTP filter of Envoy would treat
// a 503 as a failure of Stint.
func TestEnvoyExternalAuthorizationIs503WithoutRedis(t *testing.T) {
	redis := servers.DedicatedRedis(t)
	e := startEnvoySide(t, "--redis-url", redis.URL, "--database-url", servers.Postgres(t).URL)
	e.node.Do(t, http.MethodPut, "/v1/policies/shut?confirm=shut", `{"match":["shut:*"],"rules":["3/1d"],"on_failure":"deny"}`, http.StatusCreated)
	redis.Stop()
	t.Cleanup(redis.Continue)
	for range 5 {
		answer, err := authv3.NewAuthorizationClient(e.conn).Check(t.Context(), httpCheck("198.51.100.7", map[string]string{"policy": "shut"}, nil))
		if err != nil {
			t.Fatal(err)
		}
		denied := answer.GetDeniedResponse()
		if answer.GetStatus().GetCode() != int32(codes.Unavailable) || denied.GetStatus().GetCode() != http.StatusServiceUnavailable ||
			!strings.Contains(denied.GetBody(), `"unavailable"`) || answer.GetDynamicMetadata().GetFields()["degraded"].GetStringValue() == "" {
			t.Fatalf("got %v", answer)
		}
	}
}

// TestEnvoyPoliciesOfThePageLimitTheirDescriptors applies the policies that the page of Envoy
// names for the configuration of envoyproxy/ratelimit.
func TestEnvoyPoliciesOfThePageLimitTheirDescriptors(t *testing.T) {
	page, err := os.ReadFile("../../docs/doors/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	e := startEnvoySide(t)
	e.node.Do(t, http.MethodDelete, "/v1/policies/limits?confirm=limits", "", http.StatusNoContent)
	commands := regexp.MustCompile(`(?m)^stint-admin policy set (\S+) --match '(\S+)' (?:--rule (\S+)|--no-rules)(?: --mode (\S+))?$`).FindAllStringSubmatch(string(page), -1)
	for _, c := range commands {
		policy := map[string]any{"match": []string{c[2]}, "rules": []string{}, "mode": cmp.Or(c[4], "enforce")}
		if c[3] != "" {
			policy["rules"] = []string{c[3]}
		}
		body, err := json.Marshal(policy)
		if err != nil {
			t.Fatal(err)
		}
		e.node.Do(t, http.MethodPut, "/v1/policies/"+c[1], string(body), http.StatusCreated)
	}
	for list, limit := range map[string]int{ // 0 for none
		"path=/login": 5, "path=/login user=alice": 3, "path=/login user=bob": 3, "path=/login other=a": 0, "path=/login2": 0,
		"user=alice": 2, "user=batch": 0, "user=batch path=/a": 2, "plan=trial": 0,
	} {
		for i := range 7 {
			e.want(limit == 0 || i < limit, e.ask("site", 0, descriptor(strings.Fields(list)...)))
		}
	}
	// What the page says of one pattern with and one without the bar.
	e.node.Do(t, http.MethodDelete, "/v1/policies/login-path?confirm=login-path", "", http.StatusNoContent)
	e.node.Do(t, http.MethodPut, "/v1/policies/longer", `{"match":["envoy:site:path=/login|*"],"rules":["1/1d"]}`, http.StatusCreated)
	for range 3 {
		e.want(true, e.ask("site", 0, descriptor("path=/login")))
	}
	e.want(true, e.ask("site", 0, descriptor("path=/login", "other=b")))
	e.want(false, e.ask("site", 0, descriptor("path=/login", "other=b")))
}
