package redislog_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/servers"
)

// BenchmarkCluster asks a Cluster of three primaries and their replicas from
// many callers at once, about one key each or, as a batch does, about 64.
func BenchmarkCluster(b *testing.B) {
	c := servers.Cluster(b)
	log, err := redislog.Open(c.URL, redislog.Options{Timeout: 20 * time.Second})
	must(b, err)
	b.Cleanup(func() { log.Close() })
	p := policy(b, 1, benchStacks["allow"]...)
	for _, shape := range []struct{ callers, keys int }{{64, 1}, {256, 1}, {8, 64}} {
		b.Run(fmt.Sprintf("callers=%d/keys=%d", shape.callers, shape.keys), func(b *testing.B) {
			calls, before := callsOfCluster(b, c), secondsOf(b, c)
			run(b, shape.callers, func(random *rand.Rand) error {
				requests, results := make([]timestamplog.Request, shape.keys), make([]timestamplog.Result, shape.keys)
				for i := range requests {
					requests[i] = timestamplog.RequestOf(p, benchKey(random.IntN(benchKeys)), 1)
				}
				log.Decide(b.Context(), requests, results)
				for _, r := range results {
					if r.Err != nil {
						return r.Err
					}
				}
				return nil
			})
			checks := float64(b.N * shape.keys)
			b.ReportMetric(checks/b.Elapsed().Seconds(), "checks/s")
			b.ReportMetric(checks/float64(callsOfCluster(b, c)-calls), "checks/call")
			b.ReportMetric((secondsOf(b, c)-before)/checks*1e6, "redis-µs/check")
		})
	}
}

// callsOfCluster returns how many function calls the primaries have answered.
func callsOfCluster(b *testing.B, c *servers.RedisCluster) (total int) {
	b.Helper()
	for _, client := range c.Clients[:servers.Primaries] {
		_, rest, _ := strings.Cut(client.Info(b.Context(), "commandstats").Val(), "cmdstat_fcall:calls=")
		number, _, _ := strings.Cut(rest, ",")
		n, _ := strconv.Atoi(number) // none before the first call
		total += n
	}
	return total
}

// secondsOf returns the processor time of the primaries.
func secondsOf(b *testing.B, c *servers.RedisCluster) (total float64) {
	b.Helper()
	for _, client := range c.Clients[:servers.Primaries] {
		total += cpuSeconds(b, redis.UniversalClient(client))
	}
	return total
}
