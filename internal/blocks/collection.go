package blocks

import (
	"container/heap"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

// item is what a collection holds: a *Block or an *Exemption.
type item interface {
	comparable
	ActiveAt(t time.Time) bool
	facts() facts
}

// facts is what a collection needs to know about an item.
type facts struct {
	id       string
	revision int64
	pattern  keys.Pattern
	expires  time.Time // zero: never
}

func (b *Block) facts() facts     { return facts{b.ID, b.Revision, b.Pattern, b.Expires} }
func (e *Exemption) facts() facts { return facts{e.ID, e.Revision, e.Pattern, e.Expires} }

// collection keeps the items that stand, at most one for a pattern.
type collection[T item] struct {
	index *keys.Index[T]

	mu sync.Mutex // held while index changes, never by a look-up
	// expiring holds what will expire, and what has been replaced since.
	expiring expiryHeap[T]
	// ended remembers what was lifted, removed or swept lately, so that an
	// older state of it that arrives late does not bring it back.
	ended map[string]ending
}

type ending struct {
	revision int64
	at       time.Time
}

// lateness is how long an older state may stay on its way to this node.
const lateness = time.Minute

func newCollection[T item]() *collection[T] {
	return &collection[T]{index: keys.NewIndex[T](), ended: map[string]ending{}}
}

func (c *collection[T]) apply(x T, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := x.facts()
	known, found := c.index.Get(f.pattern)
	if !x.ActiveAt(now) {
		c.end(f, now)
		if found && known.facts().id == f.id && known.facts().revision <= f.revision {
			c.index.Delete(f.pattern)
		}
		return
	}
	if end, gone := c.ended[f.id]; gone && end.revision >= f.revision {
		return
	}
	if found && known.facts().revision > f.revision && (known.facts().id == f.id || known.ActiveAt(now)) {
		return
	}
	c.index.Set(f.pattern, x)
	if !f.expires.IsZero() {
		c.remember(x)
	}
}

func (c *collection[T]) end(f facts, now time.Time) {
	if f.revision >= c.ended[f.id].revision {
		c.ended[f.id] = ending{f.revision, now}
	}
}

// remember notes when x expires. When most of the notes are about what has
// been replaced or lifted, they are written anew, so that they stay in
// proportion to what stands.
func (c *collection[T]) remember(x T) {
	heap.Push(&c.expiring, x)
	const slack = 1024
	if len(c.expiring) <= 2*c.index.Len()+slack {
		return
	}
	c.expiring = c.expiring[:0]
	for _, standing := range c.index.All() {
		if !standing.facts().expires.IsZero() {
			c.expiring = append(c.expiring, standing)
		}
	}
	heap.Init(&c.expiring)
}

func (c *collection[T]) sweep(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.expiring) > 0 && !c.expiring[0].facts().expires.After(now) {
		x := heap.Pop(&c.expiring).(T)
		f := x.facts()
		if known, found := c.index.Get(f.pattern); found && known == x {
			c.index.Delete(f.pattern)
			c.end(f, now)
		}
	}
	for id, end := range c.ended {
		if now.Sub(end.at) > lateness {
			delete(c.ended, id)
		}
	}
}

// standing returns what stands at now and selects k, the most specific first.
func (c *collection[T]) standing(k keys.Key, now time.Time) []T {
	var found []T
	for _, x := range c.index.Matching(k) {
		if x.ActiveAt(now) {
			found = append(found, x)
		}
	}
	return found
}

// expiryHeap is a heap of items, the soonest expiry first.
type expiryHeap[T item] []T

func (h expiryHeap[T]) Len() int           { return len(h) }
func (h expiryHeap[T]) Less(i, j int) bool { return h[i].facts().expires.Before(h[j].facts().expires) }
func (h expiryHeap[T]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is for package heap.
func (h *expiryHeap[T]) Push(x any) { *h = append(*h, x.(T)) }

// Pop is for package heap.
func (h *expiryHeap[T]) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	var none T
	(*h)[last] = none
	*h = (*h)[:last]
	return x
}
