package redislog_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/logtest"
	"github.com/stint-dev/stint/test/servers"
)

const benchKeys = 100_000

// benchStacks allow nearly all requests of a benchmark or none, for logs with 60 entries in the
// last 12 hours.
var benchStacks = map[string][]string{
	"allow":  {"5/1s", "30/1m", "200/1h", "800/1d"},
	"refuse": {"5/1s", "20/1m", "40/1h", "50/1d"},
}

func benchKey(n int) string { return fmt.Sprintf("ip:10.%d.%d.%d", n>>16, n>>8&255, n&255) }

// filled returns a log on a private Redis. Each key has 60 entries in the last 12 hours under the
// policy of each outcome.
func filled(b *testing.B) (*servers.RedisServer, *redislog.Log, map[string]*rules.Policy) {
	b.Helper()
	server := servers.DedicatedRedis(b)
	log := open(b, server, redislog.Options{})
	if !answers(log, policy(b, 9, "1/s")) {
		b.Fatal("a fresh Redis does not answer")
	}
	clock := logtest.NewClock()
	earlier := open(b, server, redislog.Options{Clock: clock.Now, Timeout: time.Minute})
	begin := time.Now().Add(-12 * time.Hour)
	policies := map[string]*rules.Policy{}
	for i, verdict := range []string{"allow", "refuse"} {
		policies[verdict] = policy(b, int64(i+1), benchStacks[verdict]...)
		lenient := policy(b, int64(i+1), "1000/s", "1000/d")
		lenient.Version = 2
		for reservation := range 6 {
			clock.Set(begin.Add(time.Duration(reservation) * 2 * time.Hour).UnixMilli())
			for from := 0; from < benchKeys; from += 1000 {
				fillLogs(b, earlier, lenient, from, 1000, 10)
			}
		}
	}
	return server, log, policies
}

// BenchmarkDecide measures single checks from one caller and from 64. It compares them with an
// empty function, and with the plain version of the batcher, in which each caller makes its own
// call.
func BenchmarkDecide(b *testing.B) {
	server, log, policies := filled(b)
	client := connect(b, server)
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("empty/callers=%d", callers), func(b *testing.B) {
			empty := emptyFunction(b, client)
			run(b, callers, func(*rand.Rand) error { return client.FCall(b.Context(), empty, []string{"k"}).Err() })
		})
		b.Run(fmt.Sprintf("plain/allow/callers=%d", callers), func(b *testing.B) {
			run(b, callers, func(random *rand.Rand) error {
				q := timestamplog.RequestOf(policies["allow"], benchKey(random.IntN(benchKeys)), 1)
				var results [1]timestamplog.Result
				log.DecidePlain(b.Context(), []timestamplog.Request{q}, results[:])
				return results[0].Err
			})
		})
		for _, verdict := range []string{"allow", "refuse"} {
			for _, detail := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s/detail=%v/callers=%d", verdict, detail, callers), func(b *testing.B) {
					run(b, callers, func(random *rand.Rand) error {
						q := timestamplog.RequestOf(policies[verdict], benchKey(random.IntN(benchKeys)), 1)
						q.Detail = detail
						var results [1]timestamplog.Result
						log.Decide(b.Context(), []timestamplog.Request{q}, results[:])
						return results[0].Err
					})
				})
			}
		}
	}
}

// run calls ask b.N times from callers goroutines.
func run(b *testing.B, callers int, ask func(*rand.Rand) error) {
	b.ReportAllocs()
	var seed atomic.Uint64
	b.SetParallelism((callers + 1) / 2) // GOMAXPROCS multiplies it
	one := func(next func() bool) {
		random := rand.New(rand.NewPCG(1, seed.Add(1)))
		for next() {
			if err := ask(random); err != nil {
				b.Error(err)
				return
			}
		}
	}
	if callers == 1 {
		one(b.Loop)
	} else {
		b.RunParallel(func(pb *testing.PB) { one(pb.Next) })
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checks/s")
}

func emptyFunction(b *testing.B, client redis.UniversalClient) string {
	b.Helper()
	const text = "#!lua name=empty\nredis.register_function('empty', function(keys, args) return 0 end)"
	if err := client.FunctionLoad(b.Context(), text).Err(); err != nil && err.Error() != "ERR Library 'empty' already exists" {
		b.Fatal(err)
	}
	return "empty"
}

// BenchmarkServer measures the cost of a check for Redis itself, without the client. Pipelines of
// calls for one key or for 64 keys, or of an empty function, alternate with pipelines of calls of
// an empty script, so that whatever else the machine does affects both. "ratio" is relative to the
// rate of the empty script.
func BenchmarkServer(b *testing.B) {
	server, _, policies := filled(b)
	client := connect(b, server)
	sum, err := client.ScriptLoad(b.Context(), "return 0").Result()
	if err != nil {
		b.Fatal(err)
	}
	script := func(pipe redis.Pipeliner, _ *rand.Rand) { pipe.EvalSha(b.Context(), sum, []string{"k"}) }
	b.Run("empty-script", func(b *testing.B) { alternate(b, client, 1, script, script) })
	empty := emptyFunction(b, client)
	b.Run("empty-function", func(b *testing.B) {
		alternate(b, client, 1, func(pipe redis.Pipeliner, _ *rand.Rand) { pipe.FCall(b.Context(), empty, []string{"k"}) }, script)
	})
	for _, verdict := range []string{"allow", "refuse"} {
		for _, keys := range []int{1, 64} {
			for _, flags := range []byte{0, 2} {
				b.Run(fmt.Sprintf("%s/detail=%v/keys=%d", verdict, flags == 2, keys), func(b *testing.B) {
					p := policies[verdict]
					alternate(b, client, keys, func(pipe redis.Pipeliner, random *rand.Rand) {
						names := make([]string, keys)
						var packed []byte
						for i := range names {
							key := benchKey(random.IntN(benchKeys))
							names[i] = redislog.LogName(server.Prefix, redislog.ShardOf(key), timestamplog.LogIDOf(p, key))
							packed = append(packed, 1, 0, 1, flags)
						}
						pipe.FCall(b.Context(), redislog.DecideFunction, names, "", packed, redislog.WriteStack(p.Rules, p.Retention.Cover(p.Rules)))
					}, script)
				})
			}
		}
	}
}

// alternate sends eight pipelines of 64 checks, where add adds a call about some keys, and then as
// many of the empty script, again and again. It reports medians.
func alternate(b *testing.B, client redis.UniversalClient, keys int, add, script func(redis.Pipeliner, *rand.Rand)) {
	random := rand.New(rand.NewPCG(1, 2))
	var rates, ratios []float64
	for b.Loop() {
		rate := pipelines(b, client, random, keys, add)
		rates = append(rates, rate)
		ratios = append(ratios, rate/pipelines(b, client, random, 1, script))
	}
	slices.Sort(rates)
	slices.Sort(ratios)
	b.ReportMetric(rates[len(rates)/2], "checks/cpu-s")
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
}

// pipelines returns checks per second of the server's processor time, so that the client's time
// does not count.
func pipelines(b *testing.B, client redis.UniversalClient, random *rand.Rand, keys int, add func(redis.Pipeliner, *rand.Rand)) float64 {
	const count, checks = 8, 64
	before := cpuSeconds(b, client)
	for range count {
		pipe := client.Pipeline()
		for n := 0; n < checks; n += keys {
			add(pipe, random)
		}
		if _, err := pipe.Exec(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	return count * checks / (cpuSeconds(b, client) - before)
}

// cpuSeconds returns the server's processor time so far.
func cpuSeconds(b *testing.B, client redis.UniversalClient) float64 {
	b.Helper()
	text, err := client.Info(b.Context(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	total := 0.0
	for line := range strings.Lines(text) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if field != "used_cpu_user" && field != "used_cpu_sys" {
			continue
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			b.Fatal(err)
		}
		total += seconds
	}
	return total
}

// BenchmarkBytes reports how much memory an entry takes in Redis, including all that a log needs.
func BenchmarkBytes(b *testing.B) {
	for _, c := range []struct{ logs, each int }{{100_000, 60}, {20_000, 800}} {
		b.Run(strconv.Itoa(c.each), func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(bytesPerEntry(b, c.logs, c.each), "B/entry")
			}
		})
	}
}

// bytesPerEntry fills a private Redis with logs that have the same number of entries.
func bytesPerEntry(b *testing.B, logs, each int) float64 {
	server := servers.DedicatedRedis(b)
	server.Prefix = redislog.DefaultPrefix // its length counts
	log := open(b, server, redislog.Options{Timeout: time.Minute})
	p := policy(b, 1, "1000/s", "1000/d")
	if !answers(log, p) {
		b.Fatal("a fresh Redis does not answer")
	}
	used := func() int64 {
		h, err := log.Health(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		return h.Nodes[0].UsedMemory
	}
	before := used()
	for from := 0; from < logs; from += 1000 {
		fillLogs(b, log, p, from, 1000, each)
	}
	return float64(used()-before) / float64(logs*each)
}
