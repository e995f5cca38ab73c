package memlog

import (
	"math"
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
	view := k.viewAt(now)
	n := max(0, min(limit, view.younger(int64(k.window))))
	times := make([]int64, n)
	for i := range times {
		times[i] = view.at(i)
	}
	return times
}

// view is a log as it looks at an instant.
type view struct {
	log    *keyLog
	count  int   // entries, 0 where the log is gone
	now    int64 // Unix milliseconds
	newest int64 // time of the newest entry, not after now
	behind int64 // how far the clock is behind the newest entry, else 0
}

// viewAt returns the log as it looks at now, moved back where it lies ahead of
// the clock. A nil log has no entries.
func (k *keyLog) viewAt(now int64) view {
	if k == nil || k.expired(now) {
		return view{now: now}
	}
	v := view{log: k, count: int(k.count), now: now, newest: k.newest}
	if ahead := k.newest - now; ahead > timestamplog.MaxAhead {
		v.behind, v.newest = ahead, now
	}
	return v
}

// at returns the time of the i-th newest entry.
func (v *view) at(i int) int64 { return v.newest - v.log.behind(i) }

// younger counts the entries younger than window.
func (v *view) younger(window int64) int {
	return sort.Search(v.count, func(i int) bool { return v.at(i)+window <= v.now })
}

// boundary returns the time that rule waits to age out before it allows cost,
// and whether there is one.
func (v *view) boundary(rule rules.Rule, cost int) (int64, bool) {
	i := rule.Limit - cost
	if i >= v.count {
		return 0, false
	}
	t := v.at(i)
	return t, t+rule.WindowMS() > v.now
}

// judge fills in the verdict.
func (v *view) judge(q *timestamplog.Request, r *timestamplog.Result) {
	for i, rule := range q.Rules {
		if q.Cost > rule.Limit {
			r.Allowed, r.RetryAt, r.Rule, r.Boundary = false, timestamplog.Never, i, 0
			return
		}
		t, refuses := v.boundary(rule, q.Cost)
		if retry := t + rule.WindowMS(); refuses && retry > r.RetryAt {
			r.Allowed, r.RetryAt, r.Rule, r.Boundary = false, retry, i, t
		}
	}
}

// describe fills in what each rule has left.
func (v *view) describe(q *timestamplog.Request, r *timestamplog.Result) {
	for _, rule := range q.Rules {
		state := timestamplog.RuleState{Remaining: max(0, rule.Limit-v.younger(rule.WindowMS()))}
		if q.Cost > rule.Limit {
			state.ResetMS = timestamplog.Never
		} else if t, refuses := v.boundary(rule, q.Cost); refuses {
			state.ResetMS = t + rule.WindowMS() - v.now
		}
		r.States = append(r.States, state)
	}
}
