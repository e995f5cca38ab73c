package gate

import (
	"context"
	"time"
)

// within is a context that ends at an instant, as context.WithDeadline makes
// one, but starts its timer only when somebody waits for its end: a check that
// is answered from memory never does. It belongs to one goroutine.
type within struct {
	context.Context
	until  time.Time
	timed  context.Context
	cancel context.CancelFunc
}

// Deadline returns the instant, or the parent's where that is earlier.
func (w *within) Deadline() (time.Time, bool) {
	if parents, ok := w.Context.Deadline(); ok && parents.Before(w.until) {
		return parents, true
	}
	return w.until, true
}

// Done returns what is closed at the deadline.
func (w *within) Done() <-chan struct{} { return w.start().Done() }

// Err returns why the context has ended, nil while it has not.
func (w *within) Err() error {
	if w.timed == nil && time.Now().Before(w.until) {
		return w.Context.Err()
	}
	return w.start().Err()
}

func (w *within) start() context.Context {
	if w.timed == nil {
		w.timed, w.cancel = context.WithDeadline(w.Context, w.until)
	}
	return w.timed
}

// release frees the timer.
func (w *within) release() {
	if w.cancel != nil {
		w.cancel()
	}
}
