package gate

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// For any calls at any times, a lazyDeadline behaves like its plain version,
// context.WithDeadline. The timers are reused between the runs.
func TestLazyDeadlineBehavesLikeWithDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timers timerPool
		ended, released := 0, 0
		for seed := range uint64(500) {
			random := rand.New(rand.NewPCG(1, seed))
			parent, leave := context.Background(), func() {}
			if random.IntN(2) == 0 {
				parent, leave = context.WithCancel(parent)
			}
			until := time.Now().Add(time.Second)
			plain, cancel := context.WithDeadline(parent, until)
			lazy := &lazyDeadline{Context: parent, until: until, timers: &timers}
			for range 1 + random.IntN(8) {
				switch random.IntN(8) {
				case 0:
					if time.Now().Before(until) { // afterwards the two differ, see Err
						leave()
					}
				case 1:
					time.Sleep(time.Until(until)) // exactly to the deadline, if it is ahead
				default:
					time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
				}
				synctest.Wait()
				if want, got := plain.Err(), lazy.Err(); !errors.Is(got, want) {
					t.Fatalf("seed %d: Err returns %v, want %v", seed, got, want)
				}
				wantAt, _ := plain.Deadline()
				if at, ok := lazy.Deadline(); !ok || !at.Equal(wantAt) {
					t.Fatalf("seed %d: Deadline returns %v, %v, want %v", seed, at, ok, wantAt)
				}
				if random.IntN(2) == 0 {
					done := lazy.Done()
					synctest.Wait()
					if want, got := isClosed(plain.Done()), isClosed(done); got != want {
						t.Fatalf("seed %d: Done is closed: %v, want %v", seed, got, want)
					}
				}
			}
			if lazy.Err() != nil {
				ended++
			} else {
				released++
			}
			lazy.release()
			cancel()
			leave()
		}
		if ended < 50 || released < 50 {
			t.Errorf("%d deadlines ended and %d were released before", ended, released)
		}
	})
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// A timer that was released must not fire for the next deadline that uses it.
func TestReleasedLazyDeadlineDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &lazyDeadline{Context: context.Background(), until: time.Now().Add(time.Second), timers: new(timerPool)}
		done := w.Done()
		w.release()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if isClosed(done) {
			t.Error("Done is closed after release")
		}
	})
}

// The memory of a deadline is reused only if no caller can still wait for its end.
func TestLazyDeadlineWithAWaiterIsNotReused(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, c := range map[string]struct {
		parent context.Context
		wait   bool
	}{"only read": {context.Background(), false}, "waited for": {context.Background(), true}, "waited for with its parent": {parent, true}} {
		t.Run(name, func(t *testing.T) {
			s := &call{gate: new(Gate), until: time.Now().Add(time.Hour)}
			until := s.until
			var first, second context.Context
			s.withDeadline(c.parent, func(ctx context.Context) {
				if first = ctx; c.wait {
					ctx.Done()
				}
			})
			s.until = s.until.Add(time.Hour)
			s.withDeadline(context.Background(), func(ctx context.Context) {
				second = ctx
				if at, _ := ctx.Deadline(); !at.Equal(s.until) {
					t.Errorf("the second ends at %v, want %v", at, s.until)
				}
			})
			if isSame := first == second; isSame == c.wait {
				t.Errorf("the second call has the same context: %t, want %t", isSame, !c.wait)
			}
			if at, _ := first.Deadline(); c.wait && !at.Equal(until) {
				t.Errorf("the first ended at %v, want %v", at, until)
			}
		})
	}
}

// Unlike WithDeadline, a lazyDeadline keeps its own deadline and returns Canceled when
// its parent ends before it: the caller has gone, which is no failure of the log.
func TestLazyDeadlineReturnsCanceledWhenItsParentEnds(t *testing.T) {
	gone, leave := context.WithCancel(context.Background())
	late, cancel := context.WithDeadline(context.Background(), time.Now())
	defer cancel()
	leave()
	for name, parent := range map[string]context.Context{"cancelled": gone, "after its own deadline": late} {
		t.Run(name, func(t *testing.T) {
			until := time.Now().Add(time.Hour)
			w := &lazyDeadline{Context: parent, until: until, timers: new(timerPool)}
			defer w.release()
			if at, ok := w.Deadline(); !ok || !at.Equal(until) {
				t.Errorf("its deadline is %v, %v, want that of the log", at, ok)
			}
			<-w.Done()
			if !errors.Is(w.Err(), context.Canceled) {
				t.Errorf("after the parent ended Err returns %v, want Canceled", w.Err())
			}
		})
	}
}

// A log may use its own timer only if nothing but the deadline ends the context.
func TestLazyDeadlineReportsWhetherOnlyTheDeadlineEndsIt(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, c := range []struct {
		name   string
		parent context.Context
		want   bool
	}{{"whose parent never ends", context.Background(), true}, {"whose parent may end", parent, false}} {
		w := &lazyDeadline{Context: c.parent, until: time.Now().Add(time.Second)}
		if got := timestamplog.EndsAtDeadline(w); got != c.want {
			t.Errorf("EndsAtDeadline of a lazyDeadline %s: got %v, want %v", c.name, got, c.want)
		}
		type anyKey struct{}
		if timestamplog.EndsAtDeadline(context.WithValue(w, anyKey{}, nil)) {
			t.Errorf("EndsAtDeadline of a context around a lazyDeadline %s: got true, want false", c.name)
		}
	}
}
