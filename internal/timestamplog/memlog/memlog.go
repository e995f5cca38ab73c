// Package memlog keeps the timestamp logs in memory: a sharded index of ring buffers, the
// numbers of each counter, and the values of each distinct log. It is the log of an embedded
// node, and the fallback of a distributed node while Redis is unreachable. A log is dropped
// when its longest window ends, or earlier if all logs take more than Options.MaxBytes.
package memlog

import (
	"context"
	"hash/maphash"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// shardCount divides the logs so that checks of different keys rarely contend for
// one lock. It must be a power of two.
const shardCount = 256

// Options are the settings of a Log. The zero value is valid.
type Options struct {
	// Now is the log's one clock; nil means the wall clock. It is called while a shard is
	// locked, so it must be fast and must not call the Log.
	Now func() time.Time
	// MaxBytes is how much memory the logs may take, as MemoryStats.Used estimates it; 0 for no
	// bound. If they take more, logs are forgotten: of a sample of a shard's logs, those that
	// were charged longest ago, but none that Describe keeps or whose key would be refused a
	// cost of 1. If every sampled log must be kept, a request about a key without a log is
	// answered and not logged, until there is room again, unless its log is internal. Existing
	// logs continue to count exactly. IDs count towards MaxBytes too, and the oldest are
	// forgotten if they take much: a request whose ID was forgotten is charged again.
	MaxBytes int64
	// Describe returns the policies that may read a log at present, and whether the log must be
	// kept whatever its entries are. Policies that read another log are ignored. It is called
	// while a shard is locked, so it must be fast and must not call the Log. nil protects no
	// log.
	Describe func(timestamplog.LogID) (policies []*rules.Policy, isKept bool)
}

// Log is a timestamplog.Log in memory. It starts no goroutine: each check sweeps a few logs,
// and Sweep sweeps the rest.
type Log struct {
	now    func() time.Time
	seed   maphash.Seed
	shards [shardCount]shard
	stacks timestamplog.Derived[*algorithms.Stack]
	bound  bound
}

var _ timestamplog.Log = (*Log)(nil)

// New returns an empty Log.
func New(options Options) *Log {
	l := &Log{now: options.Now, seed: maphash.MakeSeed()}
	if l.now == nil {
		l.now = wallClock
	}
	l.bound.max, l.bound.describe = options.MaxBytes, options.Describe
	for i := range l.shards {
		l.shards[i].seed, l.shards[i].stacks.Derived, l.shards[i].bound = l.seed, &l.stacks, &l.bound
		l.shards[i].clear()
	}
	return l
}

// sweepPerCheck is how many possibly expired logs one check examines. It is more than the one
// log that a check can add.
const sweepPerCheck = 2

// Decide answers each request in order. It fails only if ctx has ended; the
// remaining requests are then neither answered nor charged.
func (l *Log) Decide(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) {
	for i := range requests {
		if err := ctx.Err(); err != nil {
			results[i] = timestamplog.Result{Rule: -1, States: results[i].States[:0], Err: err}
			continue
		}
		l.decide(&requests[i], &results[i])
	}
}

func (l *Log) decide(q *timestamplog.Request, r *timestamplog.Result) {
	hash := hashOf(l.seed, q.LogID)
	s := l.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	// The clock is read under the lock: an earlier reading could be older than an
	// entry that another check has pushed concurrently.
	now := l.now().UnixMilli()
	s.sweep(now, sweepPerCheck)
	l.makeRoom(s, now)
	switch {
	case isCounter(q):
		s.count(hash, now, q, r)
	case q.IsDistinct():
		s.decideDistinct(hash, now, q, r)
	default:
		s.decide(hash, now, q, r)
	}
	s.publish()
}

func (l *Log) shard(hash uint64) *shard { return &l.shards[hash&(shardCount-1)] }

// Charges returns the charges in the log of id, newest first. It never fails.
func (l *Log) Charges(_ context.Context, id timestamplog.LogID, window int64) ([]algorithms.Charge, int64, error) {
	numbers, now := l.numbersOf(id)
	return algorithms.Charges(numbers, window, now), now, nil
}

// numbersOf returns a copy of the numbers of a counter, none if there is none, and the present time.
func (l *Log) numbersOf(id timestamplog.LogID) (numbers []int64, now int64) {
	hash := hashOf(l.seed, id)
	s := l.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	now = l.now().UnixMilli()
	if k := s.logs.find(counterHash(hash), id); k != nil && !k.expired(now) {
		numbers = slices.Clone(stateOf(k).Numbers)
	}
	return numbers, now
}

// Timestamps returns the times in the log of id, newest first. It never fails.
func (l *Log) Timestamps(_ context.Context, id timestamplog.LogID, limit int) ([]int64, int64, error) {
	hash := hashOf(l.seed, id)
	s := l.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := l.now().UnixMilli()
	k := s.logs.find(hash, id)
	if k == nil || k.expired(now) {
		v := s.viewDistinct(hash, now, id)
		return v.times(limit), now, nil
	}
	return k.times(now, limit), now, nil
}

// Reset deletes the log of id. It never fails.
func (l *Log) Reset(_ context.Context, id timestamplog.LogID) (bool, error) {
	hash := hashOf(l.seed, id)
	s := l.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids.forget(id)
	now, existed := l.now().UnixMilli(), false
	for _, hash := range []uint64{hash, counterHash(hash), distinctHash(hash)} {
		if k := s.logs.find(hash, id); k != nil {
			existed = existed || !k.expired(now)
			s.delete(hash, k)
		}
	}
	s.publish()
	return existed, nil
}

// Now returns the time of the log's clock. It never fails.
func (l *Log) Now(context.Context) (time.Time, error) {
	return l.now().Truncate(time.Millisecond), nil
}

// Outages returns none: memory is always reachable.
func (l *Log) Outages() []timestamplog.Outage { return nil }

// Len returns the number of logs, including expired ones that no check or Sweep has
// dropped yet.
func (l *Log) Len() int {
	n := 0
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		n += s.logs.count
		s.mu.Unlock()
	}
	return n
}

// sweepBatch is how many logs Sweep examines before it unlocks the shard for checks.
const sweepBatch = 256

// Sweep drops every log whose longest window ended at least a second ago. If the logs take more
// than Options.MaxBytes, it also drops some that may be forgotten. Checks do both too, a few
// logs each, so Sweep matters when checks are rare; calling it every few seconds is enough.
func (l *Log) Sweep() {
	for i := range l.shards {
		s := &l.shards[i]
		for more := true; more; {
			s.mu.Lock()
			now := l.now().UnixMilli()
			moreIDs := s.ids.sweep(now, sweepBatch)
			s.bytes -= s.cancelled.sweep(now)
			more = s.sweep(now, sweepBatch) || moreIDs
			s.publish()
			s.mu.Unlock()
		}
	}
	for l.bound.isExceeded() && l.forgetSome() {
	}
}

// forgetSome deletes a few logs of each shard until the memory is within the bound, and reports
// whether there were any that may be forgotten.
func (l *Log) forgetSome() (found bool) {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		found = s.forgetIdle(l.now().UnixMilli()) || found
		s.mu.Unlock()
		if !l.bound.isExceeded() {
			break
		}
	}
	return found
}

// Close deletes every log. It never fails; the Log is empty afterwards.
func (l *Log) Close() error {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		s.clear()
		s.publish()
		s.mu.Unlock()
	}
	return nil
}
