package bench_test

import (
	"cmp"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// load is what wrk asks; see wrk.lua.
type load struct {
	prefix      string
	keys        int
	detail      string
	batch       int
	connections int
	door        string // "forward" for /v1/forward, "ratelimit" and "gubernator" for theirs, "" for /v1/check
}

const manyKeys = 100_000

// asked is the result of a load.
type asked struct {
	rate    float64       // checks per second
	refused float64       // share of the answers that were not 2xx
	cost    time.Duration // processor time of the node for each check
	// degraded is the share that the node answered without Redis, since it took
	// longer than a check waits: such a rate is not that of checks on Redis.
	degraded float64
}

// withoutRedis says what is to be known where checks were degraded.
func (a asked) withoutRedis() string {
	if a.degraded == 0 {
		return ""
	}
	return fmt.Sprintf("; %.1f%% were answered without Redis", 100*a.degraded)
}

// degradedChecks returns how many checks n has answered without Redis.
func (n node) degradedChecks(b *testing.B) float64 {
	b.Helper()
	if n.admin == "" {
		return 0
	}
	_, metrics := call(b, http.MethodGet, "http://"+n.admin+"/metrics", "")
	total := 0.0
	for line := range strings.Lines(string(metrics)) {
		total += number([]byte(line), `^stint_degraded_checks_total(?:\{.*\})? ([\d.e+]+)`)
	}
	return total
}

// wrk asks n for a time.
func (l load) wrk(b *testing.B, n node, lasting time.Duration) asked {
	b.Helper()
	before, degraded := processorTime(b, n.pid), n.degradedChecks(b)
	out, err := onLoadCores(b, "wrk", "-t2", "-c"+strconv.Itoa(l.connections),
		"-d"+fmt.Sprintf("%.0fs", lasting.Seconds()), "-s", "wrk.lua", "http://"+n.checks, "--",
		l.prefix, strconv.Itoa(l.keys), l.detail, strconv.Itoa(l.batch), l.door).CombinedOutput()
	if err != nil {
		b.Fatalf("wrk: %v: %s", err, out)
	}
	answered := number(out, `(\d+) requests in`)
	if number(out, `Socket errors: (.*)`) != 0 || answered == 0 {
		b.Fatalf("wrk: some answers are missing: %s", out)
	}
	return asked{
		rate:     number(out, `Requests/sec:\s+([\d.]+)`) * float64(l.batch),
		refused:  number(out, `Non-2xx or 3xx responses: (\d+)`) / answered,
		cost:     (processorTime(b, n.pid) - before) / time.Duration(answered*float64(l.batch)),
		degraded: (n.degradedChecks(b) - degraded) / (answered * float64(l.batch)),
	}
}

// minCores is how many cores a machine must have for the load to have its own.
const minCores = 4

// onLoadCores returns a command of the load. Where the machine has the cores, it runs on the
// last quarter of them, which start keeps the programs off.
func onLoadCores(b *testing.B, name string, args ...string) *exec.Cmd {
	if cores := runtime.NumCPU(); cores >= minCores {
		return pinned(b, cores-cores/4, cores-1, name, args...)
	}
	return exec.CommandContext(b.Context(), name, args...)
}

// pinned returns a command that runs on some cores only.
func pinned(b *testing.B, first, last int, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(b.Context(), "taskset", append([]string{"-c", fmt.Sprintf("%d-%d", first, last), name}, args...)...)
}

// number returns the first number that a pattern finds, 0 for none.
func number(text []byte, pattern string) float64 {
	found := regexp.MustCompile(pattern).FindSubmatch(text)
	if found == nil {
		return 0
	}
	n, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		return -1
	}
	return n
}

// minPairs and maxPairs are how often each load is measured beside the empty handler, the
// former if the shares then spread by less than maxSpread, and runTime how long each
// time; the median counts.
const (
	minPairs  = 5
	maxPairs  = 15
	maxSpread = 0.05
	runTime   = 2 * time.Second
)

// compared is a load beside the empty handler, medians of all runs.
type compared struct {
	asked, empty asked
	ratio        float64
	spread       float64 // of the ratios
}

// unsteady says what is to be known where the ratios spread by more than maxSpread.
func (c compared) unsteady() string {
	if c.spread < maxSpread {
		return ""
	}
	return fmt.Sprintf("; spread %.0f%% after %d pairs", 100*c.spread, maxPairs)
}

func (l load) compare(b *testing.B, n, empty node) compared {
	b.Helper()
	l.wrk(b, n, runTime) // warms up
	nothing := l
	nothing.batch = 1
	var here, there []asked
	var ratios []float64
	for len(ratios) < minPairs || len(ratios) < maxPairs && spread(ratios) >= maxSpread {
		none := nothing.wrk(b, empty, runTime)
		some := l.wrk(b, n, runTime)
		here, there, ratios = append(here, some), append(there, none), append(ratios, some.rate/none.rate)
	}
	return compared{typical(here), typical(there), median(ratios), spread(ratios)}
}

// typical returns the medians.
func typical(all []asked) asked {
	return asked{
		rate:    medianOf(all, func(a asked) float64 { return a.rate }),
		refused: medianOf(all, func(a asked) float64 { return a.refused }),
		cost:    time.Duration(medianOf(all, func(a asked) float64 { return float64(a.cost) })),
		// One run without Redis is worth knowing of.
		degraded: slices.MaxFunc(all, func(a, b asked) int { return cmp.Compare(a.degraded, b.degraded) }).degraded,
	}
}

// spread returns how far the quartiles are apart, as a part of the median.
func spread(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	return (sorted[(3*n)/4] - sorted[n/4]) / sorted[n/2]
}

// medianOf returns the median of a part of all.
func medianOf[T any](all []T, part func(T) float64) float64 {
	var parts []float64
	for _, one := range all {
		parts = append(parts, part(one))
	}
	return median(parts)
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
