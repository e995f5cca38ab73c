package client_test

import (
	"testing"

	"github.com/stint-dev/stint/client"
)

// A refusal caused by a reservation must not outlive the reservation.
func TestCancelForgetsCachedRefusals(t *testing.T) {
	w, key := lossy(t, first(0, none)), fresh("far")
	c := connectTo(t, w.URL)
	ask(t, c, client.Check{Key: key})
	reservation := ask(t, c, client.Check{Key: key, MaxWait: client.MaxWait}).Reservation
	if reservation == nil {
		t.Fatal("Check made no reservation")
	}
	ask(t, c, client.Check{Key: key}) // refused, and cached
	if room, err := c.Cancel(t.Context(), reservation.Handle); err != nil || !room {
		t.Fatalf("Cancel: got %v, %v, want true", room, err)
	}
	if d := ask(t, c, client.Check{Key: key}); d.FromCache || w.calls.Load() != 5 {
		t.Errorf("a Check after Cancel was answered from memory, after %d calls", w.calls.Load())
	}
}
