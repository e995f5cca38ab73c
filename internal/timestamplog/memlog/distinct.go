package memlog

import (
	"math"
	"slices"
	"sort"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// A distinct log holds the values that distinct rules count, each with the time at which it was
// last allowed. Like a counter it is a keyLog without entries and with a hash of its own. Its
// values are stored separately, in shard.values.

// distinctMark is the value of keyLog.reserved that marks a distinct log.
const distinctMark = math.MaxUint32 - 1

func (k *keyLog) isDistinct() bool { return k.reserved == distinctMark }

// distinctHash returns the hash of the distinct log of an ID. Both belong to the same shard.
func distinctHash(hash uint64) uint64 { return hash ^ 1<<62 }

// valueTime is the hash of a value and the time at which the value was last allowed.
type valueTime struct {
	value uint64
	at    int64 // Unix milliseconds
}

// newDistinct returns a distinct log. It must be charged before it is added to a shard.
func newDistinct(id timestamplog.LogID) *keyLog {
	k := newKeyLog(id, 0)
	k.count, k.reserved = 1, distinctMark
	return k
}

// distinctView is a distinct log as of an instant.
type distinctView struct {
	log    *keyLog     // nil if there is none
	values []valueTime // by their times, the oldest first; not shifted
	now    int64       // Unix milliseconds
	behind int64       // how many milliseconds this view shifts the log back
}

// viewDistinct returns the log of q as of now.
func (s *shard) viewDistinct(hash uint64, now int64, id timestamplog.LogID) distinctView {
	v := distinctView{log: s.logs.find(distinctHash(hash), id), now: now}
	if v.log != nil && !v.log.expired(now) {
		v.values, v.behind = s.values[v.log], max(0, v.log.newest-now)
	}
	return v
}

// at returns the time of the i-th newest value.
func (v *distinctView) at(i int) int64 { return v.values[len(v.values)-1-i].at - v.behind }

// inWindow counts the values whose time is younger than window.
func (v *distinctView) inWindow(window int64) int {
	return sort.Search(len(v.values), func(i int) bool { return v.at(i)+window <= v.now })
}

// place returns the index of a value in v.values, -1 if it is not there.
func (v *distinctView) place(value uint64) int {
	return slices.IndexFunc(v.values, func(t valueTime) bool { return t.value == value })
}

// decideDistinct answers q, and charges it if it is allowed and neither a peek nor Uncharged.
func (s *shard) decideDistinct(hash uint64, now int64, q *timestamplog.Request, r *timestamplog.Result) {
	v := s.judgeDistinct(hash, now, q, r)
	if r.Allowed && !r.Replayed && !q.Peek && !q.Uncharged {
		s.chargeDistinct(hash, &v, q)
	}
	if q.Detail {
		v.describe(q, r)
	}
}

// judgeDistinct answers q without charging it. It shifts a log that is ahead of now back,
// unless q is a peek.
func (s *shard) judgeDistinct(hash uint64, now int64, q *timestamplog.Request, r *timestamplog.Result) distinctView {
	allow(r, now)
	v := s.viewDistinct(hash, now, q.LogID)
	if v.behind > 0 && !q.Peek {
		for i := range v.values {
			v.values[i].at -= v.behind
		}
		v.log.shiftTimes(v.behind, q.Retention)
		s.ids.shiftTimes(q.LogID, v.behind)
		v.behind = 0
	}
	if s.ids.replay(q, r, now) {
		return v
	}
	v.judge(q, r)
	return v
}

// judge fills in r. Each rule allows the value of q if at most limit - 1 other values are in
// its window. Otherwise it waits until the limit-th newest of the others has left the window.
func (v *distinctView) judge(q *timestamplog.Request, r *timestamplog.Result) {
	own := len(v.values) // as an index of at
	if at := v.place(q.Value); at >= 0 && q.Value != 0 {
		own = len(v.values) - 1 - at
	}
	free, by := v.now, -1
	for i, rule := range q.Rules {
		boundary := rule.Limit - 1
		if own <= boundary {
			boundary++
		}
		if boundary >= len(v.values) {
			continue
		}
		if end := v.at(boundary) + rule.WindowMS(); end > free {
			free, by = end, i
		}
	}
	if r.ReservedAt = free; free-v.now > q.MaxWait {
		refuse(r, free-q.MaxWait, by, free-q.Rules[by].WindowMS())
		r.RefusalValidUntil = min(r.RetryAt, v.log.expiresAt()-v.behind)
	}
}

// chargeDistinct stores the value of q with v's time, and drops what q's retention does not
// keep.
func (s *shard) chargeDistinct(hash uint64, v *distinctView, q *timestamplog.Request) {
	window := int64(windowOf(q.Retention))
	isNew := v.log == nil
	if isNew {
		if s.isFull {
			s.bound.unkept.add(v.now)
			return
		}
		v.log = newDistinct(q.LogID)
	}
	before := cap(s.values[v.log])
	kept := v.values
	if at := v.place(q.Value); at >= 0 {
		kept = slices.Delete(kept, at, at+1)
	}
	old := sort.Search(len(kept), func(i int) bool { return v.now-kept[i].at < window })
	kept = slices.Delete(kept, 0, old)
	// Values of the same time are sorted by their hashes, as on Redis.
	place := sort.Search(len(kept), func(i int) bool { return kept[i].at == v.now && kept[i].value > q.Value })
	kept = slices.Insert(kept, place, valueTime{q.Value, v.now})
	// Keep one more than the largest limit, since the requested value may be one of the stored
	// ones. Otherwise a stricter policy that applied for a while would let more values than the
	// limit into a window.
	kept = slices.Delete(kept, 0, max(0, len(kept)-q.Retention.Entries-1))
	s.values[v.log], v.values = kept, kept
	v.log.newest, v.log.window = v.now, uint32(window)
	if isNew {
		s.add(distinctHash(hash), v.log, v.now)
	} else {
		s.bytes += 16 * (cap(kept) - before)
	}
	if q.ID != "" {
		s.ids.add(q.LogID, q.ID, v.now, q.Cost, v.now)
	}
}

// describe fills in the States of r, which are about a value that does not count yet.
func (v *distinctView) describe(q *timestamplog.Request, r *timestamplog.Result) {
	r.States = slices.Grow(r.States, len(q.Rules))
	for _, rule := range q.Rules {
		used := v.inWindow(rule.WindowMS())
		state := timestamplog.RuleState{Remaining: max(0, rule.Limit-used)}
		if state.Remaining == 0 {
			state.RetryAfterMS = v.at(rule.Limit-1) + rule.WindowMS() - v.now
		}
		if used > 0 {
			state.ResetAfterMS = v.at(0) + rule.WindowMS() - v.now
		}
		r.States = append(r.States, state)
	}
}

// times returns the times of the values younger than the log's window, the newest first,
// at most limit.
func (v *distinctView) times(limit int) []int64 {
	if v.log == nil {
		return nil
	}
	times := make([]int64, max(0, min(limit, v.inWindow(int64(v.log.window)))))
	for i := range times {
		times[i] = v.at(i)
	}
	return times
}
