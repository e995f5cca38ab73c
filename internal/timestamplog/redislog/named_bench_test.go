package redislog_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/servers"
)

// BenchmarkNamed compares checks with IDs to checks without, from 64 callers at once, and the
// cost of each for Redis.
func BenchmarkNamed(b *testing.B) {
	server := servers.DedicatedRedis(b)
	log, client := open(b, server, redislog.Options{}), connect(b, server)
	p := policy(b, 1, benchStacks["allow"]...)
	if !answers(log, p) {
		b.Fatal("a fresh Redis does not answer")
	}
	var ids atomic.Int64
	for _, named := range []bool{false, true} {
		b.Run(fmt.Sprintf("named=%v", named), func(b *testing.B) {
			calls, before := functionCalls(b, client), cpuSeconds(b, client)
			run(b, 64, func(random *rand.Rand) error {
				q := timestamplog.RequestOf(p, benchKey(random.IntN(benchKeys)), 1)
				if named {
					q.ID = "0198c0de-4f2a-7c3b-9d1e-" + strconv.FormatInt(1e11+ids.Add(1), 10)
				}
				var results [1]timestamplog.Result
				log.Decide(b.Context(), []timestamplog.Request{q}, results[:])
				return results[0].Err
			})
			b.ReportMetric(float64(b.N)/float64(functionCalls(b, client)-calls), "checks/call")
			b.ReportMetric((cpuSeconds(b, client)-before)/float64(b.N)*1e6, "redis-µs/check")
		})
	}
}

// functionCalls returns how many function calls a server has answered.
func functionCalls(b *testing.B, client redis.UniversalClient) int {
	b.Helper()
	_, rest, _ := strings.Cut(client.Info(b.Context(), "commandstats").Val(), "cmdstat_fcall:calls=")
	number, _, _ := strings.Cut(rest, ",")
	n, _ := strconv.Atoi(number) // none before the first call
	return n
}
