package memlog

import (
	"hash/maphash"
	"math"
	"slices"
	"unique"
	"unsafe"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// A counter is a keyLog without entries, in a counterLog. The index and the wheel treat it like any
// other log. It has a hash of its own, so that one LogID may have both a log and a counter.

// counterLog is a counter and its state. As with a log, its key is stored directly behind it unless it is
// long, so that a check that finds it needs only its numbers besides.
//
// Fast path. Plain version: a map of states by *keyLog. Benchmarks: BenchmarkDecide/cold,_allowed,_amounts, and
// BenchmarkHolds, 221 bytes a hold at one a key.
type counterLog struct {
	keyLog
	state algorithms.State
}

// shortCounter is a counter followed by its key, an array of words.
type shortCounter[T any] struct {
	counterLog
	words T
}

// stateOf returns the state of a log that is a counter.
func stateOf(k *keyLog) *algorithms.State {
	return &(*counterLog)(unsafe.Pointer(k)).state //nolint:gosec // it is one
}

func newShortCounter[T any]() (*keyLog, []uint32) {
	c := new(shortCounter[T])
	return &c.keyLog, unsafe.Slice((*uint32)(unsafe.Pointer(&c.words)), unsafe.Sizeof(c.words)/4) //nolint:gosec // T is an array of uint32
}

// counterMark is the value of keyLog.reserved that marks a counter.
const counterMark = math.MaxUint32

func (k *keyLog) isCounter() bool { return k.reserved == counterMark }

// counterHash returns the hash of the counter of a log. Both belong to the same shard.
func counterHash(hash uint64) uint64 { return hash ^ 1<<63 }

func (k *keyLog) hash(seed maphash.Seed) uint64 {
	hash := hashOf(seed, idOf(k))
	switch {
	case k.isCounter():
		return counterHash(hash)
	case k.isDistinct():
		return distinctHash(hash)
	}
	return hash
}

// newCounter returns a counter that is charged at now and expires at expires.
func newCounter(id timestamplog.LogID, now, expires int64) *keyLog {
	var k *keyLog
	var words []uint32
	switch n := (len(id.Key) + 3) / 4; { // size classes of Go's allocator, as for short logs
	case n <= 4:
		k, words = newShortCounter[[4]uint32]()
	case n <= 8:
		k, words = newShortCounter[[8]uint32]()
	case n <= 16:
		k, words = newShortCounter[[16]uint32]()
	default:
		k, words = &new(counterLog).keyLog, make([]uint32, n)
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(id.Key)), id.Key)                                  //nolint:gosec // there is as much
	k.owner, k.memory, k.keyBytes = unique.Make(owner{id.Policy, id.Generation}), unsafe.SliceData(words), uint32(len(id.Key)) //nolint:gosec // keys have a maximum
	k.count, k.reserved = 1, counterMark
	k.expireAt(now, expires)
	return k
}

// expireAt sets the expiry of a counter that is charged at now. As in a log, newest is then
// about the time of the last charge.
func (k *keyLog) expireAt(now, expires int64) {
	k.window = uint32(min(max(0, expires-now), maxWindow))
	k.newest = expires - int64(k.window)
}

// isCounter reports whether q is counted by a counter instead of a log.
func isCounter(q *timestamplog.Request) bool { return q.Algorithm != nil && !q.Algorithm.IsLog() }

// counting is the decision about one request under a counter.
type counting struct {
	stack *algorithms.Stack
	query algorithms.Query
	log   *keyLog          // nil if there is none
	state algorithms.State // advanced to now: a copy, or that of log if isShared
	// isShared is set if asking changes nothing that log has, so that no copy is needed.
	isShared bool
}

// count answers q, and counts it if it is allowed and neither a peek nor Uncharged.
func (s *shard) count(hash uint64, now int64, q *timestamplog.Request, r *timestamplog.Result) {
	c := counting{state: algorithms.State{Numbers: s.scratch[:0]}}
	s.judgeCounter(&c, hash, now, q, r)
	switch {
	case q.Peek || q.Uncharged || r.Replayed || len(q.Rules) == 0:
	case r.Allowed:
		s.addCounted(&c, hash, now, r.ReservedAt, q)
	case q.ChargeAlways:
		s.chargeRefusedCounter(&c, hash, now, q, r)
	}
	if q.Detail {
		c.describe(now, q, r)
	}
	if !c.isShared {
		s.scratch = c.state.Numbers
	}
}

// judgeCounter answers q without counting it. It moves a state that is too far ahead back,
// unless q is a peek. It fills in c and may overwrite the Numbers of c.state.
func (s *shard) judgeCounter(c *counting, hash uint64, now int64, q *timestamplog.Request, r *timestamplog.Result) {
	allow(r, now)
	if len(q.Rules) == 0 {
		return
	}
	c.stack = s.stacks.Of(q, newStack)
	if k := s.logs.find(counterHash(hash), q.LogID); k != nil {
		c.log = k
		switch kept := stateOf(k); {
		case k.expired(now):
		case c.stack.AsksInPlace() && !q.Peek:
			c.state, c.isShared = *kept, true
		default:
			c.state = algorithms.State{Numbers: append(c.state.Numbers, kept.Numbers...), Reservations: kept.Reservations}
		}
	}
	setQuery(&c.query, now, q)
	result := c.stack.Ask(&c.state, &c.query)
	if result.Changed && !q.Peek {
		s.keep(c, hash, now, q)
	}
	if s.ids.replay(q, r, now) {
		return
	}
	if r.ReservedAt = result.AllowedAt; !result.Allowed {
		c.refuse(result, r)
	}
}

// refuse fills in a refusal.
func (c *counting) refuse(result algorithms.Result, r *timestamplog.Result) {
	refuse(r, result.RetryAt, result.Rule, 0)
	r.TooManyHolds = result.TooManyHolds
	if algorithms.HasHolds(c.state.Numbers) { // a settlement may end the refusal earlier
		return
	}
	r.RefusalValidUntil = result.RetryAt
	// If a limit was lowered, the state may expire before RetryAt.
	if c.log != nil && result.RetryAt != timestamplog.Never {
		r.RefusalValidUntil = min(result.RetryAt, c.log.expiresAt())
	}
}

// chargeRefusedCounter counts as much of a refused request as fits, and updates the waits in r
// to include it.
func (s *shard) chargeRefusedCounter(c *counting, hash uint64, now int64, q *timestamplog.Request, r *timestamplog.Result) {
	charged := *q
	charged.ID, charged.Cost = "", int(min(int64(q.Cost), c.stack.Room(&c.state, now)))
	if charged.Cost == 0 {
		return
	}
	c.query.ID, c.query.Cost = "", int64(charged.Cost)
	s.addCounted(c, hash, now, now, &charged)
	setQuery(&c.query, now, q)
	c.refuse(c.stack.Ask(&c.state, &c.query), r)
}

// setQuery sets the fields of to one by one because a Query is large and would be copied.
func setQuery(to *algorithms.Query, now int64, q *timestamplog.Request) {
	to.Now, to.Cost, to.MaxWait, to.Peek, to.ID = now, int64(q.Cost), q.MaxWait, q.Peek, q.ID
	to.Tag, to.Hold, to.Source = algorithms.Tag(q.Value), q.Hold, 0
}

// addCounted counts q for a reservation. If there is no room for a new counter, the ID is not
// stored either: as with a log, a retry is then decided as a new request.
func (s *shard) addCounted(c *counting, hash uint64, now, reservation int64, q *timestamplog.Request) {
	if q.Hold > 0 {
		c.query.Source = s.sources.number(q.Source)
	}
	c.stack.Add(&c.state, &c.query, reservation)
	if isKept := s.keep(c, hash, now, q); isKept && q.ID != "" {
		s.know(q, reservation, now)
	}
}

// keep stores c's state until it expires, and reports whether there was room for it.
func (s *shard) keep(c *counting, hash uint64, now int64, q *timestamplog.Request) (isKept bool) {
	lasts := c.stack.TTL(&c.state, now)
	switch {
	case lasts > 0 && c.log == nil && s.isFull:
		s.bound.unkept.add(now)
		return false
	case lasts > 0 && c.log == nil:
		c.log = newCounter(q.LogID, now, now+lasts)
		*stateOf(c.log) = algorithms.State{Numbers: slices.Clone(c.state.Numbers), Reservations: c.state.Reservations}
		s.add(counterHash(hash), c.log, now)
	case lasts > 0:
		c.log.expireAt(now, now+lasts)
		kept := stateOf(c.log)
		before := stateBytes(kept)
		if c.isShared {
			*kept = c.state
		} else {
			kept.Numbers, kept.Reservations = append(kept.Numbers[:0], c.state.Numbers...), c.state.Reservations
		}
		s.bytes += stateBytes(kept) - before
	case c.log != nil:
		s.delete(counterHash(hash), c.log)
		c.log = nil
	}
	return true
}

// describe fills in the States of r.
func (c *counting) describe(now int64, q *timestamplog.Request, r *timestamplog.Result) {
	if len(q.Rules) == 0 {
		return
	}
	var left [rules.MaxRules]algorithms.RuleRemaining
	r.States = slices.Grow(r.States, len(q.Rules))
	for _, has := range c.stack.Remaining(left[:0], &c.state, now, int64(q.Cost)) {
		r.States = append(r.States, timestamplog.RuleState{Remaining: int(has.Amount), RetryAfterMS: has.Wait, ResetAfterMS: has.Reset})
	}
}

// newStack returns the stack that counts q.
func newStack(q *timestamplog.Request) *algorithms.Stack {
	return algorithms.NewStack(q.Algorithm, q.Rules.Counted(q.Options))
}
