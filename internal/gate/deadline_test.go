package gate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestADeadlineEndsAsAContextsOwn(t *testing.T) {
	for name, mayEnd := range map[string]bool{"of a parent that never ends": false, "of one that may": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent := context.Background()
				if mayEnd {
					may, cancel := context.WithCancel(parent)
					defer cancel()
					parent = may
				}
				var timers timerPool
				for range 3 { // with a new timer, and with one that is used again
					next := func() *lazyDeadline {
						return &lazyDeadline{Context: parent, until: time.Now().Add(time.Second), timers: &timers}
					}
					ends := next()
					if at, ok := ends.Deadline(); !ok || !at.Equal(ends.until) || ends.Err() != nil {
						t.Errorf("it ends at %v, %v, with %v", at, ok, ends.Err())
					}
					<-ends.Done()
					if !time.Now().Equal(ends.until) || !errors.Is(ends.Err(), context.DeadlineExceeded) {
						t.Errorf("at its end: %v", ends.Err())
					}
					ends.release()

					released := next()
					done := released.Done()
					released.release()
					select {
					case <-done:
						if !mayEnd {
							t.Error("it ended when it was released early")
						}
					case <-time.After(2 * time.Second):
					}

					unasked := next()
					time.Sleep(2 * time.Second)
					if !errors.Is(unasked.Err(), context.DeadlineExceeded) {
						t.Errorf("where nobody waited for its end: %v", unasked.Err())
					}
					unasked.release()
				}
			})
		})
	}
}

func TestACallerWhoGoesAwayIsToldFromADeadline(t *testing.T) {
	gone, leave := context.WithCancel(context.Background())
	late, cancel := context.WithDeadline(context.Background(), time.Now())
	defer cancel()
	leave()
	for name, parent := range map[string]context.Context{"cancelled": gone, "out of its own time": late} {
		t.Run(name, func(t *testing.T) {
			until := time.Now().Add(time.Hour)
			w := &lazyDeadline{Context: parent, until: until, timers: new(timerPool)}
			defer w.release()
			if at, ok := w.Deadline(); !ok || !at.Equal(until) {
				t.Errorf("its deadline is %v, %v, want that of the log", at, ok)
			}
			<-w.Done()
			if !errors.Is(w.Err(), context.Canceled) {
				t.Errorf("when its parent had ended: %v", w.Err())
			}
		})
	}
}
