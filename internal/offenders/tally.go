package offenders

import "slices"

// tally counts keys in bounded memory, after Space-Saving (Metwally and
// others, 2005), evicting the lighter half at once instead of one key at a
// time: a key that is counted again costs one map look-up, and a flood of new
// ones a sort now and then. What was evicted may come back, so the caller
// keeps the largest count that it has evicted and gives it to every new entry
// as over; then, at any time,
//
//	certain <= true count <= certain + over   for a key with an entry,
//	           true count <= the largest evicted   for one without.
type tally[K comparable, V any] struct {
	most    int
	entries map[K]*entry[V]
	free    []*entry[V]
	uppers  []int64 // working memory of trim
}

type entry[V any] struct {
	certain int64
	over    int64
	pending int64 // the part of certain that has not been drained
	row     bool  // it has a row in the database
	value   V
}

func (e *entry[V]) upper() int64 { return e.certain + e.over }

func newTally[K comparable, V any](most int) *tally[K, V] {
	return &tally[K, V]{most: most, entries: map[K]*entry[V]{}}
}

// make returns a new entry for k, which must have none. Where there is no room
// it first evicts, through evict.
func (t *tally[K, V]) make(k K, evict func(K, *entry[V])) *entry[V] {
	if len(t.entries) >= t.most {
		t.trim(evict)
	}
	var e *entry[V]
	if n := len(t.free); n > 0 {
		e, t.free = t.free[n-1], t.free[:n-1]
	} else {
		e = new(entry[V])
	}
	t.entries[k] = e
	return e
}

// drop forgets k, whose entry e may be used for another key.
func (t *tally[K, V]) drop(k K, e *entry[V], reset func(*V)) {
	delete(t.entries, k)
	reset(&e.value)
	*e = entry[V]{value: e.value}
	if len(t.free) < t.most/2 {
		t.free = append(t.free, e)
	}
}

// trim evicts the lighter half.
func (t *tally[K, V]) trim(evict func(K, *entry[V])) {
	t.uppers = t.uppers[:0]
	for _, e := range t.entries {
		t.uppers = append(t.uppers, e.upper())
	}
	slices.Sort(t.uppers)
	left := max(1, len(t.uppers)/2)
	limit := t.uppers[left-1]
	for k, e := range t.entries {
		if e.upper() < limit {
			evict(k, e)
			left--
		}
	}
	for k, e := range t.entries {
		if left == 0 {
			break
		}
		if e.upper() == limit {
			evict(k, e)
			left--
		}
	}
}
