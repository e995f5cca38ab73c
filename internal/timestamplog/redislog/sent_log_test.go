package redislog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/logtest"
	"github.com/stint-dev/stint/test/servers"
)

// Redis computes the states of requests that are decided as one. If a request is decided alone,
// Redis sends a short log instead. Both must lead to the same states, for logs of only recent
// entries, for logs with blocks, also after the oldest block was reused, and for logs that are
// too long to be sent.
func TestSentLogGivesTheSameStatesAsRedis(t *testing.T) {
	server := servers.Redis(t)
	clock := logtest.NewClock()
	log := open(t, server, redislog.Options{Clock: clock.Now, Timeout: time.Minute})
	written := func(q timestamplog.Request) timestamplog.Result {
		t.Helper()
		q.Peek = true
		results := make([]timestamplog.Result, 1)
		if err := log.DecideAll(t.Context(), []timestamplog.Request{q}, results); err != nil || results[0].Err != nil {
			t.Fatal(err, results[0].Err)
		}
		return results[0]
	}
	for id, stack := range [][]string{
		{"1/s"},
		{"3/s", "9/10s", "30/m"},
		{"2/s", "1/2s", "100/m"}, // the second rule is the stricter one
		{"50/10s", "90/m", "150/10m"},
		{"300/m", "320/2m", "0/1h"},
		{"20/s", "200/m", "1000/h"},
		{"8/s", "220/m"}, // its blocks are reused
		{"400/m", "700/1h"},
	} {
		p := policy(t, int64(id)+1, stack...)
		t.Run(fmt.Sprint(p.Rules), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(id), 2))
			refused := 0
			for range 1500 {
				clock.Advance(time.Duration(random.IntN(1+random.IntN(1200))) * time.Millisecond)
				q := timestamplog.RequestOf(p, "ip:192.0.2.7", 1+random.IntN(3)*random.IntN(2))
				q.Detail, q.Peek = true, random.IntN(4) == 0
				if slices.Contains(stack, "0/1h") {
					q.ChargeAlways = !q.Peek && random.IntN(2) == 0 // otherwise nothing would be logged
				}
				results := make([]timestamplog.Result, 1)
				log.Decide(t.Context(), []timestamplog.Request{q}, results)
				got := results[0]
				if got.Err != nil {
					t.Fatal(got.Err)
				}
				want := written(q)
				if !reflect.DeepEqual(got.States, want.States) {
					t.Fatalf("%+v:\n got %+v\nwant %+v", q, got.States, want.States)
				}
				if !got.Allowed && !q.Peek && !q.ChargeAlways {
					refused++
					holdsUntil(t, clock, got, func() []timestamplog.RuleState { return written(q).States })
				}
			}
			if refused == 0 {
				t.Error("nothing was refused")
			}
		})
	}
}

// The function library sends a long reply in parts. Each request must have the answer that it has
// in a call of its own, also where a part ends with an answer and the states are in the next one,
// and around a request that fails alone.
func TestEachRequestOfALongReplyGetsItsOwnAnswer(t *testing.T) {
	server := servers.Redis(t)
	clock := logtest.NewClock()
	log := open(t, server, redislog.Options{Clock: clock.Now, Timeout: time.Minute})
	p := policy(t, 1, "40/1h", "90/1d")
	key := func(i int) string { return fmt.Sprintf("ip:192.0.2.%d", i) }
	// One key holds something that is not a log.
	const foreign = 70
	name := redislog.LogName(server.Prefix, redislog.ShardOf(key(foreign)), timestamplog.LogIDOf(p, key(foreign)))
	if err := connect(t, server).RPush(t.Context(), name, "x").Err(); err != nil {
		t.Fatal(err)
	}
	requests := make([]timestamplog.Request, redislog.MaxBatch)
	for i := range requests {
		for range i % 3 {
			clock.Advance(time.Second)
			results := make([]timestamplog.Result, 1)
			log.Decide(t.Context(), []timestamplog.Request{timestamplog.RequestOf(p, key(i), 1+i%40)}, results)
		}
		requests[i] = timestamplog.RequestOf(p, key(i), 1)
		requests[i].Detail, requests[i].Peek = true, true
	}
	together := make([]timestamplog.Result, len(requests))
	log.Decide(t.Context(), requests, together)
	for i, q := range requests {
		alone := make([]timestamplog.Result, 1)
		log.Decide(t.Context(), []timestamplog.Request{q}, alone)
		if i == foreign {
			if !errors.Is(together[i].Err, timestamplog.ErrForeign) {
				t.Errorf("the key that holds something else: %v", together[i].Err)
			}
			continue
		}
		if !reflect.DeepEqual(together[i], alone[0]) {
			t.Errorf("request %d:\n got %+v\nwant %+v", i, together[i], alone[0])
		}
	}
}

// A log from a stack with shorter windows expires before its entries leave the windows of a stack
// with longer ones.
func TestStatesAreValidUntilAnEarlyExpiryOfTheLog(t *testing.T) {
	server := servers.Redis(t)
	clock := logtest.NewClock()
	log := open(t, server, redislog.Options{Clock: clock.Now, Timeout: time.Minute})
	short, long := policy(t, 1, "3/m"), policy(t, 1, "2/1h")
	long.Version = 2
	for range 3 {
		if r := ask(t.Context(), log, short, address, 1); !r.Allowed {
			t.Fatalf("got %+v", r)
		}
	}
	clock.Advance(10 * time.Second)
	q := timestamplog.RequestOf(long, address, 1)
	q.Detail = true
	results := make([]timestamplog.Result, 1)
	log.Decide(t.Context(), []timestamplog.Request{q}, results)
	if r := results[0]; r.Allowed || r.StatesValidUntil != r.Now+50_000 || r.RefusalValidUntil != r.StatesValidUntil {
		t.Errorf("got %+v, want a refusal and states that are valid for 50 s", r)
	}
}

// holdsUntil fails the test unless the states of a refusal stay the same until StatesValidUntil,
// except that waits run down.
func holdsUntil(t *testing.T, clock *logtest.Clock, r timestamplog.Result, states func() []timestamplog.RuleState) {
	t.Helper()
	now := clock.NowMS()
	passed := r.StatesValidUntil - 1 - now
	if passed < 0 {
		t.Fatalf("states of %d are valid until %d", now, r.StatesValidUntil)
	}
	clock.Set(now + passed)
	for i, later := range states() {
		want := r.States[i]
		if want.RetryAfterMS != 0 && want.RetryAfterMS != timestamplog.Never {
			want.RetryAfterMS -= passed
		}
		want.ResetAfterMS = max(0, want.ResetAfterMS-passed)
		if later != want {
			t.Fatalf("%d ms later, at the end of what was said to hold, rule %d has %+v, want %+v", passed, i, later, want)
		}
	}
	clock.Set(now)
}
