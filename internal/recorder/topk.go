package recorder

import "slices"

// topk counts keys in bounded memory, after Space-Saving (Metwally and
// others, 2005), evicting the lighter half at once instead of one key at a
// time: a key that is counted again costs one look-up, and a flood of new
// ones a sort now and then. What was evicted may come back, so the caller
// keeps the largest count that it has evicted and gives it to every new entry
// as over; then, at any time,
//
//	certain <= true count <= certain + over   for a key with an entry,
//	           true count <= the largest evicted   for one without.
//
// It is a hash table of its own because the caller has a key's hash already,
// under a secret that nobody outside knows, and because entries leave only
// many at a time: a table that is then rebuilt needs no marks where
// something was.
//
// In a flood of new keys nearly every check makes an entry and evicts one, and
// waits for the memory of both. So what an entry is evicted by comes first in it,
// and what it held stays until another key needs it, or forget is called.
type topk[K comparable, V any] struct {
	maxEntries int
	entries    []*entry[K, V]
	free       []*entry[K, V]
	// slots holds each entry in the first slot from its hash on that was empty;
	// at least half are.
	slots  []slot[K, V]
	uppers []int64 // working memory of trim
}

// slot has its entry's hash, so that a look-up reads no entry but the one it is for.
type slot[K comparable, V any] struct {
	hash  uint64
	entry *entry[K, V] // nil for none
}

// entry counts in 32 bits, so that an entry of traffic is one line of memory: a key would
// need 70 million checks a second for a minute to exceed them.
type entry[K comparable, V any] struct {
	hash    uint64
	certain uint32
	over    uint32
	pending uint32 // the part of certain that has not been drained
	row     bool   // it has a row in the database
	offends bool   // of traffic, the key was refused in its minute
	key     K
	value   V
}

func (e *entry[K, V]) upper() int64 { return int64(e.certain) + int64(e.over) }

// minSlots is how many slots the smallest table has, a power of two.
const minSlots = 16

func newTopk[K comparable, V any](maxEntries int) *topk[K, V] {
	return &topk[K, V]{maxEntries: maxEntries, slots: make([]slot[K, V], minSlots)}
}

// find returns the entry of a key, nil if it has none. Equal keys must come
// with equal hashes.
func (t *topk[K, V]) find(hash uint64, k *K) *entry[K, V] {
	mask := uint64(len(t.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		if s := &t.slots[at]; s.entry == nil || s.hash == hash && s.entry.key == *k {
			return s.entry
		}
	}
}

// insert returns a new entry for k, which must have none. Where there is no room
// it first evicts, through evict.
func (t *topk[K, V]) insert(hash uint64, k K, evict func(*entry[K, V]), reset func(*V)) *entry[K, V] {
	if len(t.entries) >= t.maxEntries {
		t.trim(evict)
	}
	var e *entry[K, V]
	if n := len(t.free); n > 0 {
		e, t.free = t.free[n-1], t.free[:n-1]
	} else {
		e = new(entry[K, V])
	}
	e.hash, e.certain, e.over, e.pending, e.row, e.offends, e.key = hash, 0, 0, 0, false, false, k
	reset(&e.value)
	t.entries = append(t.entries, e)
	if 2*len(t.entries) > len(t.slots) {
		t.slots = make([]slot[K, V], 2*len(t.slots))
		t.rebuild()
	} else {
		t.put(e)
	}
	return e
}

// rebuild fills the slots again.
func (t *topk[K, V]) rebuild() {
	clear(t.slots)
	for _, e := range t.entries {
		t.put(e)
	}
}

func (t *topk[K, V]) put(e *entry[K, V]) {
	mask := uint64(len(t.slots) - 1)
	at := e.hash & mask
	for t.slots[at].entry != nil {
		at = (at + 1) & mask
	}
	t.slots[at] = slot[K, V]{e.hash, e}
}

// drop removes every entry that gone says, whose memory may be used for other
// keys.
func (t *topk[K, V]) drop(gone func(*entry[K, V]) bool) {
	kept := t.entries[:0]
	for _, e := range t.entries {
		if !gone(e) {
			kept = append(kept, e)
			continue
		}
		if len(t.free) < t.maxEntries/2 {
			t.free = append(t.free, e)
		}
	}
	if len(kept) == len(t.entries) {
		return
	}
	clear(t.entries[len(kept):])
	t.entries = kept
	t.rebuild()
}

// forget clears the keys of the entries that were dropped, and so all that is
// reached through them.
func (t *topk[K, V]) forget() {
	var none K
	for _, e := range t.free {
		e.key = none
	}
}

// trim evicts the lighter half.
func (t *topk[K, V]) trim(evict func(*entry[K, V])) {
	t.uppers = t.uppers[:0]
	for _, e := range t.entries {
		t.uppers = append(t.uppers, e.upper())
	}
	slices.Sort(t.uppers)
	left := max(1, len(t.uppers)/2)
	limit := t.uppers[left-1]
	// Of those that weigh as much as the limit as many go as there is need.
	at, _ := slices.BinarySearch(t.uppers, limit)
	left -= at
	t.drop(func(e *entry[K, V]) bool {
		upper := e.upper()
		if upper > limit || upper == limit && left == 0 {
			return false
		}
		if upper == limit {
			left--
		}
		evict(e)
		return true
	})
}
