package memlog_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/logtest"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
)

// manyKeys is how many logs the benchmarks of cold checks and of memory hold.
const manyKeys = 100_000

// steadyStack lets a key that is asked about every 2 s always pass and holds 60
// entries of it.
var steadyStack = []string{"1/s", "20/30s", "50/100s", "60/2m"}

func benchRequest(p *rules.Policy, i int) timestamplog.Request {
	return timestamplog.RequestOf(p, fmt.Sprintf("ip:10.%d.%d.%d", i>>16, i>>8&255, i&255), 1)
}

// fill asks about each of keys logs entries times, 2 s apart, so that all hold
// that many where the policy keeps them.
func fill(b *testing.B, log *memlog.Log, clock *logtest.Clock, p *rules.Policy, keys, entries int) []timestamplog.Request {
	b.Helper()
	requests := make([]timestamplog.Request, keys)
	for i := range requests {
		requests[i] = benchRequest(p, i)
	}
	results := make([]timestamplog.Result, keys)
	for range entries {
		clock.Advance(2 * time.Second)
		log.Decide(b.Context(), requests, results)
	}
	for i := range results {
		if !results[i].Allowed {
			b.Fatalf("request %d was not allowed while the logs were filled: %+v", i, results[i])
		}
	}
	return requests
}

var realTime time.Time

// BenchmarkDecide measures checks with the real time read for each, as in
// service; the injected clock adds only where its keys' entries lie.
func BenchmarkDecide(b *testing.B) {
	cases := []struct {
		name    string
		keys    int
		stack   []string
		detail  bool
		step    time.Duration // how far the clock moves between rounds over the keys
		allowed bool
	}{
		{"hot, allowed", 1, steadyStack, false, 2 * time.Second, true},
		{"hot, allowed, with detail", 1, steadyStack, true, 2 * time.Second, true},
		{"hot, refused", 1, steadyStack, false, 0, false},
		{"cold, allowed", manyKeys, steadyStack, false, 2 * time.Second, true},
		{"cold, allowed, with detail", manyKeys, steadyStack, true, 2 * time.Second, true},
		{"cold, refused", manyKeys, steadyStack, false, 0, false},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			clock := logtest.NewClock()
			log := memlog.New(memlog.Options{Now: func() time.Time {
				realTime = time.Now() // for what it costs
				return clock.Now()
			}})
			p := policyOf(b, 1, c.stack...)
			requests := fill(b, log, clock, p, c.keys, 61)
			for i := range requests {
				requests[i].Detail = c.detail
			}
			rand.New(rand.NewPCG(1, 2)).Shuffle(len(requests), func(i, j int) {
				requests[i], requests[j] = requests[j], requests[i]
			})
			results := make([]timestamplog.Result, 1)
			results[0].States = make([]timestamplog.RuleState, 0, len(p.Rules))
			b.ReportAllocs()
			b.ResetTimer()
			for n := range b.N {
				i := n % len(requests)
				if i == 0 {
					clock.Advance(c.step)
				}
				log.Decide(b.Context(), requests[i:i+1], results)
				if results[0].Allowed != c.allowed {
					b.Fatalf("request %d: %+v", n, results[0])
				}
			}
		})
	}
}

// BenchmarkParallel measures checks of many keys from all cores at once.
func BenchmarkParallel(b *testing.B) {
	log := memlog.New(memlog.Options{})
	p := policyOf(b, 1, "1/s", "20/m", "200/h", "800/d")
	requests := make([]timestamplog.Request, manyKeys)
	for i := range requests {
		requests[i] = benchRequest(p, i)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		results := make([]timestamplog.Result, 1)
		for i := rand.IntN(manyKeys); pb.Next(); i = (i + 1) % manyKeys {
			log.Decide(b.Context(), requests[i:i+1], results)
		}
	})
}

// BenchmarkMemory reports what an entry takes, everything included that a log
// needs: its key, the map, the ring.
func BenchmarkMemory(b *testing.B) {
	cases := []struct {
		keys, entries int
		stack         []string
	}{
		{manyKeys, 60, steadyStack},
		{manyKeys / 5, 800, []string{"1/s", "20/m", "200/7m", "800/d"}},
		{manyKeys, 1, []string{"1/s", "20/m", "200/h", "800/d"}},
	}
	for _, c := range cases {
		b.Run(fmt.Sprintf("%d entries", c.entries), func(b *testing.B) {
			for b.Loop() {
				clock := logtest.NewClock()
				p := policyOf(b, 1, c.stack...)
				before := heap()
				log := memlog.New(memlog.Options{Now: clock.Now})
				fill(b, log, clock, p, c.keys, c.entries)
				used := heap() - before
				b.ReportMetric(float64(used)/float64(c.keys*c.entries), "B/entry")
				runtime.KeepAlive(log)
			}
		})
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// BenchmarkSave measures a snapshot of 100,000 logs of 60 entries.
func BenchmarkSave(b *testing.B) {
	clock := logtest.NewClock()
	log := memlog.New(memlog.Options{Now: clock.Now})
	fill(b, log, clock, policyOf(b, 1, steadyStack...), manyKeys, 60)
	var size counter
	for b.Loop() {
		size = 0
		if err := log.Save(&size); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(size)/(manyKeys*60), "B/entry")
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
