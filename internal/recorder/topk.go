package recorder

import "slices"

// topk counts keys in bounded memory, after Space-Saving (Metwally and others, 2005). It
// evicts the lighter half at once instead of one key at a time: a known key costs one
// look-up, and a flood of new ones a sort now and then. An evicted key may come back. So the
// caller keeps the largest count that it has evicted and sets over to it in every new entry.
// Then, at any time,
//
//	certain <= true count <= certain + over   for a key with an entry,
//	           true count <= the largest evicted   for one without.
//
// It is a hash table of its own because the caller already has the hash of each key, under a
// secret that callers do not know, and because entries leave only many at a time: the table
// is then rebuilt and needs no tombstones.
//
// Fast path. Plain version: a map, in plain_test.go. Benchmark: BenchmarkTopk, 1.5 times faster
// for known keys and 4 times in a flood of new ones.
//
// In a flood of new keys nearly every check creates an entry and evicts one, and waits for
// the memory of both. So the fields that decide evictions come first in an entry, and the
// key and value of a dropped entry stay until another key needs it, or forget is called.
type topk[K comparable, V any] struct {
	maxEntries int
	entries    []*entry[K, V]
	free       []*entry[K, V]
	// slots holds each entry in the first empty slot at or after its hash. At least half of the
	// slots are empty.
	slots  []slot[K, V]
	uppers []int64 // working memory of trim
	// order sorts entries, those to be evicted first; nil means by upper, the lighter ones first.
	order func([]*entry[K, V])
}

// slot stores the hash of its entry, so that a look-up reads only the entry that it looks for.
type slot[K comparable, V any] struct {
	hash  uint64
	entry *entry[K, V] // nil for none
}

// entry has counts of 32 bits, so that an entry of traffic fits into one cache line. A key would
// need 70 million checks a second for a whole minute to exceed them.
type entry[K comparable, V any] struct {
	hash    uint64
	certain uint32
	over    uint32
	pending uint32 // the part of certain since the last drain
	row     bool   // whether it has a row in the database
	offends bool   // for traffic: whether the key was refused in its minute
	key     K
	value   V
}

func (e *entry[K, V]) upper() int64 { return int64(e.certain) + int64(e.over) }

// minSlots is how many slots the smallest table has, a power of two.
const minSlots = 16

func newTopk[K comparable, V any](maxEntries int) *topk[K, V] {
	return &topk[K, V]{maxEntries: maxEntries, slots: make([]slot[K, V], minSlots)}
}

// find returns the entry of a key, nil if it has none. Equal keys must have equal hashes.
func (t *topk[K, V]) find(hash uint64, k *K) *entry[K, V] {
	mask := uint64(len(t.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		if s := &t.slots[at]; s.entry == nil || s.hash == hash && s.entry.key == *k {
			return s.entry
		}
	}
}

// insert returns a new entry for k, which must have none. If there is no room, it first evicts
// entries by calling evict.
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

// rebuild recreates the slots from the entries.
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

// drop removes every entry for which gone returns true. The memory of dropped entries is reused
// for other keys.
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

// forget clears the keys of the dropped entries, so that what they point to can be freed.
func (t *topk[K, V]) forget() {
	var none K
	for _, e := range t.free {
		e.key = none
	}
}

// trim evicts the lighter half, or the half that order puts first.
func (t *topk[K, V]) trim(evict func(*entry[K, V])) {
	if t.order != nil {
		t.order(t.entries)
		leaving := t.entries[:max(1, len(t.entries)/2)]
		for _, e := range leaving {
			evict(e)
		}
		t.free = append(t.free, leaving[:min(len(leaving), t.maxEntries/2-len(t.free))]...)
		t.entries = slices.Delete(t.entries, 0, len(leaving))
		t.rebuild()
		return
	}
	t.uppers = t.uppers[:0]
	for _, e := range t.entries {
		t.uppers = append(t.uppers, e.upper())
	}
	slices.Sort(t.uppers)
	left := max(1, len(t.uppers)/2)
	limit := t.uppers[left-1]
	// Of the entries whose upper is exactly limit, only as many are evicted as needed.
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
