package redislog

import (
	"context"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// However failures and successes overlap, each outage is reported once when it begins
// and once when it ends, in this order, and none is left behind.
func TestOutagesAreReportedInOrder(t *testing.T) {
	var events []timestamplog.OutageEvent
	var l *Log
	l = New(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), Options{OnOutage: func(e timestamplog.OutageEvent) {
		l.Outages() // must not block
		events = append(events, e)
	}})
	t.Cleanup(func() { l.Close() })
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 500 {
				for range failureThreshold {
					l.outages.failed(l.single, unreachable(context.DeadlineExceeded), 1)
				}
				l.outages.succeeded(l.single)
			}
		})
	}
	group.Wait()
	l.outages.succeeded(l.single)
	if away := l.Outages(); len(away) > 0 {
		t.Errorf("the outages are %+v", away)
	}
	if len(events) < 2 || len(events)%2 != 0 {
		t.Fatalf("it was called %d times", len(events))
	}
	for i, e := range events {
		if ends := i%2 == 1; e.Ended.IsZero() == ends || ends && !e.Since.Equal(events[i-1].Since) || e.Server != "127.0.0.1:1" {
			t.Fatalf("the event %d is %+v", i, e)
		}
	}
}
