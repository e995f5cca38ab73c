package redislog_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/servers"
)

const address = "ip:203.0.113.7"

func TestKilledRedisIsAnOutageUntilItIsBack(t *testing.T) {
	// With the default, everysec, Redis may answer before it has written if the disk is slow.
	server := servers.DedicatedRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	log, p := open(t, server, redislog.Options{}), policy(t, 1, "2/h")
	if r := ask(t.Context(), log, p, address, 1); !r.Allowed {
		t.Fatalf("got %+v, want it allowed", r)
	}
	server.Kill()
	wantOutage(t, ask(t.Context(), log, p, address, 1).Err)
	_, _, err := log.Timestamps(t.Context(), timestamplog.LogIDOf(p, address), 1)
	wantOutage(t, err)
	_, err = log.Reset(t.Context(), timestamplog.LogIDOf(p, address))
	wantOutage(t, err)
	_, err = log.Now(t.Context())
	wantOutage(t, err)
	_, err = log.Health(t.Context())
	wantOutage(t, err)

	server.Restart(false)
	servers.Await(t, "a restarted Redis answers", func() bool { return answers(log, p) })
	if got := entries(t, log, p, address); got != 1 {
		t.Errorf("the log has %d entries after the restart, want the 1 it had", got)
	}
}

func TestRedisRestartedEmptyHasNoLogsAndDecides(t *testing.T) {
	server := servers.DedicatedRedis(t)
	log, p := open(t, server, redislog.Options{}), policy(t, 1, "3/h")
	ask(t.Context(), log, p, address, 3)
	server.Restart(true)
	servers.Await(t, "a Redis without the functions answers", func() bool { return answers(log, p) })
	allowed := 0
	for range 10 {
		if r := ask(t.Context(), log, p, address, 1); r.Allowed {
			allowed++
		}
	}
	if allowed != 3 {
		t.Errorf("%d requests were allowed after the loss, want the limit of 3 once more", allowed)
	}
}

// A stopped Redis accepts connections but reads nothing. What was sent to it is executed when it
// continues, although the callers have given up.
func TestStoppedRedisChargesNoRequestTwice(t *testing.T) {
	t.Run("plain requests", func(t *testing.T) { stoppedRedisChargesNoRequestTwice(t, "") })
	t.Run("requests with an ID", func(t *testing.T) { stoppedRedisChargesNoRequestTwice(t, "a") })
}

func stoppedRedisChargesNoRequestTwice(t *testing.T, id string) {
	server := servers.DedicatedRedis(t)
	log, p := open(t, server, redislog.Options{}), policy(t, 1, "100/h")
	servers.Await(t, "a fresh Redis answers", func() bool { return answers(log, p) })
	server.Stop()
	const callers = 400 // more than two calls can hold, and at most two calls are in flight
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			q := timestamplog.RequestOf(p, fmt.Sprintf("token:%d", caller), 1)
			q.ID = id
			results := make([]timestamplog.Result, 1)
			log.Decide(ctx, []timestamplog.Request{q}, results)
			wantOutage(t, results[0].Err)
		})
	}
	group.Wait()
	server.Continue()
	servers.Await(t, "a continued Redis answers", func() bool { return answers(log, p) })
	charged := 0
	for caller := range callers {
		switch got := entries(t, log, p, fmt.Sprintf("token:%d", caller)); got {
		case 0:
		case 1:
			charged++
		default:
			t.Errorf("one request was logged %d times", got)
		}
	}
	if charged > 256 {
		t.Errorf("%d requests were charged, also such as were given up before they were sent", charged)
	}
}

// underLoad sends requests for one key from many goroutines while disturb runs, and returns how
// many were allowed and how many got no answer.
func underLoad(t *testing.T, log *redislog.Log, requests int, limit string, disturb func(step int)) (allowed, unanswered, logged int) {
	t.Helper()
	p := policy(t, 1, limit)
	const callers = 16
	var yes, lost atomic.Int64
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range requests / callers {
				switch r := ask(t.Context(), log, p, address, 1); {
				case r.Err != nil:
					wantOutage(t, r.Err)
					lost.Add(1)
				case r.Allowed:
					yes.Add(1)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	for step := 0; ; step++ {
		select {
		case <-done:
			return int(yes.Load()), int(lost.Load()), entries(t, log, p, address)
		case <-time.After(time.Millisecond):
			disturb(step)
		}
	}
}

// everywhere runs a test on a standalone server and on a Cluster.
func everywhere(t *testing.T, test func(*testing.T, *servers.RedisServer)) {
	t.Run("a server", func(t *testing.T) { test(t, servers.DedicatedRedis(t)) })
	t.Run("a cluster", func(t *testing.T) { test(t, servers.ClusterOfOne(t)) })
}

func TestFunctionsFlushedUnderLoadChangeNoAnswer(t *testing.T) {
	everywhere(t, functionsFlushedUnderLoadChangeNoAnswer)
}

func functionsFlushedUnderLoadChangeNoAnswer(t *testing.T, server *servers.RedisServer) {
	admin := connect(t, server)
	log := open(t, server, redislog.Options{})
	allowed, unanswered, logged := underLoad(t, log, 16*200, "1000/h", func(int) {
		if err := admin.FunctionFlush(t.Context()).Err(); err != nil {
			t.Error(err)
		}
	})
	if logged != 1000 || allowed > 1000 || allowed+unanswered < 1000 {
		t.Errorf("%d allowed, %d unanswered, %d logged, want 1000 logged and as many allowed", allowed, unanswered, logged)
	}
}

func TestConnectionsCutUnderLoadChargeNoRequestTwice(t *testing.T) {
	everywhere(t, connectionsCutUnderLoadChargeNoRequestTwice)
}

func connectionsCutUnderLoadChargeNoRequestTwice(t *testing.T, server *servers.RedisServer) {
	admin := connect(t, server)
	log := open(t, server, redislog.Options{})
	allowed, unanswered, logged := underLoad(t, log, 16*200, "100000/h", func(step int) {
		if err := admin.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err(); err != nil {
			t.Error(err)
		}
	})
	if logged < allowed || logged > allowed+unanswered {
		t.Errorf("%d allowed and %d unanswered made %d entries", allowed, unanswered, logged)
	}
	if allowed+unanswered != 16*200 {
		t.Errorf("%d of %d requests had an end", allowed+unanswered, 16*200)
	}
}

func TestFullRedisIsAnOutage(t *testing.T) {
	server := servers.DedicatedRedis(t)
	log, p := open(t, server, redislog.Options{}), policy(t, 1, "5/h")
	if r := ask(t.Context(), log, p, address, 1); !r.Allowed {
		t.Fatalf("got %+v, want it allowed", r)
	}
	admin := connect(t, server)
	if err := admin.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	wantOutage(t, ask(t.Context(), log, p, address, 1).Err)
	if got := entries(t, log, p, address); got != 1 {
		t.Errorf("the log has %d entries, want the 1 that was allowed", got)
	}
}

func TestReplicaIsAnOutage(t *testing.T) {
	server := servers.DedicatedRedis(t)
	log, p := open(t, server, redislog.Options{}), policy(t, 1, "5/h")
	servers.Await(t, "a fresh Redis answers", func() bool { return answers(log, p) })
	admin := connect(t, server)
	if err := admin.SlaveOf(t.Context(), "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	wantOutage(t, ask(t.Context(), log, p, address, 1).Err)
	if err := admin.SlaveOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	servers.Await(t, "a promoted replica answers", func() bool { return answers(log, p) })
}

// A server that answers but does not decide must not end an outage.
func TestForeignAnswerEndsNoOutage(t *testing.T) {
	server := servers.Redis(t)
	proxy := servers.NewProxy(t, server.Addr)
	var ended atomic.Int32
	log, err := redislog.Open("redis://"+proxy.Addr, redislog.Options{
		Prefix: server.Prefix, Timeout: time.Second,
		OnOutage: func(e timestamplog.OutageEvent) {
			if !e.Ended.IsZero() {
				ended.Add(1)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := policy(t, 1, "5/h")
	if r := ask(t.Context(), log, p, "a", 1); r.Err != nil {
		t.Fatal(r.Err)
	}
	proxy.Answer(":1\r\n")
	for range 3 {
		if r := ask(t.Context(), log, p, "a", 1); r.Err == nil {
			t.Fatal("it was taken for a decision")
		}
	}
	if len(log.Outages()) != 1 {
		t.Fatal("no outage has begun")
	}
	asked := proxy.Messages()
	servers.Await(t, "the server is tried again", func() bool { return proxy.Messages() >= asked+6 }) // a probe is at most two pieces
	if ended.Load() != 0 {
		t.Error("the outage ended though nothing decides")
	}
	proxy.Relay()
	servers.Await(t, "the outage ends", func() bool { return len(log.Outages()) == 0 })
}
