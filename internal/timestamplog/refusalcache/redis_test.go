package refusalcache_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/redisconn"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/internal/timestamplog/refusalcache"
	"github.com/stint-dev/stint/test/logtest"
	"github.com/stint-dev/stint/test/servers"
)

func TestMain(m *testing.M) {
	redisconn.LogTo(slog.New(slog.DiscardHandler))
	servers.Main(m)
}

func open(t *testing.T, server *servers.RedisServer, clock func() time.Time) *redislog.Log {
	t.Helper()
	log, err := redislog.Open(server.URL, redislog.Options{Prefix: server.Prefix, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log
}

// Nodes with caches of their own share a Redis and use its clock. Whether an answer comes from a
// cache or from Redis, no limit may be exceeded, no refusal may be needless, and each refusal
// must say what it waits for.
func TestNodesWithCachesNeverExceedALimitAndNeverRefuseNeedlessly(t *testing.T) {
	server := servers.Redis(t)
	p := policy(t, 1, "20/20ms", "60/100ms", "150/1s", "100000/1h")
	nodes := []*refusalcache.Log{
		refusalcache.New(open(t, server, nil), refusalcache.Options{}),
		refusalcache.New(open(t, server, nil), refusalcache.Options{}),
	}
	var mu sync.Mutex
	var history []logtest.Answered
	fromCache := 0
	var group sync.WaitGroup
	for caller := range 32 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(caller)))
			for range 400 {
				q := timestamplog.RequestOf(p, key, 1)
				if random.IntN(4) == 0 {
					q.Cost = 1 + random.IntN(3)
				}
				q.Detail = random.IntN(2) == 0
				var results [1]timestamplog.Result
				nodes[caller%2].Decide(t.Context(), []timestamplog.Request{q}, results[:])
				mu.Lock()
				history = append(history, logtest.Answered{Cost: q.Cost, Result: results[0]})
				if results[0].FromCache {
					fromCache++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	logtest.CheckHistory(t, p.Rules, history)
	if fromCache == 0 {
		t.Error("no answer came from the cache, so the cache was not tested")
	}
}

// The nodes' own clocks do not advance, so a cached refusal never ends by itself: only
// the message of the reset can make the second node ask again.
func TestResetOnOneNodeReachesTheOthers(t *testing.T) {
	server := servers.Redis(t)
	still := time.Now()
	stopped := refusalcache.Options{Now: func() time.Time { return still }}
	p := policy(t, 1, "1/1h")
	here, there := open(t, server, nil), open(t, server, nil)
	one, other := refusalcache.New(here, stopped), refusalcache.New(there, stopped)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	subscribed := make(chan struct{}, 10)
	watching.Go(func() {
		there.WatchResets(ctx, other.Forget, func() { other.ForgetAll(); subscribed <- struct{}{} })
	})
	<-subscribed
	if r := ask(t, one, p, 1); !r.Allowed {
		t.Fatalf("got %+v, want it allowed", r)
	}
	ask(t, other, p, 1)
	if r := ask(t, other, p, 1); r.Allowed || !r.FromCache {
		t.Fatalf("got %+v, want it refused from the cache", r)
	}
	if existed, err := one.Reset(t.Context(), timestamplog.LogIDOf(p, key)); err != nil || !existed {
		t.Fatalf("Reset() = %v, %v", existed, err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if ask(t, other, p, 1).Allowed {
			return
		}
	}
	t.Error("the other node still refuses from its cache after a reset")
}

func TestCachedRefusalHasTheStatesThatRedisWouldReturn(t *testing.T) {
	server := servers.Redis(t)
	clock := logtest.NewClock()
	p := policy(t, 1, "1/1s", "2/1m", "9/1h")
	direct := open(t, server, clock.Now)
	log := refusalcache.New(direct, refusalcache.Options{Now: clock.Now})
	detail := func(l timestamplog.Log) timestamplog.Result {
		q := timestamplog.RequestOf(p, key, 1)
		q.Detail = true
		var results [1]timestamplog.Result
		l.Decide(t.Context(), []timestamplog.Request{q}, results[:])
		return results[0]
	}
	detail(log)
	clock.Advance(30 * time.Second)
	detail(log)
	cached := 0
	for range 100 { // past the end of 1/1s and of MaxAge
		clock.Advance(29 * time.Millisecond)
		got, want := detail(log), detail(direct)
		if got.FromCache {
			cached++
		}
		if got.Now != want.Now || got.RetryAt != want.RetryAt || got.Rule != want.Rule || !equal(got.States, want.States) {
			t.Fatalf("at %d:\n got %+v\nwant %+v", clock.NowMS(), got, want)
		}
	}
	if cached < 50 {
		t.Errorf("only %d of 100 answers came from the cache", cached)
	}
}

func equal(a, b []timestamplog.RuleState) bool {
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

func policy(t *testing.T, id int64, stack ...string) *rules.Policy {
	t.Helper()
	parsed, err := rules.ParseStack(stack)
	if err != nil {
		t.Fatal(err)
	}
	return &rules.Policy{ID: id, Version: 1, Generation: 1, Rules: parsed, Mode: rules.Enforce, Algorithm: algorithms.TimestampLog}
}

const key = "ip:203.0.113.7"

func ask(t *testing.T, log timestamplog.Log, p *rules.Policy, cost int) timestamplog.Result {
	t.Helper()
	var results [1]timestamplog.Result
	log.Decide(t.Context(), []timestamplog.Request{timestamplog.RequestOf(p, key, cost)}, results[:])
	if results[0].Err != nil {
		t.Fatal(results[0].Err)
	}
	return results[0]
}

// TestStatesAreCopiedForTheCache sends requests for two keys with the same result, as the
// gate does, which reuses the memory of States.
func TestStatesAreCopiedForTheCache(t *testing.T) {
	server := servers.Redis(t)
	clock := logtest.NewClock()
	log := refusalcache.New(open(t, server, clock.Now), refusalcache.Options{Now: clock.Now})
	requests := []timestamplog.Request{
		timestamplog.RequestOf(policy(t, 1, "1/5s", "100/1h"), key, 1),
		timestamplog.RequestOf(policy(t, 2, "1/5s", "50/1h"), key, 1),
	}
	results, cached := make([]timestamplog.Result, 1), 0
	for range 8 {
		for _, q := range requests {
			q.Detail = true
			log.Decide(t.Context(), []timestamplog.Request{q}, results)
			r := results[0]
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			if r.FromCache {
				cached++
			}
			if !r.Allowed && (len(r.States) != 2 || r.States[0].RetryAfterMS != r.RetryAt-r.Now || r.States[1].Remaining != q.Rules[1].Limit-1 || r.States[1].RetryAfterMS != 0) {
				t.Errorf("the wait is %d, the states are %+v", r.RetryAt-r.Now, r.States)
			}
		}
		clock.Advance(150 * time.Millisecond)
	}
	if cached < 4 {
		t.Errorf("%d of the answers came from the cache, want at least 4", cached)
	}
}
