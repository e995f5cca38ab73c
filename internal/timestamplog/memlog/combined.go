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
		asked[i] = combined{q: requests[i], r: &results[i], shard: l.shard(hash), hash: hash}
		switch {
		case isCounter(&requests[i]):
			asked[i].counting = new(counting)
		case requests[i].IsDistinct():
			asked[i].distinct = new(distinctView)
		}
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

func (t *combined) judge(now int64) {
	if t.counting != nil {
		t.shard.judgeCounter(t.counting, t.hash, now, &t.q, t.r)
		return
	}
	if t.distinct != nil {
		*t.distinct = t.shard.judgeDistinct(t.hash, now, &t.q, t.r)
		return
	}
	t.log = t.shard.judge(t.hash, now, &t.q, t.r, &t.view)
}

func (t *combined) charge(now, reservation int64) {
	switch {
	case len(t.q.Rules) == 0:
	case t.counting != nil:
		t.shard.addCounted(t.counting, t.hash, now, reservation, &t.q)
	case t.distinct != nil:
		t.shard.chargeDistinct(t.hash, t.distinct, &t.q)
	default:
		t.view = t.shard.log(t.hash, t.log, now, reservation, &t.q).viewAt(now)
	}
}

// chargeRefused charges t, which has ChargeAlways, what its own rules have left, after the
// combined request was refused.
func (t *combined) chargeRefused(now int64) {
	switch {
	case len(t.q.Rules) == 0:
	case t.r.Allowed:
		t.q.ID = ""
		t.charge(now, now)
	case t.counting != nil:
		t.shard.chargeRefusedCounter(t.counting, t.hash, now, &t.q, t.r)
	case t.distinct != nil: // one value fits or does not
	default:
		t.view = t.shard.chargeRefused(t.hash, t.log, t.view, &t.q, t.r)
	}
}

func (t *combined) describe(now int64) {
	if t.counting != nil {
		t.counting.describe(now, &t.q, t.r)
		return
	}
	if t.distinct != nil {
		t.distinct.describe(&t.q, t.r)
		return
	}
	t.view.describe(&t.q, t.r)
}

// decideAll decides requests whose shards are locked.
func decideAll(asked []combined, now int64, peek bool, maxWait int64) {
	allowed, reservation := true, now
	for i := range asked {
		t := &asked[i]
		t.q.Peek, t.q.MaxWait = peek, maxWait
		t.judge(now)
		allowed = allowed && t.r.Allowed
		reservation = max(reservation, t.r.ReservedAt)
	}
	for i := range asked {
		t := &asked[i]
		switch {
		case t.r.Replayed:
		case allowed:
			t.r.ReservedAt = reservation
			if !peek && !t.q.Uncharged {
				t.charge(now, reservation)
			}
		case t.q.ChargeAlways && !peek:
			t.chargeRefused(now)
		}
		if t.q.Detail {
			t.describe(now)
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
	if reservation.At <= now || !s.ids.knows(reservation) {
		return false
	}
	made := s.cancelEntries(hash, now, reservation)
	if k := s.logs.find(counterHash(hash), reservation.LogID); k != nil && !made {
		before := s.size(k)
		made = s.counters[k].Cancel(now, reservation.At, reservation.ID)
		s.bytes += s.size(k) - before
	}
	if made {
		s.ids.drop(reservation)
	}
	return made
}

func (s *shard) cancelEntries(hash uint64, now int64, reservation timestamplog.Reservation) bool {
	k := s.logs.find(hash, reservation.LogID)
	if k == nil || k.clockSkew(now) > 0 || !k.cancelReservation(reservation.At, reservation.Cost) {
		return false
	}
	if k.count == 0 {
		s.delete(hash, k)
	}
	return true
}
