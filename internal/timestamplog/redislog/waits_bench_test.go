package redislog

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// BenchmarkWait measures a check of one of 64 callers with a deadline, on a primary that answers
// at once. In one case the batcher watches the deadlines. In the other each caller also waits for
// a timer, which is reused.
func BenchmarkWait(b *testing.B) {
	for _, way := range []string{"watched", "timer"} {
		b.Run(way, func(b *testing.B) {
			batcher := &batcher{timeout: time.Second, send: func(_ context.Context, items []*item, _ time.Time) error {
				for _, it := range items {
					it.result = timestamplog.Result{Allowed: true}
				}
				return nil
			}}
			var all groups
			b.SetParallelism(32) // GOMAXPROCS multiplies it
			b.ReportAllocs()
			var before, after syscall.Rusage
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			b.RunParallel(func(pb *testing.PB) {
				timed := timedContext{Context: context.Background()}
				for pb.Next() {
					until := time.Now().Add(10 * time.Second)
					var ctx context.Context = &watchedContext{context.Background(), until}
					if way == "timer" {
						timed.start(until)
						ctx = &timed
					}
					g := all.get(1)
					batcher.submit(ctx, g)
					if err := g.wait(ctx); err != nil {
						b.Error(err)
						return
					}
					g.release(nil)
					if way == "timer" {
						timed.timer.Stop()
					}
				}
			})
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
			used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
			b.ReportMetric(float64(used)/float64(b.N), "own-ns/check")
		})
	}
}

// timedContext is a context with a timer that is reused.
type timedContext struct {
	context.Context
	until time.Time
	timer *time.Timer
	fired chan struct{}
	once  sync.Once
}

func (c *timedContext) start(until time.Time) {
	c.until = until
	if c.timer == nil {
		c.fired = make(chan struct{})
		c.timer = time.AfterFunc(time.Until(until), func() { c.once.Do(func() { close(c.fired) }) })
		return
	}
	c.timer.Reset(time.Until(until))
}

func (c *timedContext) Deadline() (time.Time, bool) { return c.until, true }

func (c *timedContext) Done() <-chan struct{} { return c.fired }

func (c *timedContext) Err() error {
	if time.Now().Before(c.until) {
		return nil
	}
	return context.DeadlineExceeded
}

// BenchmarkArguments measures how a call of 32 checks is built before it is sent.
func BenchmarkArguments(b *testing.B) {
	const checks = 32
	l := New(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), Options{}) // no request is sent to it
	defer l.Close()
	q := timestamplog.Request{LogID: timestamplog.LogID{Policy: 1, Key: "ip:203.0.113.7"}, Version: 1, Rules: testStack, Cost: 1}
	items := make([]*item, checks)
	for i := range items {
		items[i] = new(item)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, it := range items {
			l.fill(it, &q)
		}
		if keys, _ := arguments("", items); keys != checks {
			b.Fatal(keys)
		}
	}
}
