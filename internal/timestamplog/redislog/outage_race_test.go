package redislog

import (
	"context"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// However failures and successes overlap, each outage is told once when it begins
// and once when it ends, in this order, and none is left behind.
func TestOutagesThatComeAndGoAreToldInOrder(t *testing.T) {
	var told []timestamplog.OutageEvent
	var l *Log
	l = New(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), Options{OnOutage: func(e timestamplog.OutageEvent) {
		l.Outages() // may be asked meanwhile
		told = append(told, e)
	}})
	t.Cleanup(func() { l.Close() })
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 500 {
				for range failureThreshold {
					l.failed(l.single, unreachable(context.DeadlineExceeded), 1)
				}
				l.succeeded(l.single)
			}
		})
	}
	group.Wait()
	l.succeeded(l.single)
	if away := l.Outages(); len(away) > 0 {
		t.Errorf("the outages are %+v", away)
	}
	if len(told) < 2 || len(told)%2 != 0 {
		t.Fatalf("it was told %d times", len(told))
	}
	for i, e := range told {
		if ends := i%2 == 1; e.Ended.IsZero() == ends || ends && !e.Since.Equal(told[i-1].Since) || e.Server != "127.0.0.1:1" {
			t.Fatalf("the event %d is %+v", i, e)
		}
	}
}
