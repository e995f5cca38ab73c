package catalog

import (
	"context"
	"errors"
	"sync"
)

// refreshGroup shares one run of some work among the callers that wait for it: many concurrent
// changes need one read of the database after the last of them, not one each. Unlike with
// singleflight, a caller never shares work that began before its call.
type refreshGroup struct {
	mu   sync.Mutex
	next *refresh // the run that has not begun yet, nil if no caller waits for one
}

// refresh is one run of the work.
type refresh struct {
	done chan struct{}
	err  error // valid once done is closed
	gone bool  // whether the context of the caller that ran the work had ended
}

// share runs the work, or waits for another caller that runs it, so that all of the work happens
// after the call of share. do waits until it may begin, and then calls begin before it reads
// anything.
func (g *refreshGroup) share(ctx context.Context, do func(begin func()) error) error {
	for {
		own, leads := g.join()
		if leads {
			return g.lead(ctx, own, do)
		}
		select {
		case <-own.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		// The run may have failed because the other caller's context ended. Then try again.
		if own.err == nil || !own.gone {
			return own.err
		}
	}
}

// join returns the run that has not begun yet, and whether the caller must lead it.
func (g *refreshGroup) join() (own *refresh, leads bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next != nil {
		return g.next, false
	}
	g.next = &refresh{done: make(chan struct{})}
	return g.next, true
}

// errPanicked is returned to the callers that shared a run that panicked.
var errPanicked = errors.New("the refresh panicked")

func (g *refreshGroup) lead(ctx context.Context, own *refresh, do func(begin func()) error) error {
	begin := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.next == own {
			g.next = nil
		}
	}
	own.err = errPanicked // replaced if do returns
	defer func() {
		begin()
		close(own.done)
	}()
	own.err = do(begin)
	own.gone = ctx.Err() != nil
	return own.err
}
