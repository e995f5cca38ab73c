package redislog_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/logtest"
	"github.com/stint-dev/stint/test/servers"
)

// BenchmarkAmounts compares a check of the log of amounts with a plain one, by the processor time of
// redis-server, in batches of 64 keys with 60 requests each that alternate. "ratio" is the median of what
// a check of amounts takes of what the plain one takes.
func BenchmarkAmounts(b *testing.B) {
	server := servers.DedicatedRedis(b)
	client, clock := connect(b, server), logtest.NewClock()
	log := open(b, server, redislog.Options{Clock: clock.Now, Timeout: time.Minute})
	plain, amounts := policy(b, 1, benchStacks["allow"]...), policy(b, 2, benchStacks["allow"]...)
	amounts.Algorithm = algorithms.AmountLog
	const keys, entries, batches, batch = 2000, 60, 50, 64
	for range entries {
		clock.Advance(10 * time.Minute)
		fillLogs(b, log, plain, 0, keys, 1)
		fillLogs(b, log, amounts, 0, keys, 1)
	}
	var ratios []float64
	random := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		var took []float64
		clock.Advance(10 * time.Minute)
		asked := make([]int, batches*batch)
		for i := range asked {
			asked[i] = random.IntN(keys)
		}
		for _, p := range []*rules.Policy{plain, amounts} {
			before := cpuSeconds(b, client)
			for from := 0; from < len(asked); from += batch {
				requests, results := make([]timestamplog.Request, batch), make([]timestamplog.Result, batch)
				for i := range requests {
					requests[i] = timestamplog.RequestOf(p, benchKey(asked[from+i]), 1)
				}
				if log.Decide(b.Context(), requests, results); results[0].Err != nil {
					b.Fatal(results[0].Err)
				}
			}
			took = append(took, cpuSeconds(b, client)-before)
		}
		ratios = append(ratios, took[1]/took[0])
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
}
