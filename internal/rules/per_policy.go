package rules

import (
	"sync"
	"sync/atomic"
)

// PerPolicy keeps what is derived from the policies of a selector, each once for each version
// of its policy. It is forgotten with the selector, so that there is never more than its
// policies have and those of checks that are under way. The zero value is ready for use, by
// many goroutines.
type PerPolicy[T any] struct {
	last atomic.Pointer[derivedUnder[T]]
}

type derivedUnder[T any] struct {
	selector *Selector
	byPolicy sync.Map // of T, by *Policy
}

// Of returns what derive derives from p, a policy of the selector. It must not be changed.
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
