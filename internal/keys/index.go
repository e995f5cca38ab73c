package keys

import (
	"iter"
	"slices"
	"sync"

	"github.com/gaissmai/bart"
)

// Index finds the patterns that select a key, among a million as fast as among
// a thousand, and gives the value kept with each. It is safe for use by many
// goroutines; the zero value is not usable, see NewIndex.
type Index[V any] struct {
	mu       sync.RWMutex
	exact    map[string]entry[V]
	networks *bart.Table[entry[V]]
	prefixes map[string]entry[V]
	lengths  []int // lengths that occur in prefixes, longest first
	counts   map[int]int
	any      *entry[V]
}

type entry[V any] struct {
	pattern Pattern
	value   V
}

// NewIndex returns an empty index.
func NewIndex[V any]() *Index[V] {
	return &Index[V]{
		exact:    map[string]entry[V]{},
		networks: new(bart.Table[entry[V]]),
		prefixes: map[string]entry[V]{},
		counts:   map[int]int{},
	}
}

// Set keeps v with p, in place of what was kept with the same pattern. The
// zero pattern is ignored.
func (x *Index[V]) Set(p Pattern, v V) {
	e := entry[V]{p, v}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch p.kind {
	case Exact:
		x.exact[p.literal] = e
	case Network:
		x.networks.Insert(p.network, e)
	case Prefix:
		if _, known := x.prefixes[p.literal]; !known {
			x.countLength(len(p.literal), 1)
		}
		x.prefixes[p.literal] = e
	case Any:
		x.any = &e
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
		if _, found = x.networks.Get(p.network); found {
			x.networks.Delete(p.network)
		}
	case Prefix:
		if _, found = x.prefixes[p.literal]; found {
			delete(x.prefixes, p.literal)
			x.countLength(len(p.literal), -1)
		}
	case Any:
		found = x.any != nil
		x.any = nil
	}
	return found
}

func (x *Index[V]) countLength(length, by int) {
	x.counts[length] += by
	at := slices.Index(x.lengths, length)
	switch {
	case x.counts[length] == 0:
		delete(x.counts, length)
		x.lengths = slices.Delete(x.lengths, at, at+1)
	case at < 0:
		x.lengths = append(x.lengths, length)
		slices.SortFunc(x.lengths, func(a, b int) int { return b - a })
	}
}

// Get returns the value kept with exactly this pattern.
func (x *Index[V]) Get(p Pattern) (v V, found bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var e entry[V]
	switch p.kind {
	case Exact:
		e, found = x.exact[p.literal]
	case Network:
		e, found = x.networks.Get(p.network)
	case Prefix:
		e, found = x.prefixes[p.literal]
	case Any:
		if found = x.any != nil; found {
			e = *x.any
		}
	}
	return e.value, found
}

// Len returns the number of patterns.
func (x *Index[V]) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	n := len(x.exact) + x.networks.Size() + len(x.prefixes)
	if x.any != nil {
		n++
	}
	return n
}

// Best returns the most specific pattern that selects k: exact, then the
// longer network or prefix, then "*". It allocates nothing.
func (x *Index[V]) Best(k Key) (p Pattern, v V, found bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var e entry[V]
	if e, found = x.exact[k.text]; found {
		return e.pattern, e.value, true
	}
	if k.network.IsValid() {
		if e, found = x.networks.LookupPrefix(k.network); found {
			return e.pattern, e.value, true
		}
	}
	for _, n := range x.lengths {
		if n > len(k.text) {
			continue
		}
		if e, found = x.prefixes[k.text[:n]]; found {
			return e.pattern, e.value, true
		}
	}
	if x.any != nil && !k.IsZero() {
		return x.any.pattern, x.any.value, true
	}
	return p, v, false
}

// Matching ranges over every pattern that selects k, the most specific first.
// The index must not be changed inside the loop.
func (x *Index[V]) Matching(k Key) iter.Seq2[Pattern, V] {
	return func(yield func(Pattern, V) bool) {
		x.mu.RLock()
		defer x.mu.RUnlock()
		if e, found := x.exact[k.text]; found && !yield(e.pattern, e.value) {
			return
		}
		if k.network.IsValid() {
			for _, e := range x.networks.Supernets(k.network) {
				if !yield(e.pattern, e.value) {
					return
				}
			}
		}
		for _, n := range x.lengths {
			if n > len(k.text) {
				continue
			}
			if e, found := x.prefixes[k.text[:n]]; found && !yield(e.pattern, e.value) {
				return
			}
		}
		if x.any != nil && !k.IsZero() {
			yield(x.any.pattern, x.any.value)
		}
	}
}

// All ranges over every pattern in no particular order. The index must not be
// changed inside the loop.
func (x *Index[V]) All() iter.Seq2[Pattern, V] {
	return func(yield func(Pattern, V) bool) {
		x.mu.RLock()
		defer x.mu.RUnlock()
		for _, e := range x.exact {
			if !yield(e.pattern, e.value) {
				return
			}
		}
		for _, e := range x.networks.All() {
			if !yield(e.pattern, e.value) {
				return
			}
		}
		for _, e := range x.prefixes {
			if !yield(e.pattern, e.value) {
				return
			}
		}
		if x.any != nil {
			yield(x.any.pattern, x.any.value)
		}
	}
}
