package catalog

import (
	"context"
	"errors"
	"sync"
)

// refreshGroup lets callers that wait for the same work share it: many concurrent
// changes need one read of the database after the last of them, not one each.
// Unlike singleflight, a caller never shares work that began before its call.
type refreshGroup struct {
	mu   sync.Mutex
	next *refresh // has not begun yet, nil if nobody waits for one
}

// refresh is one run of the work.
type refresh struct {
	done chan struct{}
	err  error // once done is closed
	gone bool  // the context of the caller that ran it had ended
}

// share runs the work, or waits for another caller that runs it, so that all of it
// happens after the call. do waits until it may begin and calls begin before it
// reads anything.
func (t *refreshGroup) share(ctx context.Context, do func(begin func()) error) error {
	for {
		own, leads := t.join()
		if leads {
			return t.lead(ctx, own, do)
		}
		select {
		case <-own.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		// The other caller's context may have ended; this one's may not.
		if own.err == nil || !own.gone {
			return own.err
		}
	}
}

// join returns the refresh that has not begun yet and whether the caller is to run
// it.
func (t *refreshGroup) join() (own *refresh, leads bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next != nil {
		return t.next, false
	}
	t.next = &refresh{done: make(chan struct{})}
	return t.next, true
}

// errPanicked is returned to the callers that shared a refresh whose work panicked.
var errPanicked = errors.New("the refresh panicked")

func (t *refreshGroup) lead(ctx context.Context, own *refresh, do func(begin func()) error) error {
	begin := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.next == own {
			t.next = nil
		}
	}
	own.err = errPanicked // unless do returns
	defer func() {
		begin()
		close(own.done)
	}()
	own.err = do(begin)
	own.gone = ctx.Err() != nil
	return own.err
}
