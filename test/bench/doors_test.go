package bench_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/test/servers"
)

// throughDoors measures what gateways ask: forward auth beside a check of the same
// addresses, and Envoy's Rate Limit Service beside Envoy's own server.
func throughDoors(b *testing.B, r *report) {
	p := build(b)
	r.begin("Forward auth, as a share of a check", fmt.Sprintf("100,000 addresses, 64 connections, 4 rules; wrk on the same machine, 2 threads. Each load runs %d times for %s, each time right after "+
		"a check of the same addresses with the detail rules, as both answer; the medians are given.", minPairs, runTime))
	settings := []string{"--trusted-proxies", "127.0.0.1"}
	for _, where := range []string{"embedded", "on Redis"} {
		if where != "embedded" {
			settings = append(settings, distributed(b)...)
		}
		n := startNode(b, p, settings...)
		n.policy(b, "ip", `"10/s","100/m","400/h","800/d"`)
		check, forward := load{"ip:", manyKeys, "rules", 1, 64, ""}, load{"ip:", manyKeys, "rules", 1, 64, "forward"}
		check.wrk(b, n, runTime) // warms up
		var checks, forwards []asked
		var ratios []float64
		for range minPairs {
			one, other := check.wrk(b, n, runTime), forward.wrk(b, n, runTime)
			checks, forwards, ratios = append(checks, one), append(forwards, other), append(ratios, other.rate/one.rate)
		}
		one, other := typical(checks), typical(forwards)
		r.atLeast(where, median(ratios), 0.9, "%.2f", fmt.Sprintf("(%.0fk of %.0fk/s; %.1f µs of the node's processor time, a check's %.1f; %.0f%% refused%s)",
			other.rate/1e3, one.rate/1e3, micros(other.cost), micros(one.cost), 100*other.refused, other.withoutRedis()))
	}
	besideEnvoys(b, r, p)
}

// besideEnvoys measures the Rate Limit Service and Envoy's own server on one Redis.
func besideEnvoys(b *testing.B, r *report, p programs) {
	r.begin("Envoy's Rate Limit Service, beside envoyproxy/ratelimit", fmt.Sprintf("One descriptor of %d, a limit of 1,000 a minute, over gRPC on 8 connections with 64 callers whose client takes little of the machine, both servers on one Redis; "+
		"Stint's exact log against the fixed windows of the other. Each runs %d times for %s, one after the other; the medians are given.", manyKeys, minPairs, runTime))
	redis, address := servers.DedicatedRedis(b), freeAddress(b)
	// The deadline is long, so that every answer is from Redis.
	n := startNode(b, p, "--redis-url", redis.URL, "--database-url", servers.Postgres(b).URL, "--grpc-listen", address, "--grpc-deadline", "5s", "--check-deadline", "5s")
	n.admit(b, http.MethodPut, "/v1/policies/bench", `{"match":["envoy:bench:*"],"rules":["1000/m"]}`)
	_, peer, pid := startEnvoyPeer(b, redis.Addr)
	ours, theirs := rateLimitService.dial(b, address, n.pid), rateLimitService.dial(b, peer, pid)
	pair := ours.beside(b, theirs)
	degraded := ""
	if answered := n.degradedChecks(b); answered > 0 {
		degraded = fmt.Sprintf("; %.0f were answered without Redis", answered)
	}
	own, other := pair.own, pair.other
	r.atLeast("rate", pair.rate, 2.5, "%.1f", fmt.Sprintf("times the other's (%.0fk of %.0fk/s; %.1f µs of the server's processor time, the other's %.1f%s)",
		own.rate/1e3, other.rate/1e3, micros(own.cost), micros(other.cost), degraded))
	r.atMost("p99", pair.p99, 0.5, "%.2f", fmt.Sprintf("times the other's (%.2f of %.2f ms)", millis(own.p99), millis(other.p99)))
}

// startEnvoyPeer runs Envoy's rate limit server on a Redis and returns its addresses, for
// HTTP and for gRPC, and its process id.
func startEnvoyPeer(b *testing.B, redis string) (overHTTP, address string, pid int) {
	b.Helper()
	dir := b.TempDir()
	buildPeer(b, filepath.Join(dir, "service_cmd"), "github.com/envoyproxy/ratelimit/src/service_cmd")
	config := filepath.Join(dir, "runtime", "ratelimit", "config")
	if err := os.MkdirAll(config, 0o700); err != nil {
		b.Fatal(err)
	}
	text := "domain: bench\ndescriptors:\n  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 1000}\n"
	if err := os.WriteFile(filepath.Join(config, "bench.yaml"), []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	port := func(address string) string { return address[strings.LastIndex(address, ":")+1:] }
	overHTTP, address = freeAddress(b), freeAddress(b)
	for name, value := range map[string]string{
		"RUNTIME_ROOT": filepath.Join(dir, "runtime"), "RUNTIME_SUBDIRECTORY": "ratelimit", "RUNTIME_WATCH_ROOT": "false", "USE_STATSD": "false", "LOG_LEVEL": "error",
		"HOST": "127.0.0.1", "GRPC_HOST": "127.0.0.1", "DEBUG_HOST": "127.0.0.1", "PORT": port(overHTTP), "GRPC_PORT": port(address), "DEBUG_PORT": port(freeAddress(b)),
		"REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": redis,
	} {
		b.Setenv(name, value)
	}
	pid = start(b, filepath.Join(dir, "service_cmd"))
	servers.Await(b, "Envoy's rate limit server listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return overHTTP, address, pid
}
