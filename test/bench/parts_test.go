package bench_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// metrics are what `go test -bench` printed, by benchmark and unit.
type metrics map[string]map[string]float64

// run runs benchmarks of another package, which is built with the flags given.
func run(b *testing.B, folder, pattern, benchtime string, flags ...string) metrics {
	b.Helper()
	flags = append([]string{"test", "-trimpath", "-run", "^$", "-bench", pattern, "-benchtime", benchtime, "-benchmem", "-timeout", "20m"}, flags...)
	cmd := exec.CommandContext(b.Context(), "go", append(flags, "../../internal/"+folder)...)
	cmd.Env = append(os.Environ(), withoutC)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("the benchmarks of %s: %v: %s", folder, err, out)
	}
	found := metrics{}
	pairs := regexp.MustCompile(`([\d.e+]+) (\S+)`)
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(line, "Benchmark") {
			continue
		}
		name := regexp.MustCompile(`-\d+$`).ReplaceAllString(fields[0], "")
		found[name] = map[string]float64{}
		for _, pair := range pairs.FindAllStringSubmatch(strings.Join(fields[2:], " "), -1) {
			found[name][pair[2]] = number([]byte(pair[1]), `([\d.e+]+)`)
		}
	}
	return found
}

// of returns one metric; a benchmark that is not there is a mistake.
func (m metrics) of(b *testing.B, name, unit string) float64 {
	b.Helper()
	value, found := m[name][unit]
	if !found {
		b.Fatalf("there is no %s of %s in %v", unit, name, m)
	}
	return value
}

// inParts measures the parts by their own benchmarks.
func inParts(b *testing.B, r *report) {
	r.begin("The log in memory", "One goroutine, the clock read for each check; cold means 100,000 logs of 60 entries asked in random order. Built with the profile of releases.")
	memory := run(b, "timestamplog/memlog", "BenchmarkDecide|BenchmarkMemory|BenchmarkHolds", "1s", "-pgo", releasedBy)
	r.atMost("a check, hot, allowed", memory.of(b, "BenchmarkDecide/hot,_allowed", "ns/op"), 110, "%.0f", "ns")
	r.atMost("a check, cold, allowed", memory.of(b, "BenchmarkDecide/cold,_allowed", "ns/op"), 450, "%.0f", "ns")
	r.atMost("allocations of either", math.Max(memory.of(b, "BenchmarkDecide/hot,_allowed", "allocs/op"), memory.of(b, "BenchmarkDecide/cold,_allowed", "allocs/op")), 0, "%.0f", "")
	r.atMost("bytes an entry, 60 a key", memory.of(b, "BenchmarkMemory/60_entries", "B/entry"), 7, "%.2f", "")
	r.atMost("bytes an entry, 800 a key", memory.of(b, "BenchmarkMemory/800_entries", "B/entry"), 4.2, "%.2f", "")

	for _, kind := range []string{"hot", "cold"} {
		plain, amounts := memory.of(b, "BenchmarkDecide/"+kind+",_allowed", "ns/op"), memory.of(b, "BenchmarkDecide/"+kind+",_allowed,_amounts", "ns/op")
		r.atMost("a check of amounts, "+kind+", of a plain one", amounts/plain, 1.5, "%.2f", fmt.Sprintf("(%.0f ns)", amounts))
	}
	for _, each := range []string{"1", "10", "100"} {
		r.atMost("bytes an open hold, a million, "+each+" a key", memory.of(b, "BenchmarkHolds/"+each+"_a_key", "B/hold"), 200, "%.0f", "")
	}

	r.begin("The log in Redis", "Processor time of redis-server itself, pipelines of 64 checks, 100,000 keys of 60 entries; an empty script called once a check is 1, in pipelines that alternate with the others. Medians.")
	redis := run(b, "timestamplog/redislog", "BenchmarkServer|BenchmarkBytes|BenchmarkAmounts", "1s")
	for _, what := range []string{"script", "function"} {
		r.add("an empty "+what, fmt.Sprintf("%.0fk a second of processor time", redis.of(b, "BenchmarkServer/empty-"+what, "checks/cpu-s")/1e3))
	}
	for _, verdict := range []string{"allow", "refuse"} {
		for _, detail := range []string{"false", "true"} {
			for _, keys := range []string{"1", "64"} {
				name := fmt.Sprintf("BenchmarkServer/%s/detail=%s/keys=%s", verdict, detail, keys)
				what := fmt.Sprintf("%s, detail %s, %s keys a call", verdict, detail, keys)
				rest := fmt.Sprintf("(%.0fk a second of processor time)", redis.of(b, name, "checks/cpu-s")/1e3)
				if detail == "false" && keys == "64" {
					r.atLeast(what, redis.of(b, name, "ratio"), 0.19, "%.2f", rest)
				} else {
					r.add(what, fmt.Sprintf("%.2f %s", redis.of(b, name, "ratio"), rest))
				}
			}
		}
	}
	r.atMost("a check of amounts, of a plain one, 60 entries a key", redis.of(b, "BenchmarkAmounts", "ratio"), 1.5, "%.2f", "")
	r.atMost("bytes an entry, 100,000 logs of 60", redis.of(b, "BenchmarkBytes/60", "B/entry"), 10, "%.2f", "")
	r.atMost("bytes an entry, 20,000 logs of 800", redis.of(b, "BenchmarkBytes/800", "B/entry"), 6.7, "%.2f", "")

	r.begin("A Cluster", "Three primaries, each with a replica: their processor time for a check, relative to that of a single Redis with a replica. All get the same checks in alternating rounds; medians. Six servers share the cores of this machine, which empties their caches; a primary by itself has a third of the callers, or of the keys of a call, while the others have nothing to do.")
	cluster := run(b, "timestamplog/redislog", "BenchmarkCluster", "15x")
	for _, shape := range []struct{ what, name string }{
		{"64 callers, single keys", "callers=64/keys=1"}, {"256 callers, single keys", "callers=256/keys=1"}, {"8 callers, 64 keys at a time", "callers=8/keys=64"},
	} {
		name := "BenchmarkCluster/" + shape.name
		for _, measured := range []struct{ what, metric string }{{"", "cluster"}, {", a primary by itself", "primary"}} {
			r.atMost(shape.what+measured.what, cluster.of(b, name, measured.metric+"-ratio"), 1.2, "%.2f", fmt.Sprintf("(%.1f of %.1f µs; %.0f checks to a call, %.0f there; a single Redis without a replica %.2f)",
				cluster.of(b, name, measured.metric+"-redis-µs/check"), cluster.of(b, name, "replica-redis-µs/check"),
				cluster.of(b, name, measured.metric+"-checks/call"), cluster.of(b, name, "replica-checks/call"), cluster.of(b, name, "alone-ratio")))
		}
	}

	r.begin("Replaying a log", "One core.")
	backtest := run(b, "backtest", "BenchmarkHotLoop$|BenchmarkEndToEndFromGzip$", "1s")
	r.atLeast("lines/s of the hot loop", backtest.of(b, "BenchmarkHotLoop", "lines/s"), 1_000_000, "%.0f", "")
	r.atLeast("lines/s from gzip, end to end", backtest.of(b, "BenchmarkEndToEndFromGzip", "lines/s"), 400_000, "%.0f", "")

	const loads = 3
	r.begin("A million blocks", fmt.Sprintf("From an SQLite file and from Postgres into a node's memory; the median of %d.", loads))
	took := map[string][]float64{}
	for range loads {
		load := run(b, "sqlstore", "BenchmarkCatalogLoad", "1000000x")
		for _, database := range []string{"sqlite", "postgres"} {
			took[database] = append(took[database], load.of(b, "BenchmarkCatalogLoad/"+database, "ns/op")*1e6/1e9)
		}
	}
	for _, database := range []string{"sqlite", "postgres"} {
		r.atMost("loaded from "+database, median(took[database]), 6, "%.2f", "s")
	}

	r.begin("The pages with a million offences", "Of the last day, by 20,000 keys, beside 100,000 blocks; the quickest of 8 answers over HTTP, and what a browser receives, compressed.")
	pages := run(b, "adminui", "BenchmarkWatch", "8x")
	for _, database := range []string{"SQLite", "Postgres"} {
		for _, page := range []string{"overview,_1_h", "overview,_24_h", "overview,_7_d", "offenders,_1_h", "offenders,_24_h", "offenders,_24_h,_newest", "key", "blocks", "today_so_far"} {
			name := "BenchmarkWatch/" + database + "/" + page
			rest := fmt.Sprintf("ms (%.0f ms of the node's processor time, %.0f kB)", pages.of(b, name, "cpu-ms"), pages.of(b, name, "kB"))
			r.atMost(strings.ReplaceAll(page, "_", " ")+", "+database, pages.of(b, name, "least-ms"), 100, "%.0f", rest)
		}
	}
}
