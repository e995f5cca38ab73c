package memlog

import (
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// keyLog is one log: its entries in a ring, 4 bytes each.
//
// An entry is a stamp, the low 32 bits of a millisecond count that starts
// anywhere; only differences mean something. The newest entry's time is held
// whole, so every other time follows from how far its stamp lies behind the
// newest's, and moving the whole log is one assignment. Every push drops what
// is older than the retention's window, at most 31 days, so the distances of
// up to 49 days that 32 bits can tell apart always suffice.
//
// Its fields fill the 96 bytes that the allocator hands out for it.
type keyLog struct {
	ref      timestamplog.Ref
	sameHash *keyLog
	nextDue  *keyLog // in the wheel
	ring     []uint32
	oldest   uint32 // index of the oldest entry in ring
	count    uint32
	newest   int64  // time of the newest entry, Unix milliseconds
	window   uint32 // milliseconds after which the log expires
}

// maxWindow is the longest distance that stamps can tell apart.
const maxWindow = math.MaxUint32

// newKeyLog returns a log without entries, which is to be pushed to before it
// is added to a shard. The key is copied: it may be part of a larger text.
func newKeyLog(ref timestamplog.Ref) *keyLog {
	ref.Key = strings.Clone(ref.Key)
	return &keyLog{ref: ref}
}

// due is when the log expires.
func (k *keyLog) due() int64 { return k.newest + int64(k.window) }

func (k *keyLog) expired(now int64) bool { return now >= k.due() }

// stamp returns the i-th newest stamp; 0 is the newest.
func (k *keyLog) stamp(i int) uint32 {
	at := int(k.oldest) + int(k.count) - 1 - i
	if at >= len(k.ring) {
		at -= len(k.ring)
	}
	return k.ring[at]
}

// behind returns by how many milliseconds the i-th newest entry is older than
// the newest.
func (k *keyLog) behind(i int) int64 { return int64(k.stamp(0) - k.stamp(i)) }

// moveBack moves the log so that its newest entry is now.
func (k *keyLog) moveBack(now int64, keep rules.Retention) {
	k.newest = now
	k.window = windowOf(keep)
}

// push logs cost entries at now, which must not be before the newest, and
// drops what keep does not keep.
func (k *keyLog) push(now int64, cost int, keep rules.Retention) {
	window := windowOf(keep)
	k.drop(now, int64(window), keep.Entries-cost)
	k.makeRoom(int(k.count)+cost, keep.Entries)
	stamp := uint32(0)
	if k.count > 0 {
		stamp = k.stamp(0) + uint32(now-k.newest)
	}
	for range cost {
		at := int(k.oldest) + int(k.count)
		if at >= len(k.ring) {
			at -= len(k.ring)
		}
		k.ring[at] = stamp
		k.count++
	}
	k.newest, k.window = now, window
}

// drop drops the entries that are as old as window at now, all of them where
// the log has expired, and all but the newest most.
func (k *keyLog) drop(now, window int64, most int) {
	if k.count == 0 || k.expired(now) {
		k.count = 0
		return
	}
	age := now - k.newest // the age of the newest
	for k.count > 0 && (int(k.count) > most || age+k.behind(int(k.count)-1) >= window) {
		k.dropOldest()
	}
}

func windowOf(keep rules.Retention) uint32 {
	return uint32(min(keep.Window.Milliseconds(), maxWindow))
}

func (k *keyLog) dropOldest() {
	k.oldest++
	if int(k.oldest) == len(k.ring) {
		k.oldest = 0
	}
	k.count--
}

// makeRoom grows the ring for need entries: by doubling, so that pushes stay
// cheap, but to no more than most, so that a full log wastes nothing.
func (k *keyLog) makeRoom(need, most int) {
	if need > len(k.ring) {
		k.resize(max(need, min(2*len(k.ring), most)))
	}
}

// shrink gives back a ring that has become much too large.
func (k *keyLog) shrink() {
	if 4*int(k.count) <= len(k.ring) {
		k.resize(2 * int(k.count))
	}
}

func (k *keyLog) resize(size int) {
	ring := make([]uint32, size)
	n := copy(ring, k.ring[k.oldest:min(int(k.oldest+k.count), len(k.ring))])
	copy(ring[n:], k.ring[:int(k.count)-n])
	k.ring, k.oldest = ring, 0
}

// forget drops every entry.
func (k *keyLog) forget() { k.ring, k.oldest, k.count = nil, 0, 0 }

// times returns the times of the entries younger than the log's window, the
// newest first, at most limit.
func (k *keyLog) times(now int64, limit int) []int64 {
	v := k.viewAt(now)
	n := max(0, min(limit, v.younger(int64(k.window), 0)))
	times := make([]int64, n)
	for i := range times {
		times[i] = v.at(i)
	}
	return times
}

// view is a log as it looks at an instant.
type view struct {
	log    *keyLog
	count  int    // entries, 0 where the log is gone
	stamp  uint32 // of the newest entry
	now    int64  // Unix milliseconds
	newest int64  // time of the newest entry, not after now
	behind int64  // how far the clock is behind the newest entry, else 0
}

// viewAt returns the log as it looks at now, moved back where it lies ahead of
// the clock. A nil log has no entries.
func (k *keyLog) viewAt(now int64) view {
	if k == nil || k.expired(now) {
		return view{now: now}
	}
	v := view{log: k, count: int(k.count), stamp: k.stamp(0), now: now, newest: k.newest}
	if ahead := k.newest - now; ahead > timestamplog.MaxAhead {
		v.behind, v.newest = ahead, now
	}
	return v
}

// at returns the time of the i-th newest entry.
func (v *view) at(i int) int64 { return v.newest - int64(v.stamp-v.log.stamp(i)) }

// younger counts the entries younger than window, of which there are known to
// be least or more.
func (v *view) younger(window int64, least int) int {
	return least + sort.Search(v.count-least, func(i int) bool { return v.at(least+i)+window <= v.now })
}

// judge fills in the verdict.
func (v *view) judge(q *timestamplog.Request, r *timestamplog.Result) {
	for i, rule := range q.Rules {
		boundary := rule.Limit - q.Cost
		switch {
		case boundary < 0:
			r.Allowed, r.RetryAt, r.Rule, r.Boundary = false, timestamplog.Never, i, 0
			r.RefusedUntil = timestamplog.Never
			return
		case boundary >= v.count:
			continue
		}
		t := v.at(boundary)
		if retry := t + rule.WindowMS(); retry > v.now && retry > r.RetryAt {
			r.Allowed, r.RetryAt, r.Rule, r.Boundary = false, retry, i, t
			r.RefusedUntil = min(retry, v.newest+int64(v.log.window))
		}
	}
}

// describe fills in what each rule has left. The rules come with the shortest
// window first, so each finds at least as many entries as the one before.
func (v *view) describe(q *timestamplog.Request, r *timestamplog.Result) {
	used := 0
	r.States = slices.Grow(r.States, len(q.Rules))
	for _, rule := range q.Rules {
		used = v.younger(rule.WindowMS(), used)
		state := timestamplog.RuleState{Remaining: max(0, rule.Limit-used)}
		switch {
		case q.Cost > rule.Limit:
			state.ResetMS = timestamplog.Never
		case q.Cost > rule.Limit-used:
			state.ResetMS = v.at(rule.Limit-q.Cost) + rule.WindowMS() - v.now
		}
		r.States = append(r.States, state)
	}
}
