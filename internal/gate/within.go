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
type within struct {
	context.Context
	until  time.Time
	alarms *alarms
	alarm  *alarm // started, where the parent never ends

	timed  context.Context // started, where the parent may end
	cancel context.CancelFunc
}

// Deadline returns the instant, also where the parent may end earlier: who
// waits learns of that by Done, and it is not the log's fault.
func (w *within) Deadline() (time.Time, bool) { return w.until, true }

// Done returns what is closed at the deadline.
func (w *within) Done() <-chan struct{} {
	switch {
	case w.timed != nil:
		return w.timed.Done()
	case w.Context.Done() != nil:
		w.timed, w.cancel = context.WithDeadline(w.Context, w.until)
		return w.timed.Done()
	case w.alarm == nil:
		w.alarm = w.alarms.set(time.Until(w.until))
	}
	return w.alarm.rang
}

// Err returns why the context has ended, nil while it has not: DeadlineExceeded
// where its own instant has passed, and Canceled where its parent ended before,
// for whatever reason, since the caller has then gone away.
func (w *within) Err() error {
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
func (w *within) release() {
	if w.cancel != nil {
		w.cancel()
	}
	if w.alarm != nil && w.alarm.timer.Stop() {
		w.alarms.pool.Put(w.alarm)
	}
}

// alarms keeps alarms that did not ring. The zero value is ready.
type alarms struct{ pool sync.Pool }

// alarm closes rang when its time has come.
type alarm struct {
	timer *time.Timer
	rang  chan struct{}
}

func (as *alarms) set(in time.Duration) *alarm {
	if a, ok := as.pool.Get().(*alarm); ok {
		a.timer.Reset(in)
		return a
	}
	a := &alarm{rang: make(chan struct{})}
	a.timer = time.AfterFunc(in, func() { supervise.Do("check deadline", func() { close(a.rang) }) })
	return a
}
