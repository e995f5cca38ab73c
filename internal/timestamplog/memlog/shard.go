package memlog

import (
	"hash/maphash"
	"sync"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// shard is one part of the logs under one lock.
type shard struct {
	mu    sync.Mutex
	seed  maphash.Seed
	logs  index // logs with at least one entry, counters and distinct logs
	wheel wheel
	ids   ids
	// settled has the holds that were settled within IDLifetime.
	settled settledHolds
	// sources has the names of those who hold.
	sources sources
	// cancelled has the charges that were cancelled while they count.
	cancelled cancelledCharges
	// values has the values of the logs that are distinct logs.
	values    map[*keyLog][]valueTime
	stacks    timestamplog.Recent[*algorithms.Stack]
	bound     *bound
	bytes     int      // memory of the logs, without the IDs
	published int      // the part of bound.used that comes from this shard
	isFull    bool     // the check that is being decided must add no log
	scratch   []int64  // memory for the numbers of the counter that is being decided
	_         [64]byte // so that neighbouring locks do not share a cache line
}

func (s *shard) clear() {
	s.logs.clear()
	s.wheel = wheel{}
	s.ids = ids{}
	s.settled = settledHolds{}
	s.sources = nil
	s.cancelled = cancelledCharges{}
	s.bytes = 0
	s.values = make(map[*keyLog][]valueTime)
}

// add adds k to the index and the wheel.
func (s *shard) add(hash uint64, k *keyLog, now int64) {
	s.logs.add(hash, k)
	s.wheel.add(k, now)
	s.bytes += s.size(k)
}

// delete takes k out of the index and the wheel.
func (s *shard) delete(hash uint64, k *keyLog) {
	s.bytes -= s.size(k)
	s.wheel.remove(k)
	s.logs.remove(hash, k)
	if k.isDistinct() {
		delete(s.values, k)
	}
}

// decide answers q, and logs it if it is allowed and neither a peek nor Uncharged.
func (s *shard) decide(hash uint64, now int64, q *timestamplog.Request, r *timestamplog.Result) {
	var v view
	k := s.judge(hash, now, q, r, &v)
	switch {
	case q.Peek || q.Uncharged || r.Replayed || len(q.Rules) == 0:
	case r.Allowed:
		k = s.log(hash, k, now, r.ReservedAt, q)
		if q.Detail {
			v.look(k, now)
		}
	case q.Options.CountRefused || q.ChargeAlways:
		v = s.chargeRefused(hash, k, v, q, r)
	}
	if q.Detail {
		v.describe(q, r)
	}
}

// chargeRefused charges a refused request: its cost within the retention under
// Options.CountRefused, otherwise as much of it as fits. It updates the waits in r to include
// the charge. v is the view of the log before the charge; chargeRefused returns the view after
// it.
func (s *shard) chargeRefused(hash uint64, k *keyLog, v view, q *timestamplog.Request, r *timestamplog.Result) view {
	charged := *q
	charged.ID, charged.Cost = "", min(q.Cost, q.Retention.Entries)
	if !q.Options.CountRefused {
		charged.Cost = v.room(q)
	}
	if charged.Cost == 0 {
		return v
	}
	v = s.log(hash, k, v.now, v.now, &charged).viewAt(v.now)
	r.RetryAt = 0
	v.judge(q, r)
	return v
}

// judge answers q without logging it. It shifts a log that is too far ahead back, unless q is a
// peek. It returns the log, nil if there is none. It stores the view of the log in v instead of
// returning it, because a view is large and would be copied.
func (s *shard) judge(hash uint64, now int64, q *timestamplog.Request, r *timestamplog.Result, v *view) *keyLog {
	allow(r, now)
	if len(q.Rules) == 0 {
		v.look(nil, now)
		return nil
	}
	k := s.logs.find(hash, q.LogID)
	v.look(k, now)
	if v.behind > 0 && !q.Peek {
		k.shiftTimes(v.behind, q.Retention)
		s.ids.shiftTimes(q.LogID, v.behind)
		v.behind = 0
	}
	if s.ids.replay(q, r, now) {
		return k
	}
	v.judge(q, r)
	return k
}

// allow sets r to an allowed answer. It sets the fields one by one because a Result is large
// and would be copied.
func allow(r *timestamplog.Result, now int64) {
	states := r.States[:0]
	*r = timestamplog.Result{}
	r.Allowed, r.Now, r.ReservedAt, r.Rule, r.States = true, now, now, -1, states
}

// log logs q for a reservation, which is now or ahead, in k, or in a new log if k is nil. It
// returns the log, nil if there is no room for a new one.
func (s *shard) log(hash uint64, k *keyLog, now, reservation int64, q *timestamplog.Request) *keyLog {
	isNew := k == nil
	if isNew {
		// Whoever fills the memory must not lift the limits on guessing passwords.
		if s.isFull && !q.IsInternal() {
			s.bound.unkept.add(now)
			return nil
		}
		k = newKeyLog(q.LogID, q.Cost)
	}
	before := k
	if reservation > now {
		k = k.reserve(now, reservation, q.Cost, q.Retention)
	} else {
		k = k.push(now, q.Cost, q.Retention)
	}
	switch {
	case isNew:
		s.add(hash, k, now)
	case k != before:
		s.replace(hash, before, k)
	}
	if q.ID != "" {
		s.know(q, reservation, now)
	}
	return k
}

// know makes the ID of a request known that was charged for a reservation.
func (s *shard) know(q *timestamplog.Request, reservation, now int64) {
	s.ids.add(q.LogID, q.ID, reservation, q.Cost, now)
	if reservation > now {
		s.cancelled.forget(chargeID{q.LogID, q.ID, reservation, q.Cost})
	}
}

// replace puts a log of another size in the place of k.
func (s *shard) replace(hash uint64, k, with *keyLog) {
	s.logs.replace(hash, k, with)
	s.wheel.replace(k, with)
	s.bytes += s.size(with) - s.size(k)
}

// sweep examines up to budget logs that may have expired, drops those that have, and reports
// whether there may be more.
func (s *shard) sweep(now int64, budget int) (more bool) {
	if s.wheel.idle(now) {
		return false
	}
	for range budget {
		k := s.wheel.next(now)
		switch {
		case k == nil:
			return false
		case k.expired(now):
			s.delete(k.hash(s.seed), k)
		default:
			if smaller := k.shrunk(); smaller != k {
				s.replace(k.hash(s.seed), k, smaller)
				k = smaller
			}
			s.wheel.add(k, now)
		}
	}
	return true
}
