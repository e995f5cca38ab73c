package redislog_test

import (
	"context"
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

// outageEvents records the outage events of a log.
type outageEvents struct {
	mu  sync.Mutex
	all []timestamplog.OutageEvent
}

func (o *outageEvents) add(e timestamplog.OutageEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, e)
}

func (o *outageEvents) list() []timestamplog.OutageEvent {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.all)
}

// await waits for that many events, and returns all events.
func (o *outageEvents) await(t *testing.T, count int) []timestamplog.OutageEvent {
	t.Helper()
	servers.Await(t, "the outage is reported", func() bool { return len(o.list()) >= count })
	return o.list()
}

// isAddr reports whether name is the address of server. A server that is a Cluster of its own
// does not know its host.
func isAddr(server *servers.RedisServer, name string) bool {
	return name != "" && strings.HasSuffix(server.Addr, name)
}

// failing makes a request that fails because no answer arrives in time.
func failing(t *testing.T, log *redislog.Log, p *rules.Policy, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	wantOutage(t, ask(ctx, log, p, key, 1).Err)
}

// openWaiting opens a log whose requests wait until their callers give up.
func openWaiting(t *testing.T, server *servers.RedisServer, events *outageEvents) *redislog.Log {
	t.Helper()
	return open(t, server, redislog.Options{Timeout: time.Hour, OnOutage: events.add})
}

func TestOutageAfterThreeFailuresEndsAllWaiting(t *testing.T) {
	everywhere(t, func(t *testing.T, server *servers.RedisServer) {
		var events outageEvents
		log, p := openWaiting(t, server, &events), policy(t, 1, "1000/h")
		servers.Await(t, "a fresh Redis answers", func() bool { return answers(log, p) })
		server.Stop()
		for range redislog.FailureThreshold {
			if away := log.Outages(); len(away) > 0 {
				t.Fatalf("too early: %+v", away)
			}
			failing(t, log, p, address)
		}
		if got := events.await(t, 1); len(got) != 1 || !got[0].Ended.IsZero() || !isAddr(server, got[0].Server) || got[0].Reason != "no answer in time" {
			t.Fatalf("at the beginning the events are %+v", got)
		}
		const others = 50
		for range others { // without a deadline of their own
			wantOutage(t, ask(t.Context(), log, p, address, 1).Err)
		}
		requests := []timestamplog.Request{timestamplog.RequestOf(p, address, 1)}
		wantOutage(t, log.DecideAll(t.Context(), requests, make([]timestamplog.Result, 1)))
		away := log.Outages()
		if len(away) != 1 || !isAddr(server, away[0].Server) || away[0].Requests != redislog.FailureThreshold+others+1 {
			t.Errorf("the outages are %+v", away)
		}
		server.Continue()
		servers.Await(t, "the outage is over", func() bool { return len(log.Outages()) == 0 })
		if r := ask(t.Context(), log, p, address, 1); r.Err != nil {
			t.Errorf("the first request after the outage: %v", r.Err)
		}
		got := events.await(t, 2)
		if len(got) != 2 || got[1].Ended.Before(got[1].Since) || got[1].Requests != away[0].Requests {
			t.Errorf("at the end the events are %+v", got)
		}
	})
}

func TestCancelledCallersBeginNoOutage(t *testing.T) {
	server := servers.DedicatedRedis(t)
	var events outageEvents
	proxy := servers.NewProxy(t, server.Addr)
	log, err := redislog.Open("redis://"+proxy.Addr, redislog.Options{Prefix: server.Prefix, Timeout: time.Hour, OnOutage: events.add})
	must(t, err)
	defer log.Close()
	p := policy(t, 1, "1000/h")
	servers.Await(t, "a fresh Redis answers", func() bool { return answers(log, p) })
	server.Stop()
	sent := proxy.Messages()
	var group sync.WaitGroup
	ctx, leave := context.WithCancel(t.Context())
	for range 10 * redislog.FailureThreshold {
		group.Go(func() { wantOutage(t, ask(ctx, log, p, address, 1).Err) })
	}
	servers.Await(t, "some are in flight", func() bool { return proxy.Messages() > sent })
	leave()
	group.Wait()
	if away := log.Outages(); len(away) > 0 || len(events.list()) > 0 {
		t.Errorf("the outages are %+v", away)
	}
}

func TestSuccessBetweenFailuresPreventsAnOutage(t *testing.T) {
	server := servers.DedicatedRedis(t)
	var events outageEvents
	log, p := openWaiting(t, server, &events), policy(t, 1, "1000/h")
	for range redislog.FailureThreshold {
		for range redislog.FailureThreshold - 1 {
			server.Stop()
			failing(t, log, p, address)
			server.Continue()
		}
		if r := ask(t.Context(), log, p, address, 1); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if len(events.list()) > 0 {
		t.Errorf("the outages were %+v", events.list())
	}
}

func TestKeyOfAnotherTypeBeginsNoOutage(t *testing.T) {
	everywhere(t, func(t *testing.T, server *servers.RedisServer) {
		var events outageEvents
		log, p := openWaiting(t, server, &events), policy(t, 1, "1000/h")
		foreign := redislog.LogName(server.Prefix, redislog.ShardOf(address), timestamplog.LogIDOf(p, address))
		must(t, connect(t, server).Set(t.Context(), foreign, "not a log", 0).Err())
		for range 2 * redislog.FailureThreshold {
			wantOutage(t, ask(t.Context(), log, p, address, 1).Err)
		}
		if len(events.list()) > 0 {
			t.Errorf("the outages were %+v", events.list())
		}
	})
}

// A Redis that answers everything except writes is unreachable until it can decide again, and no
// longer.
func TestOutageLastsWhileRedisAnswersWithoutDeciding(t *testing.T) {
	for name, set := range map[string][2]string{"full": {"maxmemory", "0"}, "without replicas": {"min-replicas-to-write", "0"}} {
		t.Run(name, func(t *testing.T) {
			server := servers.DedicatedRedis(t)
			var events outageEvents
			log, p := openWaiting(t, server, &events), policy(t, 1, "1000/h")
			servers.Await(t, "a fresh Redis answers", func() bool { return answers(log, p) })
			admin := connect(t, server)
			must(t, admin.ConfigSet(t.Context(), set[0], "1").Err())
			for range redislog.FailureThreshold {
				wantOutage(t, ask(t.Context(), log, p, address, 1).Err)
			}
			calls := func() int64 { return callsOf(t, admin) }
			for before := calls(); calls() < before+3; time.Sleep(time.Millisecond) { // wait for probes; there are no requests
				if t.Context().Err() != nil {
					t.Fatal("it is not tried again")
				}
			}
			if got := events.list(); len(got) != 1 {
				t.Errorf("while it cannot decide the events are %+v", got)
			}
			must(t, admin.ConfigSet(t.Context(), set[0], set[1]).Err())
			servers.Await(t, "the outage is over", func() bool { return len(log.Outages()) == 0 })
			if got := events.await(t, 2); len(got) != 2 || got[1].Ended.IsZero() {
				t.Errorf("in all the events are %+v", got)
			}
		})
	}
}

// callsOf returns how many function calls a server has refused or executed.
func callsOf(t *testing.T, admin redis.UniversalClient) int64 {
	t.Helper()
	info, err := admin.Info(t.Context(), "commandstats").Result()
	must(t, err)
	var count int64
	for line := range strings.Lines(info) {
		if numbers, found := strings.CutPrefix(line, "cmdstat_fcall:"); found {
			for _, field := range strings.Split(strings.TrimSpace(numbers), ",") {
				name, value, _ := strings.Cut(field, "=")
				if n, err := strconv.ParseInt(value, 10, 64); err == nil && (name == "calls" || name == "rejected_calls") {
					count += n
				}
			}
		}
	}
	return count
}
