package memlog

import (
	"context"
	"slices"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// DecideAll answers requests about different logs as one. Its only error is that of a context
// that has ended; nothing is charged then.
func (l *Log) DecideAll(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	asked := make([]combined, len(requests))
	shards := make([]int, 0, len(requests))
	peek, maxWait := false, timestamplog.MaxWait
	for i := range requests {
		hash := hashOf(l.seed, requests[i].LogID)
		asked[i] = newCombined(l.shard(hash), hash, &requests[i], &results[i])
		shards = append(shards, int(hash&(shardCount-1)))
		peek, maxWait = peek || requests[i].Peek, min(maxWait, requests[i].MaxWait)
	}
	// Shards are locked in the order of their index, so that two calls cannot deadlock.
	slices.Sort(shards)
	shards = slices.Compact(shards)
	for _, i := range shards {
		l.shards[i].mu.Lock()
		defer l.shards[i].mu.Unlock()
	}
	now := l.now().UnixMilli() // under all locks, as decide reads it
	for _, i := range shards {
		l.shards[i].sweep(now, sweepPerCheck*len(requests))
		l.makeRoom(&l.shards[i], now)
	}
	decideAll(asked, now, peek, maxWait)
	for _, i := range shards {
		l.shards[i].publish()
	}
	return nil
}

// combined is one of several requests that are decided as one.
type combined struct {
	q         timestamplog.Request
	r         *timestamplog.Result
	shard     *shard
	hash      uint64
	log       *keyLog
	view      view
	*counting               // set under a counter, which uses neither log nor view; else nil
	distinct  *distinctView // set under distinct rules, which use neither log nor view; else nil
}

func newCombined(s *shard, hash uint64, q *timestamplog.Request, r *timestamplog.Result) combined {
	c := combined{q: *q, r: r, shard: s, hash: hash}
	switch {
	case isCounter(q):
		c.counting = new(counting)
	case q.IsDistinct():
		c.distinct = new(distinctView)
	}
	return c
}

func (c *combined) judge(now int64) {
	if c.counting != nil {
		c.shard.judgeCounter(c.counting, c.hash, now, &c.q, c.r)
		return
	}
	if c.distinct != nil {
		*c.distinct = c.shard.judgeDistinct(c.hash, now, &c.q, c.r)
		return
	}
	c.log = c.shard.judge(c.hash, now, &c.q, c.r, &c.view)
}

func (c *combined) charge(now, reservation int64) {
	switch {
	case len(c.q.Rules) == 0:
	case c.counting != nil:
		c.shard.addCounted(c.counting, c.hash, now, reservation, &c.q)
	case c.distinct != nil:
		c.shard.chargeDistinct(c.hash, c.distinct, &c.q)
	default:
		c.view = c.shard.log(c.hash, c.log, now, reservation, &c.q).viewAt(now)
	}
}

// chargeRefused charges c, which has ChargeAlways, what its own rules have left, after the
// combined request was refused.
func (c *combined) chargeRefused(now int64) {
	switch {
	case len(c.q.Rules) == 0:
	case c.r.Allowed:
		c.q.ID = ""
		c.charge(now, now)
	case c.counting != nil:
		c.shard.chargeRefusedCounter(c.counting, c.hash, now, &c.q, c.r)
	case c.distinct != nil: // one value fits or does not
	default:
		c.view = c.shard.chargeRefused(c.hash, c.log, c.view, &c.q, c.r)
	}
}

func (c *combined) describe(now int64) {
	if c.counting != nil {
		c.counting.describe(now, &c.q, c.r)
		return
	}
	if c.distinct != nil {
		c.distinct.describe(&c.q, c.r)
		return
	}
	c.view.describe(&c.q, c.r)
}

// decideAll decides requests whose shards are locked.
func decideAll(asked []combined, now int64, peek bool, maxWait int64) {
	allowed, reservation := true, now
	for i := range asked {
		c := &asked[i]
		c.q.Peek, c.q.MaxWait = peek, maxWait
		c.judge(now)
		allowed = allowed && c.r.Allowed
		reservation = max(reservation, c.r.ReservedAt)
	}
	for i := range asked {
		c := &asked[i]
		switch {
		case c.r.Replayed:
		case allowed:
			c.r.ReservedAt = reservation
			if !peek && !c.q.Uncharged {
				c.charge(now, reservation)
			}
		case c.q.ChargeAlways && !peek:
			c.chargeRefused(now)
		}
		if c.q.Detail {
			c.describe(now)
		}
	}
}

// Cancel cancels a reservation. It never fails.
func (l *Log) Cancel(_ context.Context, reservation timestamplog.Reservation) (bool, error) {
	hash := hashOf(l.seed, reservation.LogID)
	s := l.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.publish()
	return s.cancelReservation(hash, l.now().UnixMilli(), reservation), nil
}

func (s *shard) cancelReservation(hash uint64, now int64, reservation timestamplog.Reservation) bool {
	isAhead := reservation.At > now
	s.bytes -= s.cancelled.sweep(now)
	if s.cancelled.isFull(reservation) {
		return false
	}
	if isAhead && !s.ids.knows(reservation) || !isAhead && !s.cancelled.allows(reservation, now) {
		return false
	}
	freed := s.cancelEntries(hash, now, reservation)
	if k := s.logs.find(counterHash(hash), reservation.LogID); k != nil && !freed && !k.expired(now) {
		before := s.size(k)
		if state := stateOf(k); isAhead {
			freed = state.Cancel(now, reservation.At, reservation.ID)
		} else {
			freed = state.CancelCharge(now, reservation.At, int64(reservation.Cost))
		}
		if s.bytes += s.size(k) - before; len(stateOf(k).Numbers) == 0 {
			s.delete(counterHash(hash), k)
		}
	}
	if freed {
		s.ids.drop(reservation)
		s.bytes += s.cancelled.add(reservation)
	}
	return freed
}

func (s *shard) cancelEntries(hash uint64, now int64, reservation timestamplog.Reservation) bool {
	k := s.logs.find(hash, reservation.LogID)
	if k == nil || k.expired(now) || k.clockSkew(now) > 0 || !k.cancelReservation(reservation.At, reservation.Cost) {
		return false
	}
	if k.count == 0 {
		s.delete(hash, k)
	}
	return true
}
