package gate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog/refusals"
)

func TestARefusalThatTheNodeRemembersSaysNothingAboutTheLog(t *testing.T) {
	n, log := newRemoteNode(t, policy(t, 1, "default", "*", "1/m"))
	n.Gate = New(Options{
		View: n, Log: refusals.New(log, refusals.Options{Now: n.clock}), Local: n.local,
		Deadline: 10 * time.Millisecond, Recorder: &n.heard, Now: n.clock,
	})
	t.Cleanup(n.Gate.Close)
	for range 2 {
		n.check(t, "token:known")
	}
	log.hung.Store(true)
	for asked := range patience {
		if d := n.check(t, "token:known"); d.Outcome != Limited || d.Degraded != "" {
			t.Errorf("what the node remembers is %s, degraded %q", d.Outcome, d.Degraded)
		}
		if n.Outage().Open() {
			t.Fatalf("an outage after %d checks that waited", asked)
		}
		n.check(t, "token:other") // waits in vain
	}
	if !n.Outage().Open() {
		t.Error("answers from memory hid the outage")
	}
}

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
				var timers alarms
				for range 3 { // with a new timer, and with one that is used again
					next := func() *within {
						return &within{Context: parent, until: time.Now().Add(time.Second), alarms: &timers}
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

func TestADeadlineEndsWithItsParent(t *testing.T) {
	parent, cancel := context.WithCancel(context.Background())
	w := &within{Context: parent, until: time.Now().Add(time.Hour), alarms: new(alarms)}
	defer w.release()
	cancel()
	<-w.Done()
	if !errors.Is(w.Err(), context.Canceled) {
		t.Errorf("when its parent ended: %v", w.Err())
	}
}
