package bench_test

import (
	_ "embed"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stint-dev/stint/test/servers"
)

// buildPeer builds a program of the module tools/peers.
func buildPeer(b *testing.B, to, from string) {
	b.Helper()
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-C", "../../tools/peers", "-o", to, from).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
}

//go:embed peers.md.tmpl
var peersText string

// peer is a server beside Stint and what is asked of it.
type peer struct {
	name string
	node node
	load load
	all  []asked
}

// BenchmarkPeers measures other rate limiters beside Stint, each on a Redis of its own; run
// it with -benchtime 1x.
func BenchmarkPeers(b *testing.B) {
	r := newReport(b)
	p := build(b)
	stint := startNode(b, p, distributed(b)...)
	stint.admit(b, http.MethodPut, "/v1/policies/peers", `{"match":["peers:*"],"rules":["1000/m"]}`)
	check := load{"peers:", manyKeys, "none", 1, 64, ""}
	judged := load{"peers:", manyKeys, "none", 1, 64, "ratelimit"}
	envoy, _, pid := startEnvoyPeer(b, servers.DedicatedRedis(b).Addr)
	peers := []*peer{
		{name: "an empty handler", node: startEmpty(b, p), load: check},
		{name: "Stint, the exact log", node: stint, load: check},
		{name: "redis_rate, GCRA", node: startRedisRate(b), load: check},
		{name: "envoyproxy/ratelimit, fixed windows", node: node{checks: envoy, pid: pid}, load: judged},
	}
	for _, one := range peers {
		one.load.wrk(b, one.node, runTime) // warms up
	}
	var best []float64 // Stint's rate as a multiple of the fastest other's
	for len(best) < minPairs || len(best) < maxPairs && spread(best) >= maxSpread {
		for _, one := range peers {
			one.all = append(one.all, one.load.wrk(b, one.node, runTime))
		}
		last := func(i int) float64 { return peers[i].all[len(best)].rate }
		best = append(best, last(1)/max(last(2), last(3)))
	}
	r.begin("Checks over HTTP on Redis", fmt.Sprintf("One limit of 1,000 a minute for each of %d keys, 64 connections, wrk on the same machine; all servers alternately, %d times for %s; the medians are given.",
		manyKeys, len(best), runTime))
	empty := typical(peers[0].all)
	for _, one := range peers {
		of := typical(one.all)
		r.add(one.name, fmt.Sprintf("%.1fk/s (%.2f of the empty handler; %.1f µs of the server's processor time%s)", of.rate/1e3, of.rate/empty.rate, micros(of.cost), of.withoutRedis()))
	}
	r.add("Stint's rate as a multiple of the fastest other", fmt.Sprintf("%.1f (quartiles %.0f%% apart)", median(best), 100*spread(best)))
	r.write(peersText)
}

// startRedisRate runs a fiber handler over redis_rate.
func startRedisRate(b *testing.B) node {
	b.Helper()
	program, address := filepath.Join(b.TempDir(), "redisrate"), freeAddress(b)
	buildPeer(b, program, "./redisrate")
	n := node{checks: address, pid: start(b, program, address, servers.DedicatedRedis(b).Addr)}
	servers.Await(b, "redis_rate answers", func() bool {
		status, _ := call(b, http.MethodPost, "http://"+address+"/v1/check", `{"key":"a"}`)
		return status == http.StatusOK
	})
	return n
}
