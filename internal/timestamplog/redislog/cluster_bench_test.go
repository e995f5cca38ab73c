package redislog_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/servers"
)

// storage is a log and the primaries that hold it, or one of these and the keys that it holds.
type storage struct {
	name      string
	log       *redislog.Log
	primaries []*redis.Client
	asked     []string // nil for all
}

// keysOf returns the keys whose logs a primary holds.
func keysOf(c *servers.RedisCluster, primary int) (all []string) {
	var holds [redislog.Shards]bool
	for shard := range holds {
		holds[shard] = c.Owner(c.Slot(fmt.Sprintf("{%d}", shard))) == primary
	}
	for n := range benchKeys {
		if key := benchKey(n); holds[redislog.ShardOf(key)] {
			all = append(all, key)
		}
	}
	return all
}

// key returns one of the keys.
func (s storage) key() string {
	if s.asked != nil {
		return s.asked[rand.IntN(len(s.asked))]
	}
	return benchKey(rand.IntN(benchKeys))
}

// BenchmarkCluster compares a Cluster of three primaries, each with a replica, with a single Redis
// that has a replica, and with one that has none. They get the same checks in alternating rounds,
// from many callers at once: about one key each or, as a batch does, about 64. "primary" is one
// primary of the Cluster with a third of the callers, or of the keys of a batch, and no work for
// the others, as if each had processors of its own. "ratio" is the processor time of the primaries
// for a check, relative to that of the single Redis with a replica; the median of all rounds.
func BenchmarkCluster(b *testing.B) {
	cluster := servers.Cluster(b)
	replicated, alone := servers.DedicatedRedis(b, "--repl-diskless-sync-delay", "0"), servers.DedicatedRedis(b)
	host, port, err := net.SplitHostPort(replicated.Addr)
	must(b, err)
	replica := connect(b, servers.DedicatedRedis(b, "--replicaof", host, port))
	servers.Await(b, "the replica follows", func() bool {
		return strings.Contains(replica.Info(b.Context(), "replication").Val(), "master_link_status:up")
	})
	openBench := func(name, url string, primaries ...*redis.Client) storage {
		log, err := redislog.Open(url, redislog.Options{Timeout: 20 * time.Second})
		must(b, err)
		b.Cleanup(func() { log.Close() })
		return storage{name: name, log: log, primaries: primaries}
	}
	single := func(s *servers.RedisServer) *redis.Client {
		client := redis.NewClient(&redis.Options{Addr: s.Addr})
		b.Cleanup(func() { client.Close() })
		return client
	}
	all := []storage{
		openBench("replica", replicated.URL, single(replicated)),
		openBench("alone", alone.URL, single(alone)),
		openBench("cluster", cluster.URL, cluster.Clients[:servers.Primaries]...),
	}
	primary := all[2]
	primary.name, primary.primaries, primary.asked = "primary", primary.primaries[:1], keysOf(cluster, 0)
	all = append(all, primary)
	p := policy(b, 1, benchStacks["allow"]...)
	for _, shape := range []struct{ callers, keys int }{{64, 1}, {256, 1}, {8, 64}} {
		b.Run(fmt.Sprintf("callers=%d/keys=%d", shape.callers, shape.keys), func(b *testing.B) {
			for _, s := range all {
				s.round(b, p, shape.callers, shape.keys) // warms up
			}
			costs, ratios, perCall := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
			for b.Loop() {
				var first float64
				for i, s := range all {
					cost, checks := s.round(b, p, shape.callers, shape.keys)
					if i == 0 {
						first = cost
					}
					costs[s.name], ratios[s.name], perCall[s.name] = append(costs[s.name], cost), append(ratios[s.name], cost/first), append(perCall[s.name], checks)
				}
			}
			for _, s := range all {
				b.ReportMetric(middle(costs[s.name])*1e6, s.name+"-redis-µs/check")
				b.ReportMetric(middle(ratios[s.name]), s.name+"-ratio")
				b.ReportMetric(middle(perCall[s.name]), s.name+"-checks/call")
			}
		})
	}
}

// round makes some 20,000 checks and returns the seconds of the primaries for each, and how many
// a call of the function carried.
func (s storage) round(b *testing.B, p *rules.Policy, callers, keys int) (seconds, checksPerCall float64) {
	b.Helper()
	const checks = 20_000
	switch {
	case s.asked == nil:
	case keys > 1:
		keys /= servers.Primaries
	default:
		callers /= servers.Primaries
	}
	each := checks / callers / keys
	calls, before := s.calls(b), s.seconds(b)
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			requests, results := make([]timestamplog.Request, keys), make([]timestamplog.Result, keys)
			for range each {
				for i := range requests {
					requests[i] = timestamplog.RequestOf(p, s.key(), 1)
				}
				s.log.Decide(b.Context(), requests, results)
				for _, r := range results {
					if r.Err != nil {
						b.Error(r.Err)
						return
					}
				}
			}
		})
	}
	group.Wait()
	made := float64(each * callers * keys)
	return (s.seconds(b) - before) / made, made / float64(s.calls(b)-calls)
}

// calls returns how many function calls the primaries have answered.
func (s storage) calls(t testing.TB) (total int) {
	t.Helper()
	for _, client := range s.primaries {
		_, rest, _ := strings.Cut(client.Info(t.Context(), "commandstats").Val(), "cmdstat_fcall:calls=")
		number, _, _ := strings.Cut(rest, ",")
		n, _ := strconv.Atoi(number) // none before the first call
		total += n
	}
	return total
}

// seconds returns the processor time of the primaries.
func (s storage) seconds(b *testing.B) (total float64) {
	b.Helper()
	for _, client := range s.primaries {
		total += cpuSeconds(b, redis.UniversalClient(client))
	}
	return total
}

// middle returns the median.
func middle(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
