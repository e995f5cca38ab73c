package redislog

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// However failures and successes overlap, the beginning and the end of each outage are reported
// once, in this order, and no outage remains.
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

// endedContext has a deadline that passes when the test says so.
type endedContext struct {
	context.Context
	passed chan struct{}
}

func (c endedContext) Done() <-chan struct{} { return c.passed }
func (c endedContext) Err() error {
	select {
	case <-c.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestPartlyAnsweredGroupBeginsNoOutage(t *testing.T) {
	for name, answered := range map[string]int{"in part": 2, "not at all": 0} {
		t.Run(name, func(t *testing.T) {
			l := New(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), Options{})
			t.Cleanup(func() { l.Close() })
			for range failureThreshold {
				ctx, calls, resume := endedContext{t.Context(), make(chan struct{})}, 0, make(chan struct{})
				l.single.decides.send = func(context.Context, []*item, time.Time) error {
					if calls++; calls > answered {
						close(ctx.passed)
						<-resume
						return context.DeadlineExceeded
					}
					return nil
				}
				results := make([]timestamplog.Result, 3*maxBatch)
				l.Decide(ctx, make([]timestamplog.Request, len(results)), results)
				if results[0].Err == nil {
					t.Error("a caller whose deadline has passed got an answer")
				}
				close(resume)
				idle(t, l.single.decides)
			}
			if _, isOpen := l.single.breaker.state(); isOpen != (answered == 0) {
				t.Errorf("an outage began: %v", isOpen)
			}
		})
	}
}

// idle waits until b has no call in flight.
func idle(t *testing.T, b *batcher) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		inFlight := b.inFlight
		b.mu.Unlock()
		if inFlight == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the call never ended")
		}
	}
}
