package bench_test

import (
	_ "embed"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
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

// peerCheck is what Stint and handlers that answer alike are asked.
var peerCheck = load{"peers:", manyKeys, "none", 1, 64, ""}

// peer is a server beside Stint and what is asked of it.
type peer struct {
	name string
	node node
	load load
	all  []asked
}

// BenchmarkPeers measures other rate limiters beside Stint; run it with -benchtime 1x.
func BenchmarkPeers(b *testing.B) {
	r := newReport(b)
	p := build(b)
	empty := &peer{name: "an empty handler", node: startEmpty(b, p), load: peerCheck}
	onRedis(b, r, p, empty)
	inMemory(b, r, p, empty)
	asLibraries(b, r)
	inNode(b, r, p)
	r.write(peersText)
}

// asLibraries measures the package limit beside libraries, in the module tools/libraries.
func asLibraries(b *testing.B, r *report) {
	b.Helper()
	measure := exec.CommandContext(b.Context(), "go", "test", "-C", "../../tools/libraries", "-run", "^$", "-bench", ".", "-benchtime", "1x", ".", "-args", "-redis", servers.DedicatedRedis(b).Addr)
	out, err := measure.CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	r.begin("As a library", "The package limit beside golang.org/x/time/rate in a map behind a lock, and beside redis_rate, which is asked once for each rule until one refuses; 100,000 keys; both alternately, 7 times for 0.5 s; the medians are given.")
	found := libraryRow.FindAllStringSubmatch(string(out), -1)
	if len(found) == 0 {
		b.Fatalf("no figures in %s", out)
	}
	for _, row := range found {
		r.add(row[1], fmt.Sprintf("%s checks a second, the other %s: %s times as many", row[2], row[3], row[4]))
	}
}

// inNode measures the guard of clients/node beside a bare request.
func inNode(b *testing.B, r *report, p programs) {
	b.Helper()
	stint := startNode(b, p)
	stint.admit(b, http.MethodPut, "/v1/policies/guarded", `{"match":["guarded:*"],"rules":["1000000/m"]}`)
	out, err := exec.CommandContext(b.Context(), "node", "guard.mjs", "http://"+stint.checks).CombinedOutput()
	var guarded, bare float64
	if n, _ := fmt.Sscan(string(out), &guarded, &bare); err != nil || n != 2 {
		b.Fatalf("%v: %s", err, out)
	}
	r.begin("In Node.js", "What a guard of clients/node adds to a request, beside a bare check by node:http on a connection that is kept alive; one after the other, both alternately, 7 times 2,000; the medians are given.")
	r.add("the guard as a multiple of the bare request", fmt.Sprintf("%.2f, goal at most 1.3 (%.0f µs beside %.0f µs)", guarded/bare, guarded, bare))
}

var libraryRow = regexp.MustCompile(`(?m)^([^|\n]+)\|(\d+)\|(\d+)\|([0-9.]+)$`)

// onRedis measures those that count in Redis, each in a Redis of its own.
func onRedis(b *testing.B, r *report, p programs, empty *peer) {
	b.Helper()
	stint := startNode(b, p, distributed(b)...)
	stint.admit(b, http.MethodPut, "/v1/policies/peers", `{"match":["peers:*"],"rules":["1000/m"]}`)
	judged := peerCheck
	judged.door = "ratelimit"
	envoy, _, pid := startEnvoyPeer(b, servers.DedicatedRedis(b).Addr)
	r.peers(b, "Checks over HTTP on Redis", empty,
		&peer{name: "Stint, the exact log", node: stint, load: peerCheck},
		&peer{name: "redis_rate, GCRA", node: startRedisRate(b), load: peerCheck},
		&peer{name: "envoyproxy/ratelimit, fixed windows", node: node{checks: envoy, pid: pid}, load: judged})
}

// peers measures Stint and others over HTTP, alternately.
func (r *report) peers(b *testing.B, title string, empty, stint *peer, others ...*peer) {
	b.Helper()
	empty.all = nil
	all := append([]*peer{empty, stint}, others...)
	for _, one := range all {
		one.load.wrk(b, one.node, runTime) // warms up
	}
	var best []float64 // Stint's rate as a multiple of the fastest other's
	for len(best) < minPairs || len(best) < maxPairs && spread(best) >= maxSpread {
		fastest := 0.0
		for _, one := range all {
			one.all = append(one.all, one.load.wrk(b, one.node, runTime))
			if one != empty && one != stint {
				fastest = max(fastest, one.all[len(best)].rate)
			}
		}
		best = append(best, stint.all[len(best)].rate/fastest)
	}
	r.begin(title, fmt.Sprintf("One limit of 1,000 a minute for each of %d keys, 64 connections, wrk on the same machine; all servers alternately, %d times for %s; the medians are given.",
		manyKeys, len(best), runTime))
	nothing := typical(empty.all)
	for _, one := range all {
		of := typical(one.all)
		r.add(one.name, fmt.Sprintf("%.1fk/s (%.2f of the empty handler; %.1f µs of the server's processor time%s)", of.rate/1e3, of.rate/nothing.rate, micros(of.cost), of.withoutRedis()))
	}
	r.add("Stint's rate as a multiple of the fastest other", fmt.Sprintf("%.1f (quartiles %.0f%% apart)", median(best), 100*spread(best)))
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
