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

// hurried returns requests for one key that are sent with ask by a caller that waits for only a
// few milliseconds.
func hurried(t *testing.T, requests int, ask func(context.Context, []timestamplog.Request) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	p := policy(t, 1, "1000/h")
	all := make([]timestamplog.Request, requests)
	for i := range all {
		all[i] = timestamplog.RequestOf(p, fmt.Sprintf("token:%d", i), 1)
	}
	return ask(ctx, all)
}

// waysToAsk are the calls of a log that have callers with deadlines.
func waysToAsk(log *redislog.Log) map[string]func(context.Context, []timestamplog.Request) error {
	return map[string]func(context.Context, []timestamplog.Request) error{
		"each": func(ctx context.Context, requests []timestamplog.Request) error {
			results := make([]timestamplog.Result, len(requests))
			log.Decide(ctx, requests, results)
			return results[0].Err
		},
		"with an ID": func(ctx context.Context, requests []timestamplog.Request) error {
			requests[0].ID = "a"
			results := make([]timestamplog.Result, len(requests))
			log.Decide(ctx, requests, results)
			return results[0].Err
		},
		"all or none": func(ctx context.Context, requests []timestamplog.Request) error {
			return log.DecideAll(ctx, requests[:1], make([]timestamplog.Result, 1))
		},
	}
}

func TestShortDeadlinesBeginNoOutageOfASlowRedis(t *testing.T) {
	everywhere(t, func(t *testing.T, server *servers.RedisServer) {
		var events outageEvents
		log := open(t, server, redislog.Options{Timeout: time.Hour, MaxLatency: time.Minute, OnOutage: events.add})
		p := policy(t, 2, "1000/h")
		servers.Await(t, "a fresh Redis answers", func() bool { return answers(log, p) })
		for name, way := range waysToAsk(log) {
			server.Stop()
			var group sync.WaitGroup
			for range 10 * redislog.FailureThreshold {
				group.Go(func() { wantOutage(t, hurried(t, 2, way)) })
			}
			group.Wait()
			answered := make(chan error, 1)
			go func() { answered <- ask(t.Context(), log, p, address, 1).Err }()
			server.Continue()
			if err := <-answered; err != nil {
				t.Errorf("%s: another caller: %v", name, err)
			}
		}
		if away := log.Outages(); len(away) > 0 || len(events.list()) > 0 {
			t.Errorf("the outages are %+v, the events %+v", away, events.list())
		}
	})
}

func TestShortDeadlinesBeginAnOutageOfARedisThatHangs(t *testing.T) {
	everywhere(t, func(t *testing.T, server *servers.RedisServer) {
		for _, name := range []string{"each", "with an ID", "all or none"} {
			t.Run(name, func(t *testing.T) {
				log := open(t, server, redislog.Options{MaxLatency: 100 * time.Millisecond})
				p := policy(t, 2, "1000/h")
				servers.Await(t, "Redis answers", func() bool { return answers(log, p) })
				server.Stop()
				servers.Await(t, "an outage begins", func() bool {
					wantOutage(t, hurried(t, 2, waysToAsk(log)[name]))
					return len(log.Outages()) > 0
				})
				server.Continue()
				servers.Await(t, "the outage ends", func() bool { return len(log.Outages()) == 0 })
			})
		}
	})
}
