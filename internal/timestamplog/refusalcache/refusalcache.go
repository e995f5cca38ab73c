// Package refusalcache is a Log in front of a remote one. It caches refusals on
// this node, so that a key that keeps asking is answered without the remote log.
//
// Why cached answers are exact. While a log refuses a cost of 1, it refuses every
// cost, and only allowed requests change a log. So from such a refusal until its
// RetryAt no node changes the log, and every answer in that time is known, except for
// the time that has passed. Five other things can change the answer:
//
//   - A policy change makes a new version, and a refusal of another version is
//     not served. A limit of the key's own makes a version for as long as it lasts, and may
//     allow what the policy refuses. The entry is removed at once on a node that is asked
//     under another version. Other nodes report the earlier wait for at most MaxAge, and
//     still refuse.
//   - A reset removes the entry at once on the node that ordered it, before it is
//     acknowledged. Other nodes are notified by Forget; if that message is lost,
//     MaxAge bounds how long they serve the old refusal.
//   - A block, added or ended, is decided before the log is asked.
//   - A log that was lost, or whose clock stepped back, would answer differently.
//     For at most MaxAge the cache then refuses what could have been allowed,
//     never the other way round.
//   - A reservation that is made or cancelled changes the wait of requests without
//     a MaxWait, and so does a value that already counts and is sent again, and a refusal
//     under Options.CountRefused, without which the gate asks about several keys apart. The
//     entry is removed at once on the node that decided this. Other nodes report the earlier
//     wait for at most MaxAge, and still refuse.
//
// A request is never answered from the cache if it has a MaxWait, an ID, a value,
// ChargeAlways or Options.CountRefused, if it is a peek, or if it is part of a
// DecideAll. A charge of ChargeAlways never invalidates an entry: while a cost of 1 is
// refused, nothing fits, so nothing is charged.
//
// A refusal of a cost above 1 says nothing about smaller costs, which may be
// allowed and then make the larger cost wait longer. It is served only while a refusal
// of a cost of 1 is valid, and only for the same cost: a larger cost is refused too,
// but its wait depends on entries that the node does not know. The exception is a
// rule that never allows anything.
//
// The node measures the age of an entry by its own steady clock, so that no two
// clocks are compared. A refusal is served until RetryAt, or until the log expires if
// that is earlier. This time is counted from when the request was sent to the log, and
// the waits in the refusal from when the answer came. Both err on the side of refusing.
package refusalcache

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
)

const (
	// MaxAge bounds how long a refusal is served without asking the log again.
	MaxAge = 2 * time.Second
	// margin is how much earlier a refusal ends: Redis rounds its clock down to the
	// millisecond, and two clocks may drift by another millisecond in MaxAge.
	margin = 2 * time.Millisecond
)

// DefaultSize is how many keys are cached if Options.Size is 0: at about 250 bytes
// each, and twice as many in the worst case, 32 MB.
const DefaultSize = 1 << 16

// Options are the settings of a Log. The zero value is ready for use.
type Options struct {
	// Size is the maximum number of keys; up to twice as many are held
	// temporarily. 0 means DefaultSize.
	Size int
	// Now is the node's own clock, which must be steady; nil means time.Now.
	Now func() time.Time
}

const shardCount = 64

// Log is a timestamplog.Log that answers from its cache if it can and from another Log
// otherwise.
type Log struct {
	timestamplog.Log
	now    func() time.Time
	seed   maphash.Seed
	shards [shardCount]shard
}

var _ timestamplog.Log = (*Log)(nil)

// New returns a Log that caches the refusals of log.
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
	return l
}

// Decide answers each request from the cache or from the log.
func (l *Log) Decide(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) {
	if len(requests) == 1 {
		l.decideOne(ctx, requests, results)
		return
	}
	var (
		sent   = l.now()
		asked  = make([]timestamplog.Request, 0, len(requests)) // the requests that the cache does not answer,
		places = make([]int, 0, len(requests))                  // their indexes in requests,
		epochs = make([]uint64, 0, len(requests))               // and the epochs of their shards
	)
	reserves := false // an earlier request may make a reservation
	for i := range requests {
		known, epoch := l.lookup(&requests[i], sent, &results[i], reserves)
		if known {
			continue
		}
		reserves = reserves || requests[i].MaxWait > 0
		asked, places, epochs = append(asked, requests[i]), append(places, i), append(epochs, epoch)
	}
	switch len(asked) {
	case 0:
		return
	case len(requests):
		l.Log.Decide(ctx, requests, results)
	default:
		answers := make([]timestamplog.Result, len(asked))
		l.Log.Decide(ctx, asked, answers)
		for n, i := range places {
			results[i] = answers[n]
		}
	}
	var came time.Time
	for n, i := range places {
		if !isRefusal(&results[i]) {
			continue
		}
		if came.IsZero() {
			came = l.now()
		}
		l.store(&asked[n], &results[i], epochs[n], sent, came)
	}
	for n, i := range places { // last, because store discards what was requested before a removal
		l.forgetReserved(&asked[n], &results[i])
	}
}

// decideOne is Decide for one request. It allocates nothing.
func (l *Log) decideOne(ctx context.Context, request []timestamplog.Request, result []timestamplog.Result) {
	q, r, sent := &request[0], &result[0], l.now()
	known, epoch := l.lookup(q, sent, r, false)
	if known {
		return
	}
	l.Log.Decide(ctx, request, result)
	if isRefusal(r) {
		l.store(q, r, epoch, sent, l.now())
	}
	l.forgetReserved(q, r)
}

// forgetReserved removes the entry of q's log if a reservation was made, a value charged or a
// refusal counted, or if one of these may have happened.
func (l *Log) forgetReserved(q *timestamplog.Request, r *timestamplog.Result) {
	reserved := q.MaxWait > 0 && (r.ReservedAt > r.Now || r.Err != nil)
	if !q.Peek && !q.Uncharged && (reserved || q.Value != 0 || q.Options.CountRefused) {
		l.Forget(q.LogID)
	}
}

// Reset deletes a log and its cache entry.
func (l *Log) Reset(ctx context.Context, id timestamplog.LogID) (bool, error) {
	existed, err := l.Log.Reset(ctx, id)
	l.Forget(id) // afterwards: requests from now on find the log empty
	return existed, err
}

// DecideAll asks the log, and removes the entries of the logs that were or may have been
// charged.
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

// Cancel cancels a reservation, and removes the entry of its log.
func (l *Log) Cancel(ctx context.Context, reservation timestamplog.Reservation) (bool, error) {
	freed, err := l.Log.Cancel(ctx, reservation)
	if freed || err != nil {
		l.Forget(reservation.LogID)
	}
	return freed, err
}

// Settle ends or renews a hold, and removes the entry of its log.
func (l *Log) Settle(ctx context.Context, m timestamplog.Settlement) (timestamplog.Settled, error) {
	settled, err := l.Log.Settle(ctx, m)
	l.Forget(m.LogID)
	return settled, err
}

// Forget removes the entry of id, so that the next request asks the log.
func (l *Log) Forget(id timestamplog.LogID) {
	hash, s := l.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(hash)
}

// ForgetAll removes all entries, because resets may have been missed.
func (l *Log) ForgetAll() {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		s.epoch++
		s.young, s.old = nil, nil
		s.mu.Unlock()
	}
}

func (l *Log) shard(id timestamplog.LogID) (hash uint64, s *shard) {
	hash = maphash.Comparable(l.seed, id)
	return hash, &l.shards[hash%shardCount]
}

// isCacheable reports whether a refusal of q writes nothing and is the same for
// every caller.
func isCacheable(q *timestamplog.Request) bool {
	return !q.Peek && q.MaxWait == 0 && (q.ID == "" || q.IsNewID) && q.Value == 0 && !q.Options.CountRefused && !q.ChargeAlways
}

// lookup fills in r from the cache, if it has the answer to q and ask is false. Otherwise it
// returns the epoch of q's shard, for store.
func (l *Log) lookup(q *timestamplog.Request, now time.Time, r *timestamplog.Result, ask bool) (known bool, epoch uint64) {
	if q.Peek {
		return false, 0
	}
	hash, s := l.shard(q.LogID)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(hash)
	if e != nil && e.id == q.LogID && e.version != q.Version {
		s.forget(hash)
		return false, s.epoch
	}
	if ask || e == nil || e.id != q.LogID || !isCacheable(q) || !e.full.isValidAt(now) {
		return false, s.epoch
	}
	a := e.answerTo(q.Cost, q.Detail)
	return a != nil && a.fill(q.Detail, now, r), s.epoch
}

func isRefusal(r *timestamplog.Result) bool { return r.Err == nil && !r.Allowed }

// store caches the answer to q, which is a refusal, if it may be served again.
func (l *Log) store(q *timestamplog.Request, r *timestamplog.Result, epoch uint64, sent, came time.Time) {
	if !isCacheable(q) {
		return
	}
	hash, s := l.shard(q.LogID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if epoch != s.epoch {
		return
	}
	a := answer{cost: q.Cost, sent: sent, came: came, result: *r}
	a.result.States = slices.Clone(r.States) // the caller reuses the memory of the States
	e := s.find(hash)
	isValid := e != nil && e.id == q.LogID && e.version == q.Version && e.full.isValidAt(came)
	switch {
	case q.Cost == 1:
		next := &entry{id: q.LogID, version: q.Version, full: a}
		if isValid { // the log has not changed since, so the other answers hold too
			next.others = e.others
		}
		s.keep(hash, next, came)
	case isValid && !sent.Before(e.full.came):
		e.keep(a)
	}
}
