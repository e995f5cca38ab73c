package redislog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/logtest"
	"github.com/stint-dev/stint/test/servers"
)

// expiring is a Log whose Redis expires logs by the test's clock: before each request it deletes
// the logs that Redis would have deleted if its time were that of the clock.
type expiring struct {
	*redislog.Log
	client redis.UniversalClient
	prefix string
	clock  *logtest.Clock
}

func newExpiring(t *testing.T, server *servers.RedisServer) logtest.Harness {
	clock := logtest.NewClock()
	log := &expiring{
		Log:    open(t, server, redislog.Options{Clock: clock.Now, Timeout: time.Minute}), // the contract is not about outages
		client: connect(t, server), prefix: server.Prefix, clock: clock,
	}
	return logtest.Harness{Log: log, Clock: clock, ClockExpires: true, Steps: 50}
}

// Redis expires a key at its instant.
const expireOne = `
local at = redis.call('PEXPIRETIME', KEYS[1])
if at >= 0 and at <= tonumber(ARGV[1]) then redis.call('DEL', KEYS[1]) end`

func (e *expiring) expire(ctx context.Context, ids ...timestamplog.LogID) error {
	pipe := e.client.Pipeline()
	seen := map[timestamplog.LogID]bool{}
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			name := redislog.LogName(e.prefix, redislog.ShardOf(id.Key), id)
			pipe.Eval(ctx, expireOne, []string{name}, e.clock.NowMS())
		}
	}
	_, err := pipe.Exec(ctx)
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

func (e *expiring) Decide(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) {
	ids := make([]timestamplog.LogID, len(requests))
	for i, q := range requests {
		ids[i] = q.LogID
	}
	if err := e.expire(ctx, ids...); err != nil {
		for i := range results {
			results[i].Err = err
		}
		return
	}
	e.Log.Decide(ctx, requests, results)
}

func (e *expiring) Timestamps(ctx context.Context, id timestamplog.LogID, limit int) ([]int64, int64, error) {
	if err := e.expire(ctx, id); err != nil {
		return nil, 0, err
	}
	return e.Log.Timestamps(ctx, id, limit)
}

func (e *expiring) Charges(ctx context.Context, id timestamplog.LogID, window int64) ([]algorithms.Charge, int64, error) {
	if err := e.expire(ctx, id); err != nil {
		return nil, 0, err
	}
	return e.Log.Charges(ctx, id, window)
}

func (e *expiring) Holds(ctx context.Context, id timestamplog.LogID) ([]timestamplog.Hold, int64, error) {
	if err := e.expire(ctx, id); err != nil {
		return nil, 0, err
	}
	return e.Log.Holds(ctx, id)
}

func (e *expiring) Settle(ctx context.Context, m timestamplog.Settlement) (timestamplog.Settled, error) {
	if err := e.expire(ctx, m.LogID); err != nil {
		return timestamplog.Settled{}, err
	}
	return e.Log.Settle(ctx, m)
}

func (e *expiring) Reset(ctx context.Context, id timestamplog.LogID) (bool, error) {
	if err := e.expire(ctx, id); err != nil {
		return false, err
	}
	return e.Log.Reset(ctx, id)
}

func (e *expiring) DecideAll(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) error {
	ids := make([]timestamplog.LogID, len(requests))
	for i, q := range requests {
		ids[i] = q.LogID
	}
	if err := e.expire(ctx, ids...); err != nil {
		return err
	}
	return e.Log.DecideAll(ctx, requests, results)
}

func (e *expiring) Cancel(ctx context.Context, reservation timestamplog.Reservation) (bool, error) {
	if err := e.expire(ctx, reservation.LogID); err != nil {
		return false, err
	}
	return e.Log.Cancel(ctx, reservation)
}
