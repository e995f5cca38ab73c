package keys

import (
	"iter"
	"sync"
	"sync/atomic"
)

// Index finds the patterns that select a key, and the value stored with each. It is as fast with
// a million patterns as with a thousand. It is safe for concurrent use. The zero value is not
// usable; see NewIndex.
type Index[V any] struct {
	filled   atomic.Bool // whether a pattern was ever set
	mu       sync.RWMutex
	exact    map[string]*entry[V]
	networks networkTree[V]
	origins  origins[V]
	prefixes prefixTree[entry[V]]
	any      *entry[V]
}

// entry is immutable, so that it may be used after the lock was released.
type entry[V any] struct {
	pattern *Pattern
	value   V
}

// NewIndex returns an empty index.
func NewIndex[V any]() *Index[V] { return &Index[V]{exact: map[string]*entry[V]{}} }

// Set stores v for p, and replaces an earlier value for the same pattern. It ignores the zero
// pattern.
func (x *Index[V]) Set(p Pattern, v V) { x.SetShared(&p, v) }

// SetShared does the same and keeps p, which must not be changed: with a million patterns that the
// values have too, copies would take 56 MB.
func (x *Index[V]) SetShared(p *Pattern, v V) {
	e := &entry[V]{p, v}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.filled.Store(true)
	switch p.kind {
	case Exact:
		x.exact[p.Literal()] = e
	case Network:
		x.networks.set(e)
	case FromOrigin:
		x.origins.set(e)
	case Prefix:
		x.prefixes.set(p.Literal(), e)
	case Any:
		x.any = e
	}
}

// Delete removes p and reports whether it was there.
func (x *Index[V]) Delete(p Pattern) (found bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch p.kind {
	case Exact:
		_, found = x.exact[p.Literal()]
		delete(x.exact, p.Literal())
	case Network:
		found = x.networks.delete(p.network)
	case FromOrigin:
		found = x.origins.delete(p.origin())
	case Prefix:
		found = x.prefixes.delete(p.Literal())
	case Any:
		found = x.any != nil
		x.any = nil
	}
	return found
}

// Get returns the value for exactly this pattern.
func (x *Index[V]) Get(p Pattern) (v V, found bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var at *entry[V]
	switch p.kind {
	case Exact:
		at = x.exact[p.Literal()]
	case Network:
		at = x.networks.get(p.network)
	case FromOrigin:
		at = x.origins.get(p.origin())
	case Prefix:
		at = x.prefixes.get(p.Literal())
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

// Origins counts the patterns that select addresses by their origin.
func (x *Index[V]) Origins() OriginCount {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return OriginCount{len(x.origins.asns), len(x.origins.countries)}
}

// Best returns the most specific pattern that selects k. The order is: exact, longer network,
// shorter network, autonomous system, country, longer prefix, shorter prefix, "*". It allocates
// nothing.
func (x *Index[V]) Best(k Key) (p Pattern, v V, found bool) {
	var room [roomForMatches]*entry[V]
	for _, e := range x.matching(k, room[:0]) {
		return *e.pattern, e.value, true
	}
	return p, v, false
}

// Matching iterates over every pattern that selects k when the iteration begins, the most
// specific first. The index may be changed inside the loop.
func (x *Index[V]) Matching(k Key) iter.Seq2[Pattern, V] {
	return func(yield func(Pattern, V) bool) {
		var room [roomForMatches]*entry[V]
		for _, e := range x.matching(k, room[:0]) {
			if !yield(*e.pattern, e.value) {
				return
			}
		}
	}
}

// AppendMatching appends the value of every pattern that selects k, the most specific first. It
// allocates nothing if values has enough capacity.
func (x *Index[V]) AppendMatching(values []V, k Key) []V {
	var room [roomForMatches]*entry[V]
	for _, e := range x.matching(k, room[:0]) {
		values = append(values, e.value)
	}
	return values
}

// roomForMatches is more than the usual number of patterns that select one key. More matches only
// cost an allocation.
const roomForMatches = 24

// matching appends the entries of every pattern that selects k, the most
// specific first.
func (x *Index[V]) matching(k Key, found []*entry[V]) []*entry[V] {
	if !x.filled.Load() { // true for most indexes of exemptions or shadow policies
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

// All iterates over every pattern in no particular order. The loop may be slow and may change the
// index: All reads a page of patterns at a time, and holds no lock while the loop runs. A pattern
// that is set or deleted during the loop may be yielded or not. A pattern that is deleted and set
// again may be yielded twice.
func (x *Index[V]) All() iter.Seq2[Pattern, V] {
	return func(yield func(Pattern, V) bool) {
		_ = x.allExact(yield) && x.allNested(yield, &x.networks.v4) && x.allNested(yield, &x.networks.v6) && x.allOrigins(yield) && x.allPrefixes(yield) && x.allAny(yield)
	}
}

func yieldAll[V any](page []*entry[V], yield func(Pattern, V) bool) bool {
	for _, e := range page {
		if !yield(*e.pattern, e.value) {
			return false
		}
	}
	return true
}

// allExact continues the iteration over the map after releasing the lock, since Go allows changes
// of a map during an iteration.
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
	return allOf(x, tree, func(on *networkGroup[V], page []*entry[V]) []*entry[V] { return on.appendTo(page) }, yield)
}

// allOrigins reads all at once, since there are at most thousands.
func (x *Index[V]) allOrigins(yield func(Pattern, V) bool) bool {
	x.mu.RLock()
	page := x.origins.all(nil)
	x.mu.RUnlock()
	return yieldAll(page, yield)
}

func (x *Index[V]) allPrefixes(yield func(Pattern, V) bool) bool {
	return allOf(x, &x.prefixes, func(e *entry[V], page []*entry[V]) []*entry[V] { return append(page, e) }, yield)
}

// allOf iterates over a tree in the order of its texts, so that each page can begin after the
// last text of the previous one.
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
	return e == nil || yield(*e.pattern, e.value)
}
