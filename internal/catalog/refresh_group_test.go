package catalog

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// work runs refreshes one at a time, each for a second.
type work struct {
	room  chan struct{} // holds one element while no run is active
	began atomic.Int32
	fails func(ctx context.Context, attempt int32) error
}

func newWork(fails func(ctx context.Context, attempt int32) error) *work {
	w := &work{room: make(chan struct{}, 1), fails: fails}
	w.room <- struct{}{}
	return w
}

func (w *work) in(t *refreshGroup, ctx context.Context) error {
	return t.share(ctx, func(begin func()) error {
		<-w.room
		defer func() { w.room <- struct{}{} }()
		begin()
		attempt := w.began.Add(1)
		time.Sleep(time.Second)
		return w.fails(ctx, attempt)
	})
}

func TestCallersDuringARefreshShareTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all sync.WaitGroup
		shared, w := &refreshGroup{}, newWork(func(context.Context, int32) error { return nil })
		all.Go(func() { _ = w.in(shared, t.Context()) })
		synctest.Wait()
		for range 50 {
			all.Go(func() {
				before := w.began.Load()
				if err := w.in(shared, t.Context()); err != nil {
					t.Error(err)
				}
				if w.began.Load() == before {
					t.Error("a caller got the result of work that began before its call")
				}
			})
			synctest.Wait()
		}
		all.Wait()
		if n := w.began.Load(); n != 2 {
			t.Errorf("the work was done %d times, want 2: for the first caller, and once for all later ones", n)
		}
	})
}

func TestAllCallersOfASharedRefreshGetItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all sync.WaitGroup
		shared, w := &refreshGroup{}, newWork(func(_ context.Context, attempt int32) error {
			if attempt == 1 {
				return nil
			}
			return errBroken
		})
		all.Go(func() { _ = w.in(shared, t.Context()) })
		synctest.Wait()
		for range 3 {
			all.Go(func() {
				if err := w.in(shared, t.Context()); !errors.Is(err, errBroken) {
					t.Errorf("got the error %v, want %v", err, errBroken)
				}
			})
		}
		all.Wait()
	})
}

func TestCallerWithALaterDeadlineRepeatsASharedRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all sync.WaitGroup
		shared, w := &refreshGroup{}, newWork(func(ctx context.Context, _ int32) error { return ctx.Err() })
		all.Go(func() { _ = w.in(shared, t.Context()) })
		synctest.Wait()
		all.Go(func() {
			short, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			if err := w.in(shared, short); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the caller with a short timeout got %v, want DeadlineExceeded", err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if err := w.in(shared, t.Context()); err != nil {
				t.Errorf("the caller without a timeout got %v, want nil", err)
			}
		})
		all.Wait()
		if n := w.began.Load(); n != 3 {
			t.Errorf("the work was done %d times, want 3", n)
		}
	})
}

func TestSharedRefreshThatPanicsReturnsAnErrorToAllCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all sync.WaitGroup
		shared := &refreshGroup{}
		all.Go(func() {
			defer func() { _ = recover() }()
			_ = shared.share(t.Context(), func(func()) error {
				time.Sleep(time.Second)
				panic("a bug")
			})
		})
		synctest.Wait()
		all.Go(func() {
			if err := shared.share(t.Context(), func(func()) error { return nil }); !errors.Is(err, errPanicked) {
				t.Errorf("the caller that shares the panic got %v, want %v", err, errPanicked)
			}
		})
		synctest.Wait()
		all.Wait()
		begun := false
		if err := shared.share(t.Context(), func(begin func()) error { begin(); begun = true; return nil }); err != nil || !begun {
			t.Errorf("afterwards: begun %t, %v", begun, err)
		}
	})
}
