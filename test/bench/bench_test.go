package bench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/servers"
)

// BenchmarkStint measures everything once; run it with -benchtime 1x. The report
// is only written where all parts ran.
func BenchmarkStint(b *testing.B) {
	r := newReport(b)
	parts := []struct {
		name    string
		measure func(*testing.B, *report)
	}{{"http", overHTTP}, {"redis", overRedis}, {"parts", inParts}, {"guided", guided}, {"idle", idle}, {"number", byNumber}, {"redis-number", byNumberInRedis}, {"kinds", byKind}, {"holds", holding}, {"described", describing}, {"doors", throughDoors}}
	measured := 0
	for _, part := range parts {
		b.Run(part.name, func(b *testing.B) {
			part.measure(b, r)
			measured++
		})
	}
	if measured < len(parts) {
		b.Logf("The report is not written: %d of %d parts ran.", measured, len(parts))
		return
	}
	r.write(reportText)
}

// shares measures loads on a node, each as a share of what the empty handler
// does with it.
type shares struct {
	b     *testing.B
	r     *report
	node  node
	empty node
}

func (s shares) of(what string, l load, goal float64) compared {
	c := l.compare(s.b, s.node, s.empty)
	rest := fmt.Sprintf("(%.0fk of %.0fk/s; %.1f µs of the node's processor time a check, the empty handler's %.1f; %.0f%% refused%s)",
		c.asked.rate/1e3, c.empty.rate/1e3, micros(c.asked.cost), micros(c.empty.cost), 100*c.asked.refused, c.asked.withoutRedis()+c.unsteady())
	if goal == 0 {
		s.r.add(what, fmt.Sprintf("%.2f %s", c.ratio, rest))
	} else {
		s.r.atLeast(what, c.ratio, goal, "%.2f", rest)
	}
	return c
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }
func millis(d time.Duration) float64 { return float64(d) / 1e6 }

var method = fmt.Sprintf("wrk on the same machine, 2 threads, 4 rules, every feature on. Each load runs %d to %d times for %s, each time right after the same load on an empty fiber handler, until the shares spread by less than %.0f%%; the medians are given.", minPairs, maxPairs, runTime, 100*maxSpread)

func overHTTP(b *testing.B, r *report) {
	p := build(b)
	n := startNode(b, p)
	n.furnish(b)
	s := shares{b, r, n, startEmpty(b, p)}
	r.begin("Embedded, over HTTP, as a share of an empty handler", "100,000 keys, 64 connections; "+method+" An answer's share is that of a handler that sends the same bytes and does nothing else.")
	loads := []struct {
		what string
		load load
		goal float64
	}{
		{"allowed, detail none", load{"allow:", manyKeys, "none", 1, 64, ""}, 0},
		{"allowed, detail rules", load{"allow:", manyKeys, "rules", 1, 64, ""}, 0.88},
		{"blocked", load{"blocked:", manyKeys, "rules", 1, 64, ""}, 0.92},
		{"limited", load{"limited:", manyKeys, "rules", 1, 64, ""}, 0.90},
	}
	for _, l := range loads {
		s.of(l.what, l.load, l.goal)
		answer := shares{b, r, startSame(b, p, n, l.load), s.empty}
		answer.of(l.what+": its answer's share", l.load, 0)
	}
	s.of("batches of 64, in checks", load{"allow:", manyKeys, "none", 64, 64, ""}, 0)
}

func overRedis(b *testing.B, r *report) {
	p := build(b)
	empty := startEmpty(b, p)
	backends := distributed(b)
	n := startNode(b, p, backends...)
	n.furnish(b)
	s := shares{b, r, n, empty}
	r.begin("On Redis, over HTTP, as a share of an empty handler", "100,000 keys where not said otherwise; "+method)
	s.of("limited, and known to be: 1,000 keys", load{"limited:", 1000, "none", 1, 64, ""}, 0.90)
	s.of("limited, 100,000 keys, each asked about twice in 2 s", load{"limited:", manyKeys, "none", 1, 64, ""}, 0)
	s.of("mostly allowed, detail none, 64 connections", load{"allow:", manyKeys, "none", 1, 64, ""}, 0.50)
	s.of("mostly allowed, detail none, 256 connections", load{"allow:", manyKeys, "none", 1, 256, ""}, 0.60)
	s.of("mostly allowed, detail rules, 64 connections", load{"allow:", manyKeys, "rules", 1, 64, ""}, 0.42)
	s.of("mostly allowed, detail rules, 256 connections", load{"allow:", manyKeys, "rules", 1, 256, ""}, 0.50)
	batches := s.of("batches of 64, in checks", load{"allow:", manyKeys, "none", 64, 64, ""}, 1.2)
	latencies(b, r, n, empty, batches.empty.rate)
	severalNodes(b, r, p, n, backends)
}

// distributed returns the settings of nodes that share a Redis and a Postgres.
func distributed(b *testing.B) []string {
	return []string{"--redis-url", servers.DedicatedRedis(b).URL, "--database-url", servers.Postgres(b).URL}
}

// latencies measures how long answers take at rates that the machine can do, each beside the
// empty handler at the same rate; most is the latter's highest.
func latencies(b *testing.B, r *report, shared, empty node, most float64) {
	const runs = 3
	r.begin("Latency in an open loop",
		fmt.Sprintf("64 connections, each asking when its time has come and not when the last answer has; counted from when a request was due. The load runs in the same two cores. %d times each, the medians are given.", runs))
	for _, rate := range []struct {
		what       string
		of         float64
		p99, p99_9 float64 // the goals, 0 for none
	}{
		{"10k/s", 10_000, 1.5, 2},
		{"0.10 of the empty handler's rate", 0.1 * most, 0, 0},
		{"0.25 of the empty handler's rate", 0.25 * most, 2, 0},
		{"0.50 of the empty handler's rate", 0.5 * most, 0, 0},
	} {
		none, redis := map[float64][]float64{}, map[float64][]float64{} // by percentile
		run := func(n node, into map[float64][]float64) {
			took := openLoop(b, n.checks, "allow:", rate.of, 64, 4*time.Second)
			for _, p := range []float64{50, 99, 99.9} {
				into[p] = append(into[p], float64(percentile(took, p)))
			}
		}
		for range runs {
			run(empty, none)
			run(shared, redis)
		}
		is := func(of map[float64][]float64, p float64) time.Duration { return round(time.Duration(median(of[p]))) }
		for _, p := range []struct{ of, goal float64 }{{99, rate.p99}, {99.9, rate.p99_9}} {
			what := fmt.Sprintf("p%v on Redis at %s", p.of, rate.what)
			factor := median(redis[p.of]) / median(none[p.of])
			rest := fmt.Sprintf("times the empty handler's (%s of %s; median %s of %s; %.0fk/s)", is(redis, p.of), is(none, p.of), is(redis, 50), is(none, 50), rate.of/1e3)
			if p.goal > 0 {
				r.atMost(what, factor, p.goal, "%.1f", rest)
			} else {
				r.add(what, fmt.Sprintf("%.1f %s", factor, rest))
			}
		}
	}
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
