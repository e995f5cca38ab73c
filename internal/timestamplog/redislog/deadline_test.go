package redislog_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/servers"
)

// requestForms are the ways to send one request, by the function that decides it.
var requestForms = map[string]func(q *timestamplog.Request){
	"plain":                func(*timestamplog.Request) {},
	"with an ID":           func(q *timestamplog.Request) { q.ID = "a" },
	"with its reservation": func(q *timestamplog.Request) { q.ID, q.MaxWait = "b", 1000 },
}

// When a stalled Redis continues, it must not charge requests whose callers gave up long ago:
// their entries would leave the window late.
func TestCallsExecutedAfterTheirDeadlineChargeNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, server *servers.RedisServer) {
		log, p := openWaiting(t, server, new(outageEvents)), policy(t, 1, "100/h")
		for name, form := range requestForms {
			t.Run(name, func(t *testing.T) {
				servers.Await(t, "a Redis that goes on answers", func() bool { return answers(log, p) })
				server.Stop()
				q := timestamplog.RequestOf(p, "token:late-"+name, 1)
				form(&q)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
				defer cancel()
				results := make([]timestamplog.Result, 1)
				log.Decide(ctx, []timestamplog.Request{q}, results)
				wantOutage(t, results[0].Err)
				server.Continue()
				servers.Await(t, "a continued Redis answers", func() bool { return answers(log, p) })
				if got := entries(t, log, p, q.Key); got != 0 {
					t.Errorf("the log has %d entries of a request that nobody waited for", got)
				}
			})
		}
	})
}

func TestDecideAllAfterItsDeadlineChargesNothing(t *testing.T) {
	server := servers.DedicatedRedis(t)
	log, p := openWaiting(t, server, new(outageEvents)), policy(t, 1, "100/h")
	servers.Await(t, "a fresh Redis answers", func() bool { return answers(log, p) })
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	requests := []timestamplog.Request{timestamplog.RequestOf(p, "token:0", 1), timestamplog.RequestOf(p, "token:1", 1)}
	wantOutage(t, log.DecideAll(ctx, requests, make([]timestamplog.Result, 2)))
	server.Continue()
	servers.Await(t, "a continued Redis answers", func() bool { return answers(log, p) })
	for _, q := range requests {
		if got := entries(t, log, p, q.Key); got != 0 {
			t.Errorf("the log of %s has %d entries of a request that nobody waited for", q.Key, got)
		}
	}
}

// Requests of callers who still wait must not be refused because other callers in the same call
// gave up.
func TestWaitingCallersOfALateCallAreAnswered(t *testing.T) {
	everywhere(t, func(t *testing.T, server *servers.RedisServer) {
		log, p := openWaiting(t, server, new(outageEvents)), policy(t, 1, "100/h")
		servers.Await(t, "a fresh Redis answers", func() bool { return answers(log, p) })
		server.Stop()
		var group, given sync.WaitGroup
		wait := func(i int) {
			group.Go(func() {
				if r := ask(t.Context(), log, p, fmt.Sprint("token:waits-", i), 1); !r.Allowed {
					t.Errorf("a caller who still waits got %+v", r)
				}
			})
		}
		// On a busy machine, calls with only callers that give up would begin an outage before
		// any other caller waits.
		wait(-1)
		servers.Await(t, "a call with a caller who waits is in flight", func() bool { return log.InFlight(address) > 0 })
		for i := range 30 {
			wait(i)
			given.Go(func() {
				// Late enough for all to have sent their requests: three callers that give up
				// begin an outage.
				ctx, cancel := context.WithTimeout(t.Context(), time.Second+time.Duration(5*i)*time.Millisecond)
				defer cancel()
				_ = ask(ctx, log, p, fmt.Sprint("token:gone-", i), 1)
			})
		}
		given.Wait()
		server.Continue()
		servers.Await(t, "a continued Redis answers", func() bool { return answers(log, p) })
		group.Wait()
		for i := range 30 {
			if got := entries(t, log, p, fmt.Sprint("token:waits-", i)); got > 1 {
				t.Errorf("a request was charged %d times", got)
			}
			if got := entries(t, log, p, fmt.Sprint("token:gone-", i)); got != 0 {
				t.Errorf("a request that nobody waited for was charged %d times", got)
			}
		}
	})
}

// If the clock of a Redis was set, or another Redis has taken over, that costs one additional
// call.
func TestClockThatWasSetFailsNoRequest(t *testing.T) {
	everywhere(t, func(t *testing.T, server *servers.RedisServer) {
		log, p := open(t, server, redislog.Options{}), policy(t, 1, "1000/h")
		servers.Await(t, "a fresh Redis answers", func() bool { return answers(log, p) })
		for _, behind := range []time.Duration{time.Hour, -time.Hour} {
			for name, form := range requestForms {
				log.ForgetTime(behind)
				q := timestamplog.RequestOf(p, "token:"+name+behind.String(), 1)
				form(&q)
				results := make([]timestamplog.Result, 1)
				log.Decide(t.Context(), []timestamplog.Request{q}, results)
				if !results[0].Allowed {
					t.Errorf("%s, behind by %s: got %+v", name, behind, results[0])
				}
				if got := entries(t, log, p, q.Key); got != 1 {
					t.Errorf("%s, behind by %s: %d entries", name, behind, got)
				}
			}
			log.ForgetTime(behind)
			results := make([]timestamplog.Result, 1)
			must(t, log.DecideAll(t.Context(), []timestamplog.Request{timestamplog.RequestOf(p, "token:all", 1)}, results))
		}
	})
}
