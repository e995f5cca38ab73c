package memlog_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/test/logtest"
)

// manyKeys is how many logs there are in the benchmarks of cold checks and of memory.
const manyKeys = 100_000

// Stacks that always allow a key that sends a request every 2 s, or every 2 ms, and keep 60 of
// its entries.
var (
	steadyStack = []string{"1/s", "20/40s", "50/100s", "60/2m"}
	fastStack   = []string{"1/ms", "20/40ms", "50/100ms", "60/120ms"}
)

func benchRequest(p *rules.Policy, i int) timestamplog.Request {
	return timestamplog.RequestOf(p, fmt.Sprintf("ip:10.%d.%d.%d", i>>16, i>>8&255, i&255), 1)
}

// fill sends one request for each key every step, until each log has had the given number of
// entries.
func fill(b *testing.B, log *memlog.Log, clock *logtest.Clock, p *rules.Policy, keys, entries int, step time.Duration) {
	b.Helper()
	requests := make([]timestamplog.Request, keys)
	for i := range requests {
		requests[i] = benchRequest(p, i)
	}
	results := make([]timestamplog.Result, keys)
	for range entries {
		clock.Advance(step)
		log.Decide(b.Context(), requests, results)
	}
	for i := range results {
		if !results[i].Allowed {
			b.Fatalf("request %d was not allowed while the logs were filled: %+v", i, results[i])
		}
	}
}

// shuffled returns requests for the keys of fill. Their logs are far apart in memory, but the
// requests are adjacent, since a caller has just read the key that it asks about.
func shuffled(p *rules.Policy, keys int, detail bool) []timestamplog.Request {
	requests := make([]timestamplog.Request, keys)
	for i, key := range rand.New(rand.NewPCG(1, 2)).Perm(keys) {
		requests[i] = benchRequest(p, key)
		requests[i].Detail = detail
	}
	return requests
}

var realTime time.Time

// BenchmarkDecide measures checks that read the real time, as in production, although the
// injected clock sets the time.
func BenchmarkDecide(b *testing.B) {
	cases := []struct {
		name    string
		keys    int
		stack   []string
		step    time.Duration // time between two requests of a key
		detail  bool
		allowed bool
		amounts bool
	}{
		{"hot, allowed", 1, fastStack, 2 * time.Millisecond, false, true, false},
		{"hot, allowed, with detail", 1, fastStack, 2 * time.Millisecond, true, true, false},
		{"hot, refused", 1, fastStack, 2 * time.Millisecond, false, false, false},
		{"hot, allowed, amounts", 1, fastStack, 2 * time.Millisecond, false, true, true},
		{"cold, allowed", manyKeys, steadyStack, 2 * time.Second, false, true, false},
		{"cold, allowed, with detail", manyKeys, steadyStack, 2 * time.Second, true, true, false},
		{"cold, refused", manyKeys, steadyStack, 2 * time.Second, false, false, false},
		{"cold, allowed, amounts", manyKeys, steadyStack, 2 * time.Second, false, true, true},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			clock := logtest.NewClock()
			log := memlog.New(memlog.Options{Now: func() time.Time {
				realTime = memlog.WallClock() // only for its cost
				return clock.Now()
			}})
			p := policyOf(b, 1, c.stack...)
			if c.amounts {
				p.Algorithm = algorithms.AmountLog
			}
			entries := 61
			if c.amounts {
				entries = 90 // until the memory of each log grows no more
			}
			fill(b, log, clock, p, c.keys, entries, c.step)
			requests := shuffled(p, c.keys, c.detail)
			results := make([]timestamplog.Result, 1)
			results[0].States = make([]timestamplog.RuleState, 0, len(p.Rules))
			b.ReportAllocs()
			b.ResetTimer()
			for n := range b.N {
				i := n % len(requests)
				if i == 0 && c.allowed {
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

// BenchmarkClock compares the clock of a log with time.Now.
func BenchmarkClock(b *testing.B) {
	for name, now := range map[string]func() time.Time{"log": memlog.WallClock, "time.Now": time.Now} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				realTime = now()
			}
		})
	}
}

// BenchmarkParallel measures concurrent checks of many keys on all cores.
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

// BenchmarkMemory reports how much memory an entry takes, including all that a log needs: its
// key, the index, the ring.
func BenchmarkMemory(b *testing.B) {
	cases := []struct {
		keys, entries int
		stack         []string
	}{
		{manyKeys, 60, steadyStack},
		{manyKeys / 5, 800, []string{"1/s", "30/m", "300/10m", "800/d"}},
		{manyKeys, 1, []string{"1/s", "20/m", "200/h", "800/d"}},
	}
	for _, c := range cases {
		b.Run(fmt.Sprintf("%d entries", c.entries), func(b *testing.B) {
			for b.Loop() {
				clock := logtest.NewClock()
				p := policyOf(b, 1, c.stack...)
				before := heap()
				log := memlog.New(memlog.Options{Now: clock.Now})
				fill(b, log, clock, p, c.keys, c.entries, 2*time.Second)
				used := heap() - before
				b.ReportMetric(float64(used)/float64(c.keys*c.entries), "B/entry")
				runtime.KeepAlive(log)
			}
		})
	}
}

// BenchmarkHolds reports how many bytes an open hold takes, the logs of its key included, with a million.
func BenchmarkHolds(b *testing.B) {
	for _, each := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("%d a key", each), func(b *testing.B) {
			const holds = 1_000_000
			for b.Loop() {
				clock := logtest.NewClock()
				p := policyOf(b, 1, "100 concurrent", "1000/1d")
				p.Algorithm = algorithms.AmountLog
				before := heap()
				log := memlog.New(memlog.Options{Now: clock.Now})
				results := make([]timestamplog.Result, 1)
				for i := range holds {
					q := benchRequest(p, i/each)
					q.Hold, q.Value, q.Source = time.Hour.Milliseconds(), uint64(algorithms.HoldTag(uint64(i), true)), "gateway-eu-west-7"
					if log.Decide(b.Context(), []timestamplog.Request{q}, results); !results[0].Allowed {
						b.Fatalf("hold %d: %+v", i, results[0])
					}
				}
				b.ReportMetric(float64(heap()-before)/holds, "B/hold")
				runtime.KeepAlive(log)
			}
		})
	}
}

// BenchmarkSettle measures holds of many keys and their settlements.
func BenchmarkSettle(b *testing.B) {
	log := memlog.New(memlog.Options{})
	p := policyOf(b, 1, "10000000/m", "100000000/d")
	p.Algorithm = algorithms.AmountLog
	requests, results := shuffled(p, manyKeys, false), make([]timestamplog.Result, 1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		q := &requests[i%manyKeys]
		q.Hold, q.Value = time.Hour.Milliseconds(), uint64(algorithms.HoldTag(uint64(i)*0x9e3779b97f4a7c15, true))
		log.Decide(b.Context(), requests[i%manyKeys:i%manyKeys+1], results)
		if s, _ := log.Settle(b.Context(), timestamplog.Settlement{Request: *q, Used: 1}); s.State != algorithms.HoldSettled {
			b.Fatalf("%+v, %+v", results[0], s)
		}
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
	fill(b, log, clock, policyOf(b, 1, steadyStack...), manyKeys, 60, 2*time.Second)
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
