package redislog

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/timestamplog"
)

func TestPanicInABatchIsAnErrorOfItsCallersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		l := &batcher{timeout: time.Second, send: func(_ context.Context, items []*item, _ time.Time) error {
			if calls++; calls == 1 {
				panic("a bug of the protocol")
			}
			for _, it := range items {
				it.result = timestamplog.Result{Allowed: true}
			}
			return nil
		}}
		before := supervise.Panics()["redis batcher"]
		// There is no deadline: a caller that gets no answer would wait forever.
		err := <-decide(context.Background(), l, 3)
		if !errors.Is(err, timestamplog.ErrUnreachable) {
			t.Errorf("got %v", err)
		}
		if err := <-decide(context.Background(), l, 3); err != nil {
			t.Errorf("the next batch got %v", err)
		}
		if got := supervise.Panics()["redis batcher"] - before; got != 1 {
			t.Errorf("%d panics were counted", got)
		}
	})
}
