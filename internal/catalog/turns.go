package catalog

import (
	"context"
	"errors"
	"sync"
)

// turns has callers who wait for the same work share it: many changes at once
// need one reading of the database after the last of them, and not one each.
type turns struct {
	mu   sync.Mutex
	next *turn // has not begun yet, nil if nobody waits for one
}

// turn is one doing of the work.
type turn struct {
	done chan struct{}
	err  error // once done is closed
	gone bool  // the context of the caller who did it had ended
}

// share does the work, or has it done by another caller, so that all of it lies
// after the call. do waits until it may begin and calls begin before it looks
// at anything.
func (t *turns) share(ctx context.Context, do func(begin func()) error) error {
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
		// Where another's patience ended this caller's has perhaps not.
		if own.err == nil || !own.gone {
			return own.err
		}
	}
}

// join returns the turn that has not begun yet and whether the caller is to do
// it.
func (t *turns) join() (own *turn, leads bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next != nil {
		return t.next, false
	}
	t.next = &turn{done: make(chan struct{})}
	return t.next, true
}

// errPanicked is what those who share a turn get where the caller who did the
// work did not come back from it.
var errPanicked = errors.New("the refresh panicked")

func (t *turns) lead(ctx context.Context, own *turn, do func(begin func()) error) error {
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
