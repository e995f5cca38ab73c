package redislog

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// Internals for the tests outside this package.
var (
	LogName        = logName
	DecideFunction = functions.decide
	WriteStack     = writeStack
	LibraryText    = functions.text
)

// ShardOf returns the shard of a key without a secret, as in most tests.
func ShardOf(key string) int { return new(sharder).of(key) }

// ShardUnder returns the shard of a key under a secret.
func ShardUnder(secret []byte, key string) int {
	s := sharder{secret: func() []byte { return secret }}
	return s.of(key)
}

// MaxBatch is the largest number of requests in one call.
const MaxBatch = maxBatch

// FailureThreshold is how many consecutive failures begin an outage.
const FailureThreshold = failureThreshold

// IsTooOld reports whether a server is known to be too old.
func IsTooOld(n *NodeHealth) bool { return n.isTooOld() }

// InFlight is how many calls of ordinary checks are in flight to the primary of a key.
func (l *Log) InFlight(key string) int {
	b := l.primaryOf(ShardOf(key)).decides
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inFlight
}

// ForgetTime makes l assume that its servers' clocks are behind by that much.
func (l *Log) ForgetTime(behind time.Duration) {
	for shard := range Shards {
		c := &l.primaryOf(shard).clock
		c.ahead.Store(processStart.Add(-behind).UnixMilli())
	}
}

// DecidePlain is the plain version of the batcher: its caller sends each request in a separate
// call.
func (l *Log) DecidePlain(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) {
	form := &decideCall
	if needsReserve(requests) {
		form = &reserveCall
	}
	for i := range requests {
		it := new(item)
		p := l.primaryOf(l.fill(it, &requests[i]))
		until := time.Now().Add(l.timeout)
		if err := l.send(ctx, p, &call{form, []*item{it}, until}); err != nil {
			results[i] = timestamplog.Result{Err: unreachable(err)}
			continue
		}
		results[i] = it.result
	}
}
