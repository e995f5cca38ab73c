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
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(context.Background())
		defer cancel()
		w := &within{Context: parent, until: time.Now().Add(time.Second)}
		if at, ok := w.Deadline(); !ok || !at.Equal(w.until) || w.Err() != nil {
			t.Errorf("it ends at %v, %v, with %v", at, ok, w.Err())
		}
		<-w.Done()
		if !errors.Is(w.Err(), context.DeadlineExceeded) {
			t.Errorf("at its end: %v", w.Err())
		}
		w.release()

		early := &within{Context: parent, until: time.Now().Add(time.Second)}
		cancel()
		<-early.Done()
		if !errors.Is(early.Err(), context.Canceled) {
			t.Errorf("when its parent ended: %v", early.Err())
		}
		early.release()

		unasked := &within{Context: context.Background(), until: time.Now().Add(time.Second)}
		time.Sleep(2 * time.Second)
		if !errors.Is(unasked.Err(), context.DeadlineExceeded) {
			t.Errorf("where nobody waited for its end: %v", unasked.Err())
		}
		unasked.release()
	})
}
