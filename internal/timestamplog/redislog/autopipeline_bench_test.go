package redislog_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/servers"
)

// BenchmarkAutoPipeline compares the batcher with the alternatives in go-redis: pipelines of the
// commands of many callers, and a connection that is written and read concurrently ("full
// duplex"). The first rows have 64 callers with one check each. The rows named "calls" have two
// loops that send calls of 32 checks, like those of the batcher, over the connection pool of
// go-redis or over one full-duplex connection. Each row lasts benchTime, whatever b.N is.
func BenchmarkAutoPipeline(b *testing.B) {
	server := servers.DedicatedRedis(b)
	log := open(b, server, redislog.Options{})
	p := policy(b, 1, "100000/1s", "100000/1h")
	if !answers(log, p) {
		b.Fatal("a fresh Redis does not answer")
	}
	pool := connect(b, server)
	auto := func(options redis.AutoPipelineOptions) redis.UniversalClient {
		client := connect(b, server).(*redis.Client)
		face, err := client.AutoPipelineWithOptions(&options)
		must(b, err)
		b.Cleanup(func() { face.Close() })
		return autoPipelined{client, face}
	}
	halfDuplex, fullDuplex := auto(redis.AutoPipelineOptions{}), auto(redis.AutoPipelineOptions{FullDuplex: true})
	by := func(client redis.UniversalClient, keys int) func(*rand.Rand) error {
		return func(random *rand.Rand) error {
			names := make([]string, keys)
			var packed []byte
			for i := range names {
				key := benchKey(random.IntN(benchKeys))
				names[i] = redislog.LogName(server.Prefix, redislog.ShardOf(key), timestamplog.LogIDOf(p, key))
				packed = append(packed, 1, 0, 1, 0)
			}
			return client.FCall(b.Context(), redislog.DecideFunction, names, "", packed, redislog.WriteStack(p.Rules, p.Retention.Cover(p.Rules))).Err()
		}
	}
	for _, row := range []struct {
		name          string
		callers, keys int
		ask           func(*rand.Rand) error
	}{
		{"checks/batcher", 64, 1, func(random *rand.Rand) error {
			q := timestamplog.RequestOf(p, benchKey(random.IntN(benchKeys)), 1)
			var results [1]timestamplog.Result
			log.Decide(b.Context(), []timestamplog.Request{q}, results[:])
			return results[0].Err
		}},
		{"checks/half-duplex", 64, 1, by(halfDuplex, 1)},
		{"checks/full-duplex", 64, 1, by(fullDuplex, 1)},
		{"calls/pool", 2, 32, by(pool, 32)},
		{"calls/full-duplex", 2, 32, by(fullDuplex, 32)},
	} {
		b.Run(row.name, func(b *testing.B) {
			for b.Loop() {
				used, ofRedis := processorTime(b), cpuSeconds(b, pool)
				n := float64(askFor(b, row.callers, row.ask) * row.keys)
				b.ReportMetric((processorTime(b)-used).Seconds()*1e6/n, "own-µs/check")
				b.ReportMetric((cpuSeconds(b, pool)-ofRedis)*1e6/n, "redis-µs/check")
			}
		})
	}
}

const benchTime = 2 * time.Second

// askFor makes that many callers call ask for benchTime and returns the number of calls.
func askFor(b *testing.B, callers int, ask func(*rand.Rand) error) int {
	b.Helper()
	var total atomic.Int64
	var group sync.WaitGroup
	ctx, cancel := context.WithTimeout(b.Context(), benchTime)
	defer cancel()
	for caller := range callers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(caller)))
			for ; ctx.Err() == nil; total.Add(1) {
				if err := ask(random); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	return int(total.Load())
}

// autoPipelined is a client whose function calls use an AutoPipeliner.
type autoPipelined struct {
	redis.UniversalClient
	face *redis.AutoPipeliner
}

// FCall implements redis.Cmdable.
func (a autoPipelined) FCall(ctx context.Context, function string, keys []string, args ...any) *redis.Cmd {
	return a.face.FCall(ctx, function, keys, args...)
}
