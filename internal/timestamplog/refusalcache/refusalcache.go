// Package refusalcache remembers on a node what a log that lies elsewhere has
// refused, so that a key which goes on asking is answered without it.
//
// Why the answer stays exact. While a log refuses a cost of 1 it refuses every
// cost, and only allowed requests change a log; so from such a refusal until its
// RetryAt the log stands still, whoever asks and on whatever node, and every
// answer in between is known but for the time that has passed. Four things
// else can change what holds:
//
//   - A policy that changes has a new version, and another version's refusal is
//     not served.
//   - A reset is forgotten at once where it was ordered, before it is
//     acknowledged. To other nodes the log tells it by Forget; where that is
//     lost, Longest bounds how long they do not know.
//   - A block, laid or lifted, is not the log's business: it is decided before
//     the log is asked.
//   - A log that was lost, or whose clock stepped back, would answer
//     otherwise, for Longest at most. It refuses what could have been allowed
//     then and never the other way round.
//   - A reservation that is reserved, or cancelled, while a key without one is
//     refused, makes it wait longer, or less long. What was remembered is
//     forgotten at once where that was asked for; on other nodes the key is told
//     its wait of before, for Longest at most, and still refused.
//
// A request that would wait, that names itself or that counts though it is
// refused is never answered from memory, nor is one about several keys.
//
// A refusal of a cost above 1 says nothing about cheaper requests, which may be
// allowed and make it wait longer. It is served only while a refusal of a cost
// of 1 stands, and only to the same cost: a larger one is refused too, but how
// long it must wait depends on entries that the node does not know. A rule that
// never allows anything is the exception.
//
// The node measures how long ago it was by its own steady clock, so that no two
// clocks are compared: a refusal is served until RetryAt, or until the log
// expires where that is earlier, counted from the instant its request was sent,
// and the waits that are told are counted from the instant its answer came.
// Both err on the side of the log.
package refusalcache

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
)

const (
	// Longest bounds how long a refusal is served without asking again.
	MaxAge = 2 * time.Second
	// margin is what a refusal ends early: Redis rounds its clock down to the
	// millisecond, and the other is what two clocks may drift in Longest.
	margin = 2 * time.Millisecond
)

// DefaultSize is how many keys are remembered where Options do not say: at some
// 250 bytes each and twice in the worst case, 32 MB.
const DefaultSize = 1 << 16

// Options are the settings of a Log. The zero value is ready for use.
type Options struct {
	// Size bounds how many keys are remembered; up to twice as many are held
	// for a moment. 0 means DefaultSize.
	Size int
	// Now is the node's own clock, which must be steady; time.Now where it is
	// nil.
	Now func() time.Time
}

const shardCount = 64

// Log is a timestamplog.Log that answers from memory what it can and asks
// another for the rest.
type Log struct {
	timestamplog.Log
	now    func() time.Time
	seed   maphash.Seed
	shards [shardCount]shard
	calls  sync.Pool // of *call
}

var _ timestamplog.Log = (*Log)(nil)

// New returns a Log that asks log.
func New(log timestamplog.Log, o Options) *Log {
	l := &Log{Log: log, now: o.Now, seed: maphash.MakeSeed()}
	if l.now == nil {
		l.now = time.Now
	}
	if o.Size <= 0 {
		o.Size = DefaultSize
	}
	for i := range l.shards {
		l.shards[i].max = max(1, o.Size/shardCount)
	}
	l.calls.New = func() any { return new(call) }
	return l
}

// Decide answers each request from memory or from the log.
func (l *Log) Decide(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) {
	c := l.calls.Get().(*call)
	defer l.release(c)
	sent := l.now()
	reserves := false // something before may make a reservation
	for i := range requests {
		known, epoch := l.lookup(&requests[i], sent, &results[i], reserves)
		if known {
			continue
		}
		reserves = reserves || requests[i].MaxWait > 0
		c.requests = append(c.requests, requests[i])
		c.places = append(c.places, i)
		c.epochs = append(c.epochs, epoch)
	}
	if len(c.requests) == 0 {
		return
	}
	if len(c.requests) == len(requests) {
		l.Log.Decide(ctx, requests, results)
	} else {
		c.results = append(c.results, make([]timestamplog.Result, len(c.requests))...)
		l.Log.Decide(ctx, c.requests, c.results)
		for n, i := range c.places {
			results[i] = c.results[n]
		}
	}
	came := l.now()
	for n, i := range c.places {
		l.store(&c.requests[n], &results[i], c.epochs[n], sent, came)
	}
	l.forgetReservedLogs(c.requests, c.places, results)
}

// forgetReserved forgets the logs in which a reservation was reserved, or may have
// been.
func (l *Log) forgetReservedLogs(requests []timestamplog.Request, places []int, results []timestamplog.Result) {
	for n, i := range places {
		if q := &requests[n]; q.MaxWait > 0 && !q.Peek && (results[i].ReservedAt > results[i].Now || results[i].Err != nil) {
			l.Forget(q.LogID)
		}
	}
}

// call is the working memory of one Decide: what memory did not know, and where
// it stood.
type call struct {
	requests []timestamplog.Request
	results  []timestamplog.Result
	places   []int
	epochs   []uint64 // of their shards, when they were looked for
}

func (l *Log) release(c *call) {
	clear(c.requests)
	clear(c.results)
	c.requests, c.results, c.places, c.epochs = c.requests[:0], c.results[:0], c.places[:0], c.epochs[:0]
	l.calls.Put(c)
}

// Reset forgets a log, and here that it refused.
func (l *Log) Reset(ctx context.Context, ref timestamplog.LogID) (bool, error) {
	held, err := l.Log.Reset(ctx, ref)
	l.Forget(ref) // after it: what is asked from now on finds it empty
	return held, err
}

// DecideAll asks the log, and forgets what is remembered of the logs that were
// charged, or may have been.
func (l *Log) DecideAll(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) error {
	err := l.Log.DecideAll(ctx, requests, results)
	if errors.Is(err, timestamplog.ErrCrossSlot) {
		return err
	}
	for i := range requests {
		if err == nil && (!results[i].Allowed || requests[i].Peek) {
			return nil // nothing was charged
		}
	}
	for i := range requests {
		l.Forget(requests[i].LogID)
	}
	return err
}

// Cancel cancels a reservation, and forgets what is remembered of its log.
func (l *Log) Cancel(ctx context.Context, reservation timestamplog.Reservation) (bool, error) {
	made, err := l.Log.Cancel(ctx, reservation)
	if made || err != nil {
		l.Forget(reservation.LogID)
	}
	return made, err
}

// Forget has the next request for ref ask the log, which has just been reset.
func (l *Log) Forget(ref timestamplog.LogID) {
	hash, s := l.shard(ref)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	delete(s.young, hash)
	delete(s.old, hash)
}

// ForgetAll has every next request ask the log: resets may have been missed.
func (l *Log) ForgetAll() {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		s.epoch++
		s.young, s.old = nil, nil
		s.mu.Unlock()
	}
}

func (l *Log) shard(ref timestamplog.LogID) (hash uint64, s *shard) {
	hash = maphash.Comparable(l.seed, ref)
	return hash, &l.shards[hash%shardCount]
}

// isPlain reports whether the log does nothing for q where it refuses it but to
// say so, the same to all who ask.
func isCacheable(q *timestamplog.Request) bool {
	return !q.Peek && q.MaxWait == 0 && q.ID == "" && !q.Options.CountRefused
}

// recall fills in the answer to q where it is known, unless the log is to be asked
// in any case. Where it is not known, it returns the epoch of q's shard.
func (l *Log) lookup(q *timestamplog.Request, now time.Time, r *timestamplog.Result, ask bool) (known bool, epoch uint64) {
	if !isCacheable(q) {
		return false, 0 // and its answer is not remembered
	}
	hash, s := l.shard(q.LogID)
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.find(hash)
	if ask || f == nil || f.ref != q.LogID || f.version != q.Version || !f.full.isValidAt(now) {
		return false, s.epoch
	}
	a := f.answerTo(q.Cost, q.Detail)
	return a != nil && a.fill(q.Detail, now, r), s.epoch
}

// remember keeps the answer to q where it is a refusal that can be told again.
func (l *Log) store(q *timestamplog.Request, r *timestamplog.Result, epoch uint64, sent, came time.Time) {
	if r.Err != nil || r.Allowed || !isCacheable(q) {
		return
	}
	hash, s := l.shard(q.LogID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if epoch != s.epoch {
		return
	}
	a := answer{cost: q.Cost, sent: sent, came: came, result: *r}
	f := s.find(hash)
	standing := f != nil && f.ref == q.LogID && f.version == q.Version && f.full.isValidAt(came)
	switch {
	case q.Cost == 1:
		next := &entry{ref: q.LogID, version: q.Version, full: a}
		if standing { // the log has not changed since, so the others hold too
			next.others = f.others
		}
		s.keep(hash, next, came)
	case standing && !sent.Before(f.full.came):
		f.keep(a)
	}
}
