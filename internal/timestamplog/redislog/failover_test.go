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
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/logtest"
	"github.com/stint-dev/stint/test/servers"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// crowd sends requests for keys until it is stopped and keeps the answers.
type crowd struct {
	policy  *rules.Policy
	timeout time.Duration // of each request
	keys    []string
	stop    context.CancelFunc
	group   sync.WaitGroup
	allowed []atomic.Int64 // by key

	mu     sync.Mutex
	said   map[string][]logtest.Answered
	late   int     // requests whose callers gave up; they may have been charged
	failed []error // errors of the other requests without an answer
}

// gather starts callers that ask nodes about count keys under p, each request with that timeout.
func gather(t *testing.T, p *rules.Policy, timeout time.Duration, count int, nodes ...timestamplog.Log) *crowd {
	ctx, stop := context.WithCancel(t.Context())
	c := &crowd{policy: p, timeout: timeout, stop: stop, allowed: make([]atomic.Int64, count), said: map[string][]logtest.Answered{}}
	for i := range count {
		c.keys = append(c.keys, fmt.Sprintf("token:%d", i))
	}
	for caller := range 8 {
		c.group.Go(func() { c.ask(ctx, nodes[caller%len(nodes)], caller) })
	}
	t.Cleanup(func() {
		stop()
		c.group.Wait()
		if t.Failed() {
			t.Logf("%d answers came too late, %d failed: %v", c.late, len(c.failed), c.failed[:min(3, len(c.failed))])
			for i, key := range c.keys {
				t.Logf("%s was allowed %d times and answered %d times", key, c.allowed[i].Load(), len(c.said[key]))
			}
		}
	})
	return c
}

func (c *crowd) ask(ctx context.Context, log timestamplog.Log, caller int) {
	for n := caller; ctx.Err() == nil; n++ {
		// Leave processor time for the servers: this still sends several times as many requests
		// as the limits allow.
		time.Sleep(4 * time.Millisecond)
		at := n % len(c.keys)
		// Send a batch, so that a call may have several keys of one slot.
		requests := []timestamplog.Request{timestamplog.RequestOf(c.policy, c.keys[at], 1), timestamplog.RequestOf(c.policy, c.keys[(at+7)%len(c.keys)], 1)}
		results := make([]timestamplog.Result, len(requests))
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
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

// awaitMore waits until every key has been allowed at least that many more times.
func (c *crowd) awaitMore(t *testing.T, what string, times int64) {
	t.Helper()
	before := make([]int64, len(c.keys)) // all keys first, so that no key waits for another
	for i := range c.keys {
		before[i] = c.allowed[i].Load()
	}
	for i := range c.keys {
		servers.Await(t, what, func() bool { return c.allowed[i].Load() >= before[i]+times })
	}
}

// disperse stops the requests and returns all answers by key.
func (c *crowd) disperse() map[string][]logtest.Answered {
	c.stop()
	c.group.Wait()
	return c.said
}

// checkAtMost fails the test if any window allowed more than factor times its limit.
func checkAtMost(t *testing.T, said map[string][]logtest.Answered, stack rules.Stack, factor int) {
	t.Helper()
	for key, all := range said {
		for _, rule := range stack {
			if most := logtest.MaxAllowed(all, rule.WindowMS()); most > factor*rule.Limit {
				t.Errorf("%s let %d of %s into one window, want at most %d times its limit", rule, most, key, factor)
			}
		}
	}
}

// openURL opens a log with a long timeout: tests of timing set deadlines of their own.
func openURL(t *testing.T, url string) *redislog.Log {
	t.Helper()
	log, err := redislog.Open(url, redislog.Options{Timeout: 20 * time.Second})
	must(t, err)
	t.Cleanup(func() { log.Close() })
	return log
}

var crowdStack = []string{"10/200ms", "40/2s"}

func TestLimitsHoldWhileSlotsMoveUnderLoad(t *testing.T) {
	c := servers.Cluster(t, aliveForLong...)
	p := policy(t, 1, crowdStack...)
	people := gather(t, p, longTimeout, 24, openURL(t, c.URL), openURL(t, c.URL))
	people.awaitMore(t, "every key is allowed", 5)
	for _, key := range people.keys {
		name := redislog.LogName("stint", redislog.ShardOf(key), timestamplog.LogIDOf(p, key))
		c.Open(c.Slot(name)).Close()
	}
	people.awaitMore(t, "every key is allowed where it is now", 10)
	said := people.disperse()
	if len(people.failed) > 0 {
		t.Errorf("while the slots moved, requests failed: %v", people.failed)
	}
	checkAtMost(t, said, p.Rules, 1)
	if people.late > 0 {
		return // a refusal may then have a cause among the lost answers
	}
	for key, all := range said {
		t.Run(key, func(t *testing.T) { logtest.CheckHistory(t, p.Rules, all) })
	}
}

func TestFailoverInAClusterAllowsAtMostTwiceTheLimit(t *testing.T) {
	c := servers.Cluster(t)
	p := policy(t, 1, crowdStack...)
	people := gather(t, p, time.Second, 24, openURL(t, c.URL), openURL(t, c.URL))
	people.awaitMore(t, "every key is allowed", 5)
	c.Servers[0].Kill()
	servers.Await(t, "its replica takes over", func() bool {
		return strings.Contains(c.Clients[3].Info(t.Context(), "replication").Val(), "role:master")
	})
	people.awaitMore(t, "every key is allowed again", 10)
	checkAtMost(t, people.disperse(), p.Rules, 2)
}

func TestFailoverUnderSentinelsAllowsAtMostTwiceTheLimit(t *testing.T) {
	primary := servers.DedicatedRedis(t, "--repl-diskless-sync-delay", "0")
	host, port, err := net.SplitHostPort(primary.Addr)
	must(t, err)
	replica := connect(t, servers.DedicatedRedis(t, "--replicaof", host, port))
	servers.Await(t, "the replica follows", func() bool {
		return strings.Contains(replica.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	sentinels := servers.Sentinels(t, "stint", primary)
	for _, address := range sentinels {
		sentinel := redis.NewSentinelClient(&redis.Options{Addr: address})
		t.Cleanup(func() { sentinel.Close() })
		servers.Await(t, "the Sentinels know the replica and each other", func() bool {
			replicas, _ := sentinel.Replicas(t.Context(), "stint").Result()
			others, _ := sentinel.Sentinels(t.Context(), "stint").Result()
			return len(replicas) == 1 && len(others) == 2
		})
	}
	url := "redis+sentinel://" + sentinels[0] + "?master_name=stint&addr=" + sentinels[1] + "&addr=" + sentinels[2]
	p := policy(t, 1, crowdStack...)
	people := gather(t, p, time.Second, 12, openURL(t, url), openURL(t, url))
	people.awaitMore(t, "every key is allowed", 5)
	primary.Kill()
	people.awaitMore(t, "every key is allowed by the replica", 10)
	checkAtMost(t, people.disperse(), p.Rules, 2)
}
