package bench_test

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
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
}

const manyKeys = 100_000

// wrk asks for a time and returns checks per second and the share that was not
// 2xx.
func (l load) wrk(b *testing.B, address string, lasting time.Duration) (rate, refused float64) {
	b.Helper()
	out, err := exec.CommandContext(b.Context(), "wrk", "-t2", "-c"+strconv.Itoa(l.connections),
		"-d"+fmt.Sprintf("%.0fs", lasting.Seconds()), "-s", "wrk.lua", "http://"+address, "--",
		l.prefix, strconv.Itoa(l.keys), l.detail, strconv.Itoa(l.batch)).CombinedOutput()
	if err != nil {
		b.Fatalf("wrk: %v: %s", err, out)
	}
	answered := number(out, `(\d+) requests in`)
	if number(out, `Socket errors: (.*)`) != 0 || answered == 0 {
		b.Fatalf("wrk did not get its answers: %s", out)
	}
	return number(out, `Requests/sec:\s+([\d.]+)`) * float64(l.batch), number(out, `Non-2xx or 3xx responses: (\d+)`) / answered
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

// pairs is how often each load is measured beside the empty handler, and
// turn how long each time; the median counts.
const (
	pairs = 5
	turn  = 2 * time.Second
)

// compared is a load beside the empty handler, medians of all turns.
type compared struct{ rate, empty, ratio, refused float64 }

func (l load) compare(b *testing.B, address, empty string) compared {
	b.Helper()
	l.wrk(b, address, turn) // warms up
	nothing := load{l.prefix, l.keys, l.detail, 1, l.connections}
	var rates, empties, ratios, refused []float64
	for range pairs {
		most, _ := nothing.wrk(b, empty, turn)
		rate, no := l.wrk(b, address, turn)
		rates, empties, ratios, refused = append(rates, rate), append(empties, most), append(ratios, rate/most), append(refused, no)
	}
	return compared{median(rates), median(empties), median(ratios), median(refused)}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
