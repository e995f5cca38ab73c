package bench_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/servers"
)

// byNumberInRedis measures how the cost of a check grows with the logs that
// Redis holds, in Redis's own processor time.
func byNumberInRedis(b *testing.B, r *report) {
	r.begin("A check by the logs that Redis holds", "Processor time of redis-server, calls of 64 checks about random keys, a log of one entry or more for each.")
	var fewest time.Duration
	for _, n := range []int{1_000, 100_000, 1_000_000, 10_000_000} {
		cost := redisCheckCost(b, n)
		if fewest == 0 {
			fewest = cost
		}
		what := fmt.Sprintf("%d keys", n)
		if n < 10_000_000 {
			r.add(what, fmt.Sprintf("%.1f µs", micros(cost)))
			continue
		}
		r.atMost(what+", times the cost with 1,000", float64(cost)/float64(fewest), 2, "%.1f", fmt.Sprintf("(%.1f µs)", micros(cost)))
	}
}

// redisCheckCost returns the processor time of a check among so many logs: the
// least of three rounds.
func redisCheckCost(b *testing.B, number int) time.Duration {
	b.Helper()
	server := servers.DedicatedRedis(b)
	log, err := redislog.Open(server.URL, redislog.Options{Timeout: 20 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	stack, err := rules.ParseStack([]string{"10000/s", "100000/m", "100000/h", "100000/d"})
	if err != nil {
		b.Fatal(err)
	}
	p := &rules.Policy{ID: 1, Name: "default", Rules: stack, Mode: rules.Enforce}
	const together = 64
	requests, results := make([]timestamplog.Request, together), make([]timestamplog.Result, together)
	ask := func(key func(i int) int) {
		for i := range requests {
			requests[i] = timestamplog.RequestOf(p, fmt.Sprintf("ip:10.0.%d", key(i)), 1)
		}
		log.Decide(b.Context(), requests, results)
		for _, result := range results {
			if result.Err != nil {
				b.Fatal(result.Err)
			}
		}
	}
	for from := 0; from < number; from += together {
		ask(func(i int) int { return min(from+i, number-1) })
	}
	pid := int(redisProcess(b, client))
	var least time.Duration
	for range 3 {
		const calls = 3000
		before := processorTime(b, pid)
		for range calls {
			ask(func(int) int { return rand.IntN(number) })
		}
		if cost := (processorTime(b, pid) - before) / (calls * together); least == 0 || cost < least {
			least = cost
		}
	}
	return least
}

// redisProcess returns the process id of a server.
func redisProcess(b *testing.B, client *redis.Client) float64 {
	b.Helper()
	info, err := client.Info(b.Context(), "server").Bytes()
	if err != nil {
		b.Fatal(err)
	}
	return number(info, `process_id:(\d+)`)
}
