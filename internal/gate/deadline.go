package gate

import (
	"context"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/supervise"
)

// within is a context that ends at an instant, as context.WithDeadline makes
// one, but starts its timer only when somebody waits for its end, since a check
// that is answered from memory never does, and uses timers again. It belongs to
// one goroutine, and nobody may wait for its end after release.
type lazyDeadline struct {
	context.Context
	until  time.Time
	timers *timerPool
	timer  *pooledTimer // started, where the parent never ends

	timed  context.Context // started, where the parent may end
	cancel context.CancelFunc
}

// Deadline returns the instant, also where the parent may end earlier: who
// waits learns of that by Done, and it is not the log's fault.
func (w *lazyDeadline) Deadline() (time.Time, bool) { return w.until, true }

// Done returns what is closed at the deadline.
func (w *lazyDeadline) Done() <-chan struct{} {
	switch {
	case w.timed != nil:
		return w.timed.Done()
	case w.Context.Done() != nil:
		w.timed, w.cancel = context.WithDeadline(w.Context, w.until)
		return w.timed.Done()
	case w.timer == nil:
		w.timer = w.timers.set(time.Until(w.until))
	}
	return w.timer.fired
}

// Err returns why the context has ended, nil while it has not: DeadlineExceeded
// where its own instant has passed, and Canceled where its parent ended before,
// for whatever reason, since the caller has then gone away.
func (w *lazyDeadline) Err() error {
	switch {
	case w.timed != nil && w.timed.Err() == nil:
		return nil
	case w.Context.Err() != nil:
		return context.Canceled
	case w.timed == nil && time.Now().Before(w.until):
		return nil
	}
	return context.DeadlineExceeded
}

// release gives back the timer.
func (w *lazyDeadline) release() {
	if w.cancel != nil {
		w.cancel()
	}
	if w.timer != nil && w.timer.timer.Stop() {
		w.timers.pool.Put(w.timer)
	}
}

// alarms keeps alarms that did not ring. The zero value is ready.
type timerPool struct{ pool sync.Pool }

// alarm closes rang when its time has come.
type pooledTimer struct {
	timer *time.Timer
	fired chan struct{}
}

func (as *timerPool) set(in time.Duration) *pooledTimer {
	if a, ok := as.pool.Get().(*pooledTimer); ok {
		a.timer.Reset(in)
		return a
	}
	a := &pooledTimer{fired: make(chan struct{})}
	a.timer = time.AfterFunc(in, func() { supervise.Do("check deadline", func() { close(a.fired) }) })
	return a
}
