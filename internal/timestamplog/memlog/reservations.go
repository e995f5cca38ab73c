package memlog

import (
	"sort"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// reserve logs cost entries for a reservation ahead of now, which must not be before the newest
// entry. Entries ahead of now stay. The others are dropped as keep requires, whether the
// reservation is used or cancelled. It returns the log with the entries: k, or a larger one.
func (k *keyLog) reserve(now, reservation int64, cost int, keep rules.Retention) *keyLog {
	window := windowOf(keep)
	k.drop(now, int64(window), keep.Entries+k.ahead(now))
	k = k.withRoom(int(k.count)+cost, keep.Entries+timestamplog.MaxReserved)
	k.reserved = min(k.reserved, k.count) + uint32(cost)
	k.append(reservation, cost)
	k.window = window
	return k
}

// ahead counts the entries that are ahead of now.
func (k *keyLog) ahead(now int64) int {
	if k.count == 0 || k.newest <= now {
		return 0
	}
	return sort.Search(int(k.count), func(i int) bool { return k.newest-k.behind(i) <= now })
}

// clockSkew returns how many milliseconds the log must be shifted back because the clock
// stepped back. After the shift no entry is ahead of now except those made for reservations,
// and none of these is further ahead than MaxWait. It returns 0 if that is so already.
func (k *keyLog) clockSkew(now int64) int64 {
	by := k.newest - now - timestamplog.MaxWait
	if k.reserved < k.count {
		by = max(by, k.newest-k.behind(int(k.reserved))-now)
	}
	return max(0, by)
}

// cancelReservation drops up to cost entries that were made for a reservation, and reports
// whether there were any.
func (k *keyLog) cancelReservation(reservation int64, cost int) bool {
	count := int(k.count)
	from := sort.Search(count, func(i int) bool { return k.newest-k.behind(i) <= reservation })
	to := from
	for to < count && to-from < cost && k.newest-k.behind(to) == reservation {
		to++
	}
	if from == to {
		return false
	}
	newest := k.newest
	if from == 0 && to < count {
		newest -= k.behind(to)
	}
	for i := from - 1; i >= 0; i-- { // move the newer entries down
		k.set(i+to-from, k.stamp(i))
	}
	k.count -= uint32(to - from)
	k.newest, k.reserved = newest, k.reserved-(min(k.reserved, uint32(to))-min(k.reserved, uint32(from)))
	return true
}

// set sets the i-th newest stamp.
func (k *keyLog) set(i int, stamp uint32) { ringOf(k)[k.place(i)] = stamp }

// makeWait completes r for a request whose earliest time, r.ReservedAt, is ahead of now. The
// request is allowed if that time is at most MaxWait ahead and few enough entries are ahead of
// now; otherwise makeWait finds out when it would be allowed. by is the rule that makes it wait
// longest, for the entry at waitsFor.
func (v *view) makeWait(q *timestamplog.Request, r *timestamplog.Result, by int, waitsFor int64) {
	retry := r.ReservedAt - q.MaxWait
	if i := timestamplog.MaxReserved - q.Cost; q.MaxWait > 0 && i < v.count {
		if free := v.at(i); free > max(retry, v.now) {
			retry, by, waitsFor = free, len(q.Rules)-1, 0
		}
	}
	if retry <= v.now {
		return
	}
	refuse(r, retry, by, waitsFor)
	r.RefusalValidUntil = retry
	if v.log != nil {
		r.RefusalValidUntil = min(retry, v.newest+int64(v.log.window))
	}
}
