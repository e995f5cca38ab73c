package redislog_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/servers"
)

// requestVariants are the ways in which a request about a log may be asked.
var requestVariants = map[string]func(q *timestamplog.Request){
	"plain":      func(*timestamplog.Request) {},
	"detailed":   func(q *timestamplog.Request) { q.Detail = true },
	"waiting":    func(q *timestamplog.Request) { q.MaxWait = 1000 },
	"with an id": func(q *timestamplog.Request) { q.ID = "an id" },
}

// wantForeign fails the test unless requests about the log of address under p are answered with
// ErrForeign, however they are asked, and those beside them as if they came alone.
func wantForeign(t *testing.T, log *redislog.Log, p *rules.Policy, ways ...string) {
	t.Helper()
	for _, way := range ways {
		for range 2 * redislog.FailureThreshold {
			requests := []timestamplog.Request{
				timestamplog.RequestOf(p, "token:before", 1), timestamplog.RequestOf(p, address, 1), timestamplog.RequestOf(p, "token:after", 1),
			}
			requestVariants[way](&requests[1])
			results := make([]timestamplog.Result, len(requests))
			log.Decide(t.Context(), requests, results)
			if results[0].Err != nil || results[2].Err != nil {
				t.Fatalf("%s: its neighbours got %v and %v", way, results[0].Err, results[2].Err)
			}
			if err := results[1].Err; !errors.Is(err, timestamplog.ErrForeign) || !errors.Is(err, timestamplog.ErrUnreachable) {
				t.Fatalf("%s: the error is %v, want one that matches ErrForeign", way, err)
			}
		}
		requests := []timestamplog.Request{timestamplog.RequestOf(p, address, 1), timestamplog.RequestOf(p, "token:beside", 1)}
		requestVariants[way](&requests[0])
		if err := log.DecideAll(t.Context(), requests, make([]timestamplog.Result, len(requests))); !errors.Is(err, timestamplog.ErrForeign) {
			t.Errorf("%s, together: the error is %v, want one that matches ErrForeign", way, err)
		}
		if n := entries(t, log, p, "token:beside"); n > 0 {
			t.Errorf("%s, together: %d were charged", way, n)
		}
	}
}

// What another program wrote over a log makes the function library fail in as many ways as
// there are contents. None of them is an outage.
func TestForeignContentOfAKeyFailsOnlyItsOwnRequests(t *testing.T) {
	all := slices.Collect(func(yield func(string) bool) {
		for way := range requestVariants {
			if !yield(way) {
				return
			}
		}
	})
	write := func(text string) func(*testing.T, redis.UniversalClient, string) {
		return func(t *testing.T, c redis.UniversalClient, name string) {
			must(t, c.Set(t.Context(), name, text, 0).Err())
		}
	}
	kind := func(t *testing.T, c redis.UniversalClient, name string) {
		must(t, c.LPush(t.Context(), name, "a list").Err())
	}
	for _, c := range []struct {
		what      string
		algorithm string
		ways      []string
		spoil     func(t *testing.T, client redis.UniversalClient, name string)
	}{
		{"another kind", "timestamp_log", all, kind},
		{"a text", "timestamp_log", all, write("not a log")},
		{"a text that begins as a log", "timestamp_log", all, write("Session of somebody, who logged in a moment ago")},
		{"a long one", "timestamp_log", all, write("S" + strings.Repeat("\x20", 500))},
		{"a text that begins as a log with reservations", "timestamp_log", all, write("T" + strings.Repeat("ext ", 200))},
		{"a log that was cut", "timestamp_log", all, func(t *testing.T, c redis.UniversalClient, name string) {
			text := c.Get(t.Context(), name).Val()
			must(t, c.Set(t.Context(), name, text[:300], 0).Err())
		}},
		{"ids of another kind", "timestamp_log", []string{"with an id"}, func(t *testing.T, c redis.UniversalClient, name string) {
			kind(t, c, strings.Replace(name, "}:", "}:i", 1))
		}},
		{"another kind", "token_bucket", all, kind},
		{"a text", "token_bucket", all, write("not a state")},
		{"an array of texts", "token_bucket", all, write("\x92\xa1a\xa1b")},
		{"another kind", "sorted_set_log", all, kind},
		{"a set of something else", "sorted_set_log", all, func(t *testing.T, c redis.UniversalClient, name string) {
			must(t, c.Del(t.Context(), name).Err())
			must(t, c.ZAdd(t.Context(), name, redis.Z{Score: 1e300, Member: "something else"}).Err())
		}},
	} {
		t.Run(fmt.Sprintf("%s in place of a %s", c.what, c.algorithm), func(t *testing.T) {
			server := servers.Redis(t)
			var events outageEvents
			log, p := openWaiting(t, server, &events), policy(t, 1, "200/h")
			p.Algorithm = c.algorithm
			if r := ask(t.Context(), log, p, address, 200); !r.Allowed {
				t.Fatalf("the first request got %+v", r)
			}
			client := connect(t, server)
			name := redislog.LogName(server.Prefix, redislog.ShardOf(address), timestamplog.LogIDOf(p, address))
			if c.what == "another kind" {
				must(t, client.Del(t.Context(), name).Err())
			}
			c.spoil(t, client, name)
			wantForeign(t, log, p, c.ways...)
			if len(events.list()) > 0 {
				t.Errorf("the outages were %+v", events.list())
			}
			if _, err := log.Reset(t.Context(), timestamplog.LogIDOf(p, address)); err != nil {
				t.Fatal(err)
			}
			if r := ask(t.Context(), log, p, address, 200); !r.Allowed {
				t.Errorf("after a reset it is answered %+v", r)
			}
		})
	}
}
