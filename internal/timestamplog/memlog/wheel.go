package memlog

// Fast path. Plain version: container/heap, in plain_test.go. Benchmark:
// BenchmarkExpiry, 6 times faster or more.

// wheel is a hierarchical timer wheel that pops logs when they may have expired. A
// push postpones the expiry of its log but does not change the wheel: the wheel pops
// the log at the expiry that it had when it was added, and the caller adds it again if
// it has not expired. So a log costs the wheel only a few steps per longest window,
// however often it is pushed to. The zero wheel is empty.
//
// Slots are narrow for near expiries and wide for far ones. A log is popped at
// the beginning of its slot, which is early, and is then added to a narrower
// slot. A clock that jumps ahead pops every slot that it passed; one that steps
// back makes logs pop early. Neither loses a log.
//
// The slots are doubly linked lists, so that a log that is deleted early leaves the wheel and
// its memory is free at once. A wheel must not be copied while it holds logs.
type wheel struct {
	levels [wheelLevels]wheelLevel
	popped *keyLog // taken out of their slot but not yet returned by next
	upTo   int64   // the finest tick up to which every level was popped
}

const (
	wheelLevels = 11 // reach 86 days, more than any window
	wheelSlots  = 8
	// finestBits makes the finest slot 1,024 ms wide. The slots of each further level are wider
	// by a factor of 2 to the power of levelBits.
	finestBits = 10
	levelBits  = 2
)

type wheelLevel struct {
	done  int64 // the last tick that was popped
	slots [wheelSlots]*keyLog
}

func tickOf(ms int64, level int) int64 { return ms >> (finestBits + levelBits*level) }

// add schedules k to be popped at about its expiry, and after now.
func (w *wheel) add(k *keyLog, now int64) {
	// The last slot of a level stays free: the current tick shares it.
	level := 0
	for level < wheelLevels-1 && tickOf(k.expiresAt()-now, level) >= wheelSlots-1 {
		level++
	}
	tick := max(tickOf(k.expiresAt(), level), tickOf(now, level)+1)
	slot := &w.levels[level].slots[tick&(wheelSlots-1)]
	if k.nextInSlot, k.link = *slot, slot; *slot != nil {
		(*slot).link = &k.nextInSlot
	}
	*slot = k
}

// remove takes k out if it is in the wheel.
func (w *wheel) remove(k *keyLog) {
	if k.link == nil {
		return
	}
	if *k.link = k.nextInSlot; k.nextInSlot != nil {
		k.nextInSlot.link = k.link
	}
	k.nextInSlot, k.link = nil, nil
}

// replace puts a log in the place of k if k is in the wheel.
func (w *wheel) replace(k, with *keyLog) {
	if k.link == nil {
		return
	}
	with.nextInSlot, with.link = k.nextInSlot, k.link
	if *k.link = with; k.nextInSlot != nil {
		k.nextInSlot.link = &with.nextInSlot
	}
	k.nextInSlot, k.link = nil, nil
}

// idle reports, at less cost than next, whether there is nothing to pop.
func (w *wheel) idle(now int64) bool { return w.popped == nil && w.upTo == tickOf(now, 0) }

// next removes and returns a log that may have expired, nil for none.
func (w *wheel) next(now int64) *keyLog {
	for w.popped == nil {
		if !w.popExpired(now) {
			return nil
		}
	}
	k := w.popped
	w.remove(k)
	return k
}

// popExpired empties the next slot whose tick has begun, and reports whether there was one.
func (w *wheel) popExpired(now int64) bool {
	for i := range w.levels {
		level := &w.levels[i]
		tick := tickOf(now, i)
		level.done = min(tick, max(level.done, tick-wheelSlots))
		if level.done < tick {
			level.done++
			slot := &level.slots[level.done&(wheelSlots-1)]
			if w.popped, *slot = *slot, nil; w.popped != nil {
				w.popped.link = &w.popped
			}
			return true
		}
	}
	w.upTo = tickOf(now, 0)
	return false
}
