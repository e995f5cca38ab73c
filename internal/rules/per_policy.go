package rules

import (
	"sync"
	"sync/atomic"
)

// PerPolicy caches a value that is derived from each policy of a selector, once for each version
// of the policy. The cache is dropped with the selector, so that it holds no more than the
// policies of the selector and of checks in flight. The zero value is ready to use. It is safe
// for concurrent use.
type PerPolicy[T any] struct {
	last atomic.Pointer[derivedUnder[T]]
}

type derivedUnder[T any] struct {
	selector *Selector
	byPolicy sync.Map // maps *Policy to T
}

// Of returns the value that derive returns for p, a policy of the selector. The value must not be
// changed.
func (c *PerPolicy[T]) Of(p *Policy, selector *Selector, derive func(*Policy) T) T {
	last := c.last.Load()
	if last == nil || last.selector != selector {
		last = &derivedUnder[T]{selector: selector}
		c.last.Store(last)
	}
	if known, isKnown := last.byPolicy.Load(p); isKnown {
		return known.(T)
	}
	derived := derive(p)
	last.byPolicy.Store(p, derived)
	return derived
}
