package memlog

import (
	"math"
	"slices"
	"sort"
	"strings"
	"unique"
	"unsafe"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// keyLog is one log: its entries in a ring, 4 bytes each.
//
// An entry is a stamp, the low 32 bits of a millisecond count with an arbitrary
// origin; only differences mean something. The newest entry's time is stored in full,
// so every other time follows from the difference of the stamps, and shifting the log
// is one assignment. Every push drops what is older than the retention's window, at
// most 31 days, so the distances of up to 49 days that 32 bits distinguish always
// suffice.
//
// A short log stores its key and its ring directly behind the struct, so that a check that
// finds the log has all that it needs in one place. A log that must grow is replaced by a
// larger one.
//
// Fast path. Plain version: a timestamplog.LogID and a []uint32, which are three allocations and
// 96 bytes instead of 64. Benchmarks: BenchmarkMemory/1_entries, 121 bytes a key instead of 143,
// and BenchmarkDecide/cold, 0.75 of the time of a version with separate memory for the key and
// the ring. The policy and the generation are stored once for all logs that share them.
type keyLog struct {
	owner      unique.Handle[owner]
	nextInSlot *keyLog  // next log of the slot of the wheel
	link       **keyLog // the pointer to this log in the wheel; nil outside the wheel
	memory     *uint32  // the key followed by the ring; for a longLog only the ring
	newest     int64    // time of the newest entry, Unix milliseconds
	keyBytes   uint32   // longMark for a longLog
	room       uint32   // how many entries the ring has room for
	oldest     uint32   // index of the oldest entry in the ring
	count      uint32
	window     uint32 // milliseconds after which the log expires
	reserved   uint32 // how many of the newest entries were made for reservations
}

// shortLog is a log followed by its memory, an array of words.
type shortLog[T any] struct {
	keyLog
	words T
}

// longLog is a log with separate memory for its ring, because it has many entries or a long
// key.
type longLog struct {
	keyLog
	key string
}

// longMark is the value of keyBytes that marks a longLog.
const longMark = math.MaxUint32

// owner is what all logs of one generation of a policy have in common.
type owner struct{ policy, generation int64 }

// newKeyLog returns a log with no entries and room for at least room of them. It must be pushed
// to before it is added to a shard. The key is copied, because it may be part of a larger
// string.
func newKeyLog(id timestamplog.LogID, room int) *keyLog {
	return allocate(unique.Make(owner{id.Policy, id.Generation}), id.Key, room)
}

func allocate(by unique.Handle[owner], key string, room int) *keyLog {
	keyWords := (len(key) + 3) / 4
	k, words := newShortLog(keyWords + room)
	if k == nil {
		long := &longLog{keyLog{keyBytes: longMark}, strings.Clone(key)}
		k, words, keyWords = &long.keyLog, make([]uint32, room), 0
	} else {
		k.keyBytes = uint32(len(key))                                                       //nolint:gosec // or it would be long
		copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(key)), key) //nolint:gosec // there is as much
	}
	k.owner, k.memory, k.room = by, unsafe.SliceData(words), uint32(len(words)-keyWords) //nolint:gosec // limits have a maximum
	return k
}

// newShortLog returns a log and its memory of at least that many words, or nil if the log must
// be a longLog. The sizes are size classes of Go's allocator.
func newShortLog(words int) (*keyLog, []uint32) {
	switch {
	case words <= 4:
		return newShort[[4]uint32]()
	case words <= 8:
		return newShort[[8]uint32]()
	case words <= 12:
		return newShort[[12]uint32]()
	case words <= 16:
		return newShort[[16]uint32]()
	case words <= 24:
		return newShort[[24]uint32]()
	case words <= 32:
		return newShort[[32]uint32]()
	case words <= 48:
		return newShort[[48]uint32]()
	case words <= 64:
		return newShort[[64]uint32]()
	case words <= 96:
		return newShort[[96]uint32]()
	}
	return nil, nil
}

func newShort[T any]() (*keyLog, []uint32) {
	l := new(shortLog[T])
	return &l.keyLog, unsafe.Slice((*uint32)(unsafe.Pointer(&l.words)), unsafe.Sizeof(l.words)/4) //nolint:gosec // T is an array of uint32
}

// idOf returns the name of a log.
func idOf(k *keyLog) timestamplog.LogID {
	o := k.owner.Value()
	return timestamplog.LogID{Policy: o.policy, Generation: o.generation, Key: keyOf(k)}
}

// hasID reports whether id is the name of a log.
func hasID(k *keyLog, id *timestamplog.LogID) bool {
	return keyOf(k) == id.Key && k.owner.Value() == owner{id.Policy, id.Generation}
}

// keyOf returns the key of a log, whose bytes never change.
func keyOf(k *keyLog) string {
	if k.keyBytes == longMark {
		return (*longLog)(unsafe.Pointer(k)).key //nolint:gosec // it is one
	}
	return unsafe.String((*byte)(unsafe.Pointer(k.memory)), k.keyBytes) //nolint:gosec // allocate stores both
}

// keyWords returns how many words of a log's memory its key takes.
func keyWords(k *keyLog) int {
	if k.keyBytes == longMark {
		return 0
	}
	return (int(k.keyBytes) + 3) / 4
}

// ringOf returns the memory of the entries of a log.
func ringOf(k *keyLog) []uint32 {
	if k.room == 0 {
		return nil
	}
	return unsafe.Slice((*uint32)(unsafe.Add(unsafe.Pointer(k.memory), 4*keyWords(k))), k.room) //nolint:gosec // allocate stores all three
}

// maxWindow is the longest time span that stamps can express, in milliseconds.
const maxWindow = math.MaxUint32

// expiresAt is when the log expires.
func (k *keyLog) expiresAt() int64 { return k.newest + int64(k.window) }

func (k *keyLog) expired(now int64) bool { return now >= k.expiresAt() }

// stamp returns the i-th newest stamp; 0 is the newest.
func (k *keyLog) stamp(i int) uint32 { return ringOf(k)[k.place(i)] }

// place returns the index of the i-th newest stamp in the ring.
func (k *keyLog) place(i int) int {
	at := int(k.oldest) + int(k.count) - 1 - i
	if at >= int(k.room) {
		at -= int(k.room)
	}
	return at
}

// behind returns by how many milliseconds the i-th newest entry is older than
// the newest.
func (k *keyLog) behind(i int) int64 {
	ring := ringOf(k)
	return int64(ring[k.place(0)] - ring[k.place(i)])
}

// shiftTimes shifts the whole log back by that many milliseconds.
func (k *keyLog) shiftTimes(by int64, keep rules.Retention) {
	k.newest -= by
	k.window = windowOf(keep)
}

// push logs cost entries at now, which must not be before the newest entry, and drops what keep
// does not retain. It returns the log with the entries: k, or a larger one.
func (k *keyLog) push(now int64, cost int, keep rules.Retention) *keyLog {
	window := windowOf(keep)
	k.drop(now, int64(window), keep.Entries-cost)
	k = k.withRoom(int(k.count)+cost, keep.Entries)
	k.append(now, cost)
	k.window, k.reserved = window, 0
	return k
}

// append adds cost entries at an instant that is not before the newest. The
// ring has room for them.
func (k *keyLog) append(at int64, cost int) {
	stamp, ring := uint32(0), ringOf(k)
	if k.count > 0 {
		stamp = ring[k.place(0)] + uint32(at-k.newest)
	}
	for range cost {
		end := int(k.oldest) + int(k.count)
		if end >= len(ring) {
			end -= len(ring)
		}
		ring[end] = stamp
		k.count++
	}
	k.newest = at
}

// drop drops the entries that are at least window old at now, and all but the newest maxCount.
// It drops all entries if the log has expired.
func (k *keyLog) drop(now, window int64, maxCount int) {
	if k.count == 0 || k.expired(now) {
		k.count = 0
		return
	}
	age := now - k.newest // of the newest entry
	for k.count > 0 && (int(k.count) > maxCount || age+k.behind(int(k.count)-1) >= window) {
		k.dropOldest()
	}
}

func windowOf(keep rules.Retention) uint32 {
	return uint32(min(keep.Window.Milliseconds(), maxWindow))
}

func (k *keyLog) dropOldest() {
	k.oldest++
	if k.oldest == k.room {
		k.oldest = 0
	}
	k.count--
}

// withRoom returns k, or a replacement with room for need entries if k has too little. It
// doubles the room so that pushes stay cheap, but not much beyond maxRoom, so that a full log
// wastes no memory.
func (k *keyLog) withRoom(need, maxRoom int) *keyLog {
	if room := int(k.room); need > room {
		return k.resized(max(need, min(2*room, maxRoom)))
	}
	return k
}

// shrunk returns k, or a smaller replacement if the ring has become much too large. Counters
// and distinct logs are never replaced: they use no ring, and their states are found by the
// pointer k.
func (k *keyLog) shrunk() *keyLog {
	if 4*int(k.count) <= int(k.room) && !k.isCounter() && !k.isDistinct() {
		if smaller := k.resized(2 * int(k.count)); smaller.room < k.room {
			return smaller
		}
	}
	return k
}

// resized returns a copy of k with room for at least that many entries.
func (k *keyLog) resized(room int) *keyLog {
	to := allocate(k.owner, keyOf(k), room)
	to.newest, to.count, to.window, to.reserved = k.newest, k.count, k.window, k.reserved
	ring, old := ringOf(to), ringOf(k)
	n := copy(ring, old[k.oldest:min(int(k.oldest+k.count), len(old))])
	copy(ring[n:], old[:int(k.count)-n])
	return to
}

// times returns the times of the entries younger than the log's window, the
// newest first, at most limit.
func (k *keyLog) times(now int64, limit int) []int64 {
	v := k.viewAt(now)
	n := max(0, min(limit, v.younger(now, int64(k.window), 0)))
	times := make([]int64, n)
	for i := range times {
		times[i] = v.at(i)
	}
	return times
}

// view is a log as of a given time.
type view struct {
	log    *keyLog
	ring   []uint32 // of log
	count  int      // entries, 0 if the log has expired or does not exist
	stamp  uint32   // of the newest entry
	now    int64    // Unix milliseconds
	newest int64    // time of the newest entry
	end    int64    // now, or the time of the newest entry if that is later
	behind int64    // how many milliseconds this view shifts the log back
}

// viewAt returns the log as of now, shifted back if it is ahead of the clock. A nil
// log has no entries.
func (k *keyLog) viewAt(now int64) (v view) {
	v.look(k, now)
	return v
}

// look sets v to what viewAt returns for k, field by field, so that no view is copied.
func (v *view) look(k *keyLog, now int64) {
	v.now, v.end, v.behind = now, now, 0
	if k == nil || k.expired(now) {
		v.log, v.ring, v.count, v.stamp, v.newest = nil, nil, 0, 0, 0
		return
	}
	v.log, v.ring, v.count, v.newest = k, ringOf(k), int(k.count), k.newest
	v.stamp = v.ring[k.place(0)]
	if k.newest > now {
		v.behind = k.clockSkew(now)
		v.newest -= v.behind
		v.end = v.newest
	}
}

// at returns the time of the i-th newest entry.
func (v *view) at(i int) int64 { return v.newest - int64(v.stamp-v.ring[v.log.place(i)]) }

// younger counts the entries that are younger than window at a given time. The caller knows
// that there are at least from of them.
func (v *view) younger(at, window int64, from int) int {
	return from + sort.Search(v.count-from, func(i int) bool { return v.at(from+i)+window <= at })
}

// judge fills in r, with the time that the request may be for in r.ReservedAt.
func (v *view) judge(q *timestamplog.Request, r *timestamplog.Result) {
	reservation, by, waitsFor := v.now, -1, int64(0)
	for i, rule := range q.Rules {
		boundary := rule.Limit - q.Cost
		switch {
		case boundary < 0:
			refuse(r, timestamplog.Never, i, 0)
			r.RefusalValidUntil = timestamplog.Never
			return
		case boundary >= v.count:
			continue
		}
		t := v.at(boundary)
		if free := t + rule.WindowMS(); free > reservation {
			reservation, by, waitsFor = free, i, t
		}
	}
	if v.end > reservation {
		reservation, by, waitsFor = v.end, len(q.Rules)-1, 0
	}
	r.ReservedAt = reservation
	if reservation > v.now {
		v.makeWait(q, r, by, waitsFor)
	}
}

func refuse(r *timestamplog.Result, retryAt int64, by int, waitsFor int64) {
	r.Allowed, r.ReservedAt, r.RetryAt, r.Rule, r.Boundary = false, 0, retryAt, by, waitsFor
}

// room returns the largest part of q's cost that every rule allows now, 0 while reservations
// are ahead.
func (v *view) room(q *timestamplog.Request) int {
	if v.end > v.now {
		return 0
	}
	room, used := q.Cost, 0
	for _, rule := range q.Rules {
		used = v.younger(v.now, rule.WindowMS(), used)
		room = min(room, max(0, rule.Limit-used))
	}
	return room
}

// describe fills in the States of r. The rules are sorted by window, shortest first, so each
// has at least as many entries in its window as the one before.
func (v *view) describe(q *timestamplog.Request, r *timestamplog.Result) {
	used := 0
	r.States = slices.Grow(r.States, len(q.Rules))
	for _, rule := range q.Rules {
		used = v.younger(v.end, rule.WindowMS(), used)
		state := timestamplog.RuleState{Remaining: max(0, rule.Limit-used)}
		switch {
		case q.Cost > rule.Limit:
			state.RetryAfterMS = timestamplog.Never
		case q.Cost > rule.Limit-used:
			state.RetryAfterMS = v.at(rule.Limit-q.Cost) + rule.WindowMS() - v.now
		default:
			state.RetryAfterMS = v.end - v.now
		}
		if used > 0 && rule.Limit > 0 {
			state.ResetAfterMS = v.newest + rule.WindowMS() - v.now
		}
		r.States = append(r.States, state)
	}
}
