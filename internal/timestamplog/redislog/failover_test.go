package redislog_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/testenv"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/logtest"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
)

// cluster is a Redis Cluster of six servers: three primaries, each with a
// replica.
type cluster struct {
	servers []*testenv.RedisServer
	clients []*redis.Client
	ids     []string
	url     string
}

func sixServers(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{}
	for range 6 {
		server := testenv.DedicatedRedis(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0")
		client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, DisableIdentity: true})
		t.Cleanup(func() { client.Close() })
		id, err := client.ClusterMyID(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		c.servers, c.clients, c.ids = append(c.servers, server), append(c.clients, client), append(c.ids, id)
	}
	host, port, err := net.SplitHostPort(c.servers[0].Addr)
	if err != nil {
		t.Fatal(err)
	}
	for i, client := range c.clients {
		if i > 0 {
			must(t, client.ClusterMeet(t.Context(), host, port).Err())
		}
		if i < 3 {
			must(t, client.ClusterAddSlotsRange(t.Context(), i*16384/3, (i+1)*16384/3-1).Err())
		}
	}
	for i := 3; i < 6; i++ {
		eventually(t, "the servers know each other", func() bool {
			return c.clients[i].ClusterReplicate(t.Context(), c.ids[i-3]).Err() == nil
		})
	}
	c.awaitWhole(t)
	c.url = "redis+cluster://" + c.servers[0].Addr + "?addr=" + c.servers[1].Addr + "&addr=" + c.servers[2].Addr
	return c
}

// awaitWhole waits until every server says that all is well and each primary
// has a replica that is up to date.
func (c *cluster) awaitWhole(t testing.TB) {
	t.Helper()
	eventually(t, "the cluster is whole", func() bool {
		for i, client := range c.clients {
			if !strings.Contains(client.ClusterInfo(t.Context()).Val(), "cluster_state:ok") {
				return false
			}
			info := client.Info(t.Context(), "replication").Val()
			if i < 3 && !strings.Contains(info, "connected_slaves:1") || i >= 3 && !strings.Contains(info, "master_link_status:up") {
				return false
			}
		}
		return true
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// crowd asks about keys until it is stopped and keeps what it was answered.
type crowd struct {
	policy  *rules.Policy
	keys    []string
	stop    context.CancelFunc
	group   sync.WaitGroup
	allowed []atomic.Int64 // by key

	mu     sync.Mutex
	said   map[string][]logtest.Answered
	late   int     // answers that nobody waited for; they may have charged
	failed []error // others that did not come
}

// gather lets callers ask nodes about count keys under p.
func gather(t *testing.T, p *rules.Policy, count int, nodes ...timestamplog.Log) *crowd {
	ctx, stop := context.WithCancel(t.Context())
	c := &crowd{policy: p, stop: stop, allowed: make([]atomic.Int64, count), said: map[string][]logtest.Answered{}}
	for i := range count {
		c.keys = append(c.keys, fmt.Sprintf("token:%d", i))
	}
	for caller := range 8 {
		c.group.Go(func() { c.ask(ctx, nodes[caller%len(nodes)], caller) })
	}
	t.Cleanup(func() { stop(); c.group.Wait() })
	return c
}

func (c *crowd) ask(ctx context.Context, log timestamplog.Log, caller int) {
	for n := caller; ctx.Err() == nil; n++ {
		at := n % len(c.keys)
		// A batch, so that a call may have several keys of one slot.
		requests := []timestamplog.Request{timestamplog.RequestOf(c.policy, c.keys[at], 1), timestamplog.RequestOf(c.policy, c.keys[(at+7)%len(c.keys)], 1)}
		results := make([]timestamplog.Result, len(requests))
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		log.Decide(limited, requests, results)
		cancel()
		c.mu.Lock()
		for i, r := range results {
			if r.Err != nil {
				if errors.Is(r.Err, context.DeadlineExceeded) {
					c.late++
				} else {
					c.failed = append(c.failed, r.Err)
				}
				continue
			}
			c.said[requests[i].Key] = append(c.said[requests[i].Key], logtest.Answered{Cost: 1, Result: r})
			if r.Allowed {
				c.allowed[slices.Index(c.keys, requests[i].Key)].Add(1)
			}
		}
		c.mu.Unlock()
	}
}

// awaitMore waits until every key was allowed that many times more.
func (c *crowd) awaitMore(t *testing.T, what string, times int64) {
	t.Helper()
	for i := range c.keys {
		before := c.allowed[i].Load()
		eventually(t, what, func() bool { return c.allowed[i].Load() >= before+times })
	}
}

// disperse stops the asking and returns all answers by key.
func (c *crowd) disperse() map[string][]logtest.Answered {
	c.stop()
	c.group.Wait()
	return c.said
}

// checkAtMost fails the test where a window let in more than factor times its
// limit.
func checkAtMost(t *testing.T, said map[string][]logtest.Answered, stack rules.Stack, factor int) {
	t.Helper()
	for key, all := range said {
		for _, rule := range stack {
			if most := logtest.MostAllowed(all, rule.WindowMS()); most > factor*rule.Limit {
				t.Errorf("%s let %d of %s into one window, want at most %d times its limit", rule, most, key, factor)
			}
		}
	}
}

// openURL opens a log that waits long: what a test says of time it says itself.
func openURL(t *testing.T, url string) *redislog.Log {
	t.Helper()
	log, err := redislog.Open(url, redislog.Options{Timeout: 20 * time.Second})
	must(t, err)
	t.Cleanup(func() { log.Close() })
	return log
}

var crowdStack = []string{"10/200ms", "40/2s"}

func TestSlotsThatMoveUnderLoadCostNoPromise(t *testing.T) {
	c := sixServers(t)
	p := policy(t, 1, crowdStack...)
	people := gather(t, p, 24, openURL(t, c.url), openURL(t, c.url))
	people.awaitMore(t, "every key is allowed", 5)
	for _, key := range people.keys {
		name := redislog.LogName("stint", redislog.ShardOf(key), timestamplog.RefOf(p, key))
		slot := c.clients[0].ClusterKeySlot(t.Context(), name).Val()
		c.move(t, int(slot))
	}
	people.awaitMore(t, "every key is allowed where it is now", 10)
	said := people.disperse()
	if len(people.failed) > 0 {
		t.Errorf("while the slots moved, requests failed: %v", people.failed)
	}
	checkAtMost(t, said, p.Rules, 1)
	if people.late > 0 {
		return // a refusal may then have a reason that nobody saw
	}
	for key, all := range said {
		t.Run(key, func(t *testing.T) { logtest.CheckHistory(t, p.Rules, all) })
	}
}

// move moves a slot with its keys, one by one, from the primary that has it to
// the next.
func (c *cluster) move(t *testing.T, slot int) {
	t.Helper()
	from := -1
	for i := range 3 {
		ranges, err := c.clients[i].ClusterSlots(t.Context()).Result() //nolint:staticcheck // its answer is simpler than that of what replaces it
		must(t, err)
		for _, r := range ranges {
			if r.Start <= slot && slot <= r.End && r.Nodes[0].ID == c.ids[i] {
				from = i
			}
		}
	}
	if from < 0 {
		t.Fatalf("nobody has the slot %d", slot)
	}
	to := (from + 1) % 3
	ctx := t.Context()
	must(t, c.clients[to].Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[from]).Err())
	must(t, c.clients[from].Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[to]).Err())
	host, port, err := net.SplitHostPort(c.servers[to].Addr)
	must(t, err)
	for {
		time.Sleep(5 * time.Millisecond) // the slot lies open for a while
		names, err := c.clients[from].ClusterGetKeysInSlot(ctx, slot, 1).Result()
		must(t, err)
		if len(names) == 0 {
			break
		}
		must(t, c.clients[from].Migrate(ctx, host, port, names[0], 0, 5*time.Second).Err())
	}
	for _, i := range []int{to, from, (from + 2) % 3} {
		must(t, c.clients[i].Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", c.ids[to]).Err())
	}
}

func TestAPrimaryOfAClusterThatDiesLetsInAtMostTwiceTheLimit(t *testing.T) {
	c := sixServers(t)
	p := policy(t, 1, crowdStack...)
	people := gather(t, p, 24, openURL(t, c.url), openURL(t, c.url))
	people.awaitMore(t, "every key is allowed", 5)
	c.servers[0].Kill()
	eventually(t, "its replica takes over", func() bool {
		return strings.Contains(c.clients[3].Info(t.Context(), "replication").Val(), "role:master")
	})
	people.awaitMore(t, "every key is allowed again", 10)
	checkAtMost(t, people.disperse(), p.Rules, 2)
}

func TestAPrimaryUnderSentinelsThatDiesLetsInAtMostTwiceTheLimit(t *testing.T) {
	primary := testenv.DedicatedRedis(t, "--repl-diskless-sync-delay", "0")
	host, port, err := net.SplitHostPort(primary.Addr)
	must(t, err)
	replica := connect(t, testenv.DedicatedRedis(t, "--replicaof", host, port))
	eventually(t, "the replica follows", func() bool {
		return strings.Contains(replica.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	sentinels := testenv.Sentinels(t, "stint", primary)
	for _, address := range sentinels {
		sentinel := redis.NewSentinelClient(&redis.Options{Addr: address})
		t.Cleanup(func() { sentinel.Close() })
		eventually(t, "the Sentinels know the replica and each other", func() bool {
			replicas, _ := sentinel.Replicas(t.Context(), "stint").Result()
			others, _ := sentinel.Sentinels(t.Context(), "stint").Result()
			return len(replicas) == 1 && len(others) == 2
		})
	}
	url := "redis+sentinel://" + sentinels[0] + "?master_name=stint&addr=" + sentinels[1] + "&addr=" + sentinels[2]
	p := policy(t, 1, crowdStack...)
	people := gather(t, p, 12, openURL(t, url), openURL(t, url))
	people.awaitMore(t, "every key is allowed", 5)
	primary.Kill()
	people.awaitMore(t, "every key is allowed by the replica", 10)
	checkAtMost(t, people.disperse(), p.Rules, 2)
}
