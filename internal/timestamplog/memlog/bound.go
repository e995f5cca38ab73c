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

// bound limits how much memory the logs of all shards may take together, and counts what was
// forgotten to stay below that limit.
type bound struct {
	max      int64 // bytes; 0 for no bound
	describe func(timestamplog.LogID) (policies []*rules.Policy, isKept bool)
	used     atomic.Int64 // bytes, estimated by size
	// failedAt is the time in Unix milliseconds of the last search that found no log to forget.
	// The next search starts at least retryInterval later, so that a full node does not search
	// at every check.
	failedAt  atomic.Int64
	forgotten occurrences
	unkept    occurrences
}

const (
	// sampleSize is how many logs of a shard are compared. At most maxForgotten of them, those
	// that were charged longest ago, are forgotten.
	sampleSize   = 32
	maxForgotten = 8
	// otherShards is how many more shards are searched if the check's own shard has no log that
	// may be forgotten.
	otherShards = 3
	// maxRounds bounds how many samples one check takes.
	maxRounds     = 4
	retryInterval = 10 // milliseconds
)

// Bytes that a log takes besides its key and its ring, as measured by BenchmarkMemory: the
// struct, its place in the index, and rounding. A longLog takes longBytes more, and the copy of
// its key.
const (
	logBytes     = 88
	longBytes    = 16
	counterBytes = 48
	// reservationBytes is what the reservations of a counter take besides their numbers.
	reservationBytes = 80
	valuesBytes      = 64
	// knownBytes is what a log with IDs takes besides its key, and idBytes what each ID takes
	// besides its text.
	knownBytes = 640
	idBytes    = 96
)

// MemoryStats reports the memory of the logs, and what was forgotten to stay within
// Options.MaxBytes.
type MemoryStats struct {
	Used int64 // bytes
	Max  int64 // bytes, 0 for no bound
	// Forgotten is how many logs were deleted before they expired.
	Forgotten int64
	// Unkept is how many allowed requests were not logged because every log in the samples had
	// to be kept.
	Unkept int64
	// LastForgotten and LastUnkept are the times of the last such events; zero for never.
	LastForgotten, LastUnkept time.Time
}

// Memory returns the present memory statistics.
func (l *Log) Memory() MemoryStats {
	b := &l.bound
	forgotten, lastForgotten := b.forgotten.read()
	unkept, lastUnkept := b.unkept.read()
	return MemoryStats{Used: b.used.Load(), Max: b.max, Forgotten: forgotten, Unkept: unkept, LastForgotten: lastForgotten, LastUnkept: lastUnkept}
}

// occurrences counts an event and stores when it last happened.
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

// makeRoom deletes logs until the memory is within the bound: first logs of s, which is locked,
// then logs of other shards. It sets s.isFull if no log may be forgotten.
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

// forgetElsewhere deletes idle logs of a shard other than own, and reports whether it found
// any. It skips shards that are locked.
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

// forgetIdle deletes those logs of a random sample that were charged longest ago. It also
// forgets IDs if these take more than a quarter of the memory of the logs. It reports whether
// it deleted anything. It keeps a log whose key is blocked or would be refused.
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

// mustKeep reports whether forgetting k would allow its key something that is refused now.
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

// publish adds to bound.used by how much the shard's memory has changed since the last call.
func (s *shard) publish() {
	if bytes := s.bytes + s.ids.bytes; bytes != s.published {
		s.bound.used.Add(int64(bytes - s.published))
		s.published = bytes
	}
}

// size returns the bytes that k takes, all of which delete frees.
func (s *shard) size(k *keyLog) int {
	size := logBytes + 4*int(k.room) + 4*keyWords(k)
	if k.keyBytes == longMark {
		size += longBytes + (len(keyOf(k))+7)&^7
	}
	switch {
	case k.isCounter():
		size += counterBytes + stateBytes(stateOf(k))
	case k.isDistinct():
		size += valuesBytes + 16*cap(s.values[k])
	}
	return size
}

// stateBytes returns the bytes that a state of a counter takes besides itself.
func stateBytes(state *algorithms.State) int {
	size := 8 * cap(state.Numbers)
	if state.Reservations != nil {
		size += reservationBytes + 8*cap(state.Reservations.Before)
	}
	return size
}
