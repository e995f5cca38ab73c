package memlog

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// bound is how much memory the logs of all shards may take together, and what was done
// to stay below it.
type bound struct {
	max      int64 // bytes; 0 for no bound
	describe func(timestamplog.LogID) (policies []*rules.Policy, isKept bool)
	used     atomic.Int64 // bytes, as accounted for
	// failedAt is when no log was found last that may go, in Unix milliseconds. Until
	// it has passed by retryInterval none is looked for, so that a full node does not
	// search at every check.
	failedAt  atomic.Int64
	forgotten occurrences
	unkept    occurrences
}

const (
	// sampleSize is how many logs of a shard are compared, of which at most maxForgotten
	// go: those that were charged longest ago.
	sampleSize   = 32
	maxForgotten = 8
	// otherShards is how many more shards are looked at where the own has no log that
	// may go.
	otherShards = 3
	// maxRounds bounds how many samples one check takes.
	maxRounds     = 4
	retryInterval = 10 // milliseconds
)

// What a log takes besides the memory of its key and its ring, as BenchmarkMemory finds: the
// struct, its place in the index, and rounding. A longLog takes longBytes more, and its key.
const (
	logBytes     = 88
	longBytes    = 16
	counterBytes = 200
	valuesBytes  = 64
	// knownBytes is what a log with IDs takes besides its key, and idBytes what each
	// takes beside its text.
	knownBytes = 640
	idBytes    = 96
)

// MemoryStats are what the logs take, and what was forgotten to stay within Options.MaxBytes.
type MemoryStats struct {
	Used int64 // bytes
	Max  int64 // bytes, 0 for no bound
	// Forgotten is how many logs were deleted before they expired.
	Forgotten int64
	// Unkept is how many allowed requests were not logged, because every log that was
	// looked at had to be kept.
	Unkept int64
	// LastForgotten and LastUnkept are when that happened last; zero for never.
	LastForgotten, LastUnkept time.Time
}

// Memory returns what the logs take at present.
func (l *Log) Memory() MemoryStats {
	b := &l.bound
	forgotten, lastForgotten := b.forgotten.read()
	unkept, lastUnkept := b.unkept.read()
	return MemoryStats{Used: b.used.Load(), Max: b.max, Forgotten: forgotten, Unkept: unkept, LastForgotten: lastForgotten, LastUnkept: lastUnkept}
}

// occurrences counts something, and when it happened last.
type occurrences struct {
	count, last atomic.Int64 // last in Unix milliseconds
}

func (o *occurrences) add(now int64) {
	o.count.Add(1)
	o.last.Store(now)
}

func (o *occurrences) read() (count int64, last time.Time) {
	if count = o.count.Load(); count > 0 {
		last = time.UnixMilli(o.last.Load())
	}
	return count, last
}

func (b *bound) isExceeded() bool { return b.max > 0 && b.used.Load() > b.max }

// makeRoom deletes logs until the bound is kept, from s, which is locked, and where
// that has none that may go from others. It sets s.isFull where it finds none.
func (l *Log) makeRoom(s *shard, now int64) {
	b := &l.bound
	if s.isFull = false; !b.isExceeded() {
		return
	}
	if failed := b.failedAt.Load(); failed <= now && now-failed < retryInterval {
		s.isFull = true
		return
	}
	for range maxRounds {
		if !s.forgetIdle(now) && !l.forgetElsewhere(s, now) {
			b.failedAt.Store(now)
			s.isFull = true
			return
		}
		if !b.isExceeded() {
			return
		}
	}
}

// forgetElsewhere deletes idle logs of shards that are not locked.
func (l *Log) forgetElsewhere(own *shard, now int64) bool {
	at := rand.IntN(shardCount)
	tried := 0
	for range shardCount {
		at = (at + 1) & (shardCount - 1)
		s := &l.shards[at]
		if s == own || !s.mu.TryLock() {
			continue
		}
		isEmpty, found := s.logs.count == 0, s.forgetIdle(now)
		s.mu.Unlock()
		if !isEmpty {
			tried++
		}
		if found || tried == otherShards {
			return found
		}
	}
	return false
}

type idleLog struct {
	*keyLog
	hash uint64
}

// forgetIdle deletes the logs of a sample that were charged longest ago, and IDs where
// these take much, and reports whether it could delete any. A log stays where its key
// is blocked or would be refused.
func (s *shard) forgetIdle(now int64) bool {
	forgotIDs := 4*s.ids.bytes > s.bytes && s.ids.forgetOldest(maxForgotten)
	var room [sampleSize]idleLog
	sample := room[:0]
	for hash, k := range s.logs.fromAnywhere() {
		if sample = append(sample, idleLog{k, hash}); len(sample) == sampleSize {
			break
		}
	}
	slices.SortFunc(sample, func(a, b idleLog) int {
		switch {
		case a.newest < b.newest:
			return -1
		case a.newest > b.newest:
			return 1
		}
		return 0
	})
	deleted := 0
	for _, k := range sample {
		if deleted == maxForgotten || deleted > 0 && 2*deleted >= len(sample) {
			break
		}
		switch {
		case k.expired(now):
		case mustKeep(s, k.hash, now, k.keyLog):
			continue
		default:
			s.bound.forgotten.add(now)
		}
		s.delete(k.hash, k.keyLog)
		deleted++
	}
	s.publish()
	return deleted > 0 || forgotIDs
}

// mustKeep reports whether forgetting k would let its key do what it may not do now.
func mustKeep(s *shard, hash uint64, now int64, k *keyLog) bool {
	if s.bound.describe == nil {
		return false
	}
	policies, isKept := s.bound.describe(idOf(k))
	return isKept || slices.ContainsFunc(policies, func(p *rules.Policy) bool { return isRefused(s, hash, now, k, p) })
}

// isRefused reports whether p would refuse k's key now.
func isRefused(s *shard, hash uint64, now int64, k *keyLog, p *rules.Policy) bool {
	q := timestamplog.RequestOf(p, keyOf(k), 1)
	if !hasID(k, &q.LogID) || len(q.Rules) == 0 || isCounter(&q) != k.isCounter() || q.IsDistinct() != k.isDistinct() {
		return false // no check reads it any more
	}
	q.Peek = true
	var r timestamplog.Result
	switch {
	case k.isCounter():
		c := counting{state: algorithms.State{Numbers: s.scratch[:0]}}
		s.judgeCounter(&c, counterHash(hash), now, &q, &r) // hash is the counter's own
		s.scratch = c.state.Numbers
	case k.isDistinct():
		s.judgeDistinct(distinctHash(hash), now, &q, &r)
	default:
		s.judge(hash, now, &q, &r, new(view))
	}
	return !r.Allowed
}

// publish adds to the bound what the shard's memory has changed by since the last call.
func (s *shard) publish() {
	if bytes := s.bytes + s.ids.bytes; bytes != s.published {
		s.bound.used.Add(int64(bytes - s.published))
		s.published = bytes
	}
}

// size is what k takes: all that delete takes away.
func (s *shard) size(k *keyLog) int {
	size := logBytes + 4*int(k.room) + 4*keyWords(k)
	if k.keyBytes == isLong {
		size += longBytes + (len(keyOf(k))+7)&^7
	}
	switch {
	case k.isCounter():
		if state := s.counters[k]; state != nil {
			size += counterBytes + 8*cap(state.Numbers)
			if state.Reservations != nil {
				size += counterBytes + 8*cap(state.Reservations.Before)
			}
		}
	case k.isDistinct():
		size += valuesBytes + 16*cap(s.values[k])
	}
	return size
}
