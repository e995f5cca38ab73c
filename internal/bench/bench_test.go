package bench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/testenv"
)

// BenchmarkStint measures everything once; run it with -benchtime 1x.
func BenchmarkStint(b *testing.B) {
	r := newReport(b)
	p := build(b)
	empty := startEmpty(b, p)
	overHTTP(b, r, p, empty)
	inParts(b, r)
	byNumber(b, r)
	r.write()
}

func overHTTP(b *testing.B, r *report, p programs, empty string) {
	embedded := startNode(b, p)
	embedded.furnish(b)
	r.begin("Over HTTP, as a share of an empty handler",
		fmt.Sprintf("wrk on the same machine, 2 threads, %d keys, 4 rules, every feature on. Each load runs %d times for %s, each time right after the same load on an empty fiber handler; the medians are given.", loadKeys, pairs, turn))
	share := func(what string, n node, l load, goal float64) compared {
		c := l.compare(b, n.checks, empty)
		r.atLeast(what, c.ratio, goal, "%.2f", fmt.Sprintf("(%.0fk of %.0fk/s, %.0f%% refused)", c.rate/1e3, c.empty/1e3, 100*c.refused))
		return c
	}
	share("embedded, allowed, detail none", embedded, load{"allow:", "none", 1, 64}, 0.80)
	share("embedded, allowed, detail rules", embedded, load{"allow:", "rules", 1, 64}, 0.80)
	share("embedded, blocked", embedded, load{"blocked:", "none", 1, 64}, 0.85)
	share("embedded, limited", embedded, load{"limited:", "none", 1, 64}, 0.85)

	backends := distributed(b)
	shared := startNode(b, p, backends...)
	shared.furnish(b)
	share("Redis, limited and known to be", shared, load{"limited:", "none", 1, 64}, 0.85)
	share("Redis, mostly allowed, detail none, 64 connections", shared, load{"allow:", "none", 1, 64}, 0.50)
	share("the same, 256 connections", shared, load{"allow:", "none", 1, 256}, 0.60)
	share("Redis, mostly allowed, detail rules, 64 connections", shared, load{"allow:", "rules", 1, 64}, 0.35)
	share("the same, 256 connections", shared, load{"allow:", "rules", 1, 256}, 0.40)
	batches := share("Redis, batches of 64, in checks", shared, load{"allow:", "none", 64, 64}, 1.2)

	latencies(b, r, shared, empty, batches.empty)
	severalNodes(b, r, p, shared, backends)
}

// distributed returns the settings of nodes that share a Redis and a Postgres.
func distributed(b *testing.B) []string {
	return []string{"--redis-url", testenv.DedicatedRedis(b).URL, "--database-url", testenv.Postgres(b).URL}
}

func latencies(b *testing.B, r *report, shared node, empty string, most float64) {
	r.begin("Latency in an open loop",
		"64 connections, each asking when its time has come and not when the last answer has; counted from when a request was due. The load runs in the same two cores.")
	for _, part := range []float64{0.5, 0.25, 0.1} {
		rate := part * most
		none := openLoop(b, empty, "allow:", rate, 64, 4*time.Second)
		redis := openLoop(b, shared.checks, "allow:", rate, 64, 4*time.Second)
		factor := float64(percentile(redis, 99)) / float64(percentile(none, 99))
		rest := fmt.Sprintf("times the empty handler's (%s of %s; median %s of %s)", round(percentile(redis, 99)), round(percentile(none, 99)),
			round(percentile(redis, 50)), round(percentile(none, 50)))
		what := fmt.Sprintf("p99 on Redis at %.2f of the empty handler's rate, %.0fk/s", part, rate/1e3)
		if part == 0.5 {
			r.atMost(what, factor, 2, "%.1f", rest)
		} else {
			r.add(what, fmt.Sprintf("%.1f %s", factor, rest))
		}
	}
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
