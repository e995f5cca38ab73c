package keys

import (
	"iter"
	"sync"
	"sync/atomic"
)

// Index finds the patterns that select a key, among a million as fast as among
// a thousand, and gives the value kept with each. It is safe for use by many
// goroutines; the zero value is not usable, see NewIndex.
type Index[V any] struct {
	filled   atomic.Bool // a pattern was ever set
	mu       sync.RWMutex
	exact    map[string]*entry[V]
	networks networkTree[V]
	origins  origins[V]
	prefixes prefixTree[entry[V]]
	any      *entry[V]
}

// entry is never changed, so that it may be used after the lock is let go.
type entry[V any] struct {
	pattern Pattern
	value   V
}

// NewIndex returns an empty index.
func NewIndex[V any]() *Index[V] { return &Index[V]{exact: map[string]*entry[V]{}} }

// Set keeps v with p, in place of what was kept with the same pattern. The
// zero pattern is ignored.
func (x *Index[V]) Set(p Pattern, v V) {
	e := &entry[V]{p, v}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.filled.Store(true)
	switch p.kind {
	case Exact:
		x.exact[p.literal] = e
	case Network:
		x.networks.set(e)
	case FromOrigin:
		x.origins.set(e)
	case Prefix:
		x.prefixes.set(p.literal, e)
	case Any:
		x.any = e
	}
}

// Delete forgets p and reports whether it was there.
func (x *Index[V]) Delete(p Pattern) (found bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch p.kind {
	case Exact:
		_, found = x.exact[p.literal]
		delete(x.exact, p.literal)
	case Network:
		found = x.networks.delete(p.network)
	case FromOrigin:
		found = x.origins.delete(p.origin)
	case Prefix:
		found = x.prefixes.delete(p.literal)
	case Any:
		found = x.any != nil
		x.any = nil
	}
	return found
}

// Get returns the value kept with exactly this pattern.
func (x *Index[V]) Get(p Pattern) (v V, found bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var at *entry[V]
	switch p.kind {
	case Exact:
		at = x.exact[p.literal]
	case Network:
		at = x.networks.get(p.network)
	case FromOrigin:
		at = x.origins.get(p.origin)
	case Prefix:
		at = x.prefixes.get(p.literal)
	case Any:
		at = x.any
	}
	if at == nil {
		return v, false
	}
	return at.value, true
}

// Len returns the number of patterns.
func (x *Index[V]) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	n := len(x.exact) + x.networks.size + x.origins.size() + x.prefixes.size
	if x.any != nil {
		n++
	}
	return n
}

// Origins returns the number of patterns that select addresses by their origin.
func (x *Index[V]) Origins() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.origins.size()
}

// Best returns the most specific pattern that selects k: exact, then the
// longer network, then the autonomous system, the country, the longer prefix, and "*". It allocates nothing.
func (x *Index[V]) Best(k Key) (p Pattern, v V, found bool) {
	var room [roomForMatches]*entry[V]
	for _, e := range x.matching(k, room[:0]) {
		return e.pattern, e.value, true
	}
	return p, v, false
}

// Matching ranges over every pattern that selects k when the range begins, the
// most specific first. The index may be changed inside the loop.
func (x *Index[V]) Matching(k Key) iter.Seq2[Pattern, V] {
	return func(yield func(Pattern, V) bool) {
		var room [roomForMatches]*entry[V]
		for _, e := range x.matching(k, room[:0]) {
			if !yield(e.pattern, e.value) {
				return
			}
		}
	}
}

// AppendMatching appends the value of every pattern that selects k, the most
// specific first. It allocates nothing where values has room for them.
func (x *Index[V]) AppendMatching(values []V, k Key) []V {
	var room [roomForMatches]*entry[V]
	for _, e := range x.matching(k, room[:0]) {
		values = append(values, e.value)
	}
	return values
}

// roomForMatches is more patterns than anybody lays around one key; still more
// are found just as well, at the cost of an allocation.
const roomForMatches = 24

// matching appends the entries of every pattern that selects k, the most
// specific first.
func (x *Index[V]) matching(k Key, found []*entry[V]) []*entry[V] {
	if !x.filled.Load() { // as most are that hold exemptions or shadow policies
		return found
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if e := x.exact[k.text]; e != nil {
		found = append(found, e)
	}
	if k.network.IsValid() {
		found = x.networks.around(k.network, found)
		if x.origins.size() > 0 {
			found = x.origins.around(k, found)
		}
	}
	var nested [16]match[entry[V]]
	prefixes := x.prefixes.matching(k.text, nested[:0])
	for i := len(prefixes) - 1; i >= 0; i-- {
		found = append(found, prefixes[i].value)
	}
	if x.any != nil && !k.IsZero() {
		found = append(found, x.any)
	}
	return found
}

// allPage is how many patterns All reads under one lock.
const allPage = 1024

// All ranges over every pattern in no particular order. The loop may take its
// time and change the index: a page of patterns is read at a time, and nothing
// is locked while the loop runs. What is set or deleted during the loop is yielded
// or not; a pattern that is deleted and set again may come twice.
func (x *Index[V]) All() iter.Seq2[Pattern, V] {
	return func(yield func(Pattern, V) bool) {
		_ = x.allExact(yield) && x.allNested(yield, &x.networks.v4) && x.allNested(yield, &x.networks.v6) && x.allOrigins(yield) && x.allPrefixes(yield) && x.allAny(yield)
	}
}

func yieldAll[V any](page []*entry[V], yield func(Pattern, V) bool) bool {
	for _, e := range page {
		if !yield(e.pattern, e.value) {
			return false
		}
	}
	return true
}

// allExact goes on ranging over the map after the lock was let go: a map may be
// changed between two steps of a range.
func (x *Index[V]) allExact(yield func(Pattern, V) bool) bool {
	page := make([]*entry[V], 0, allPage)
	x.mu.RLock()
	for _, e := range x.exact {
		if page = append(page, e); len(page) < allPage {
			continue
		}
		x.mu.RUnlock()
		if !yieldAll(page, yield) {
			return false
		}
		page = page[:0]
		x.mu.RLock()
	}
	x.mu.RUnlock()
	return yieldAll(page, yield)
}

func (x *Index[V]) allNested(yield func(Pattern, V) bool, tree *prefixTree[networkGroup[V]]) bool {
	return allOf(x, tree, func(on *networkGroup[V], page []*entry[V]) []*entry[V] { return append(page, on.entries...) }, yield)
}

// allOrigins reads all at once: there are thousands of them at most.
func (x *Index[V]) allOrigins(yield func(Pattern, V) bool) bool {
	x.mu.RLock()
	page := x.origins.all(nil)
	x.mu.RUnlock()
	return yieldAll(page, yield)
}

func (x *Index[V]) allPrefixes(yield func(Pattern, V) bool) bool {
	return allOf(x, &x.prefixes, func(e *entry[V], page []*entry[V]) []*entry[V] { return append(page, e) }, yield)
}

// allOf ranges over a tree in the order of its texts, so that each page begins
// behind the last text of the one before.
func allOf[T, V any](x *Index[V], tree *prefixTree[T], add func(*T, []*entry[V]) []*entry[V], yield func(Pattern, V) bool) bool {
	last, page := "", make([]*entry[V], 0, allPage)
	for first, more := true, true; more; first = false {
		page = page[:0]
		x.mu.RLock()
		more = !tree.root.after(last, first, func(text string, value *T) bool {
			last, page = text, add(value, page)
			return len(page) < allPage
		})
		x.mu.RUnlock()
		if !yieldAll(page, yield) {
			return false
		}
	}
	return true
}

func (x *Index[V]) allAny(yield func(Pattern, V) bool) bool {
	x.mu.RLock()
	e := x.any
	x.mu.RUnlock()
	return e == nil || yield(e.pattern, e.value)
}
