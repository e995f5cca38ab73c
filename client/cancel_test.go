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
		t.Fatal("no reservation was reserved")
	}
	ask(t, c, client.Check{Key: key}) // is refused, and remembered
	if room, err := c.Cancel(t.Context(), reservation.Handle); err != nil || !room {
		t.Fatalf("cancelled: %v, %v", room, err)
	}
	if d := ask(t, c, client.Check{Key: key}); d.FromCache || w.calls.Load() != 5 {
		t.Errorf("after %d calls it was refused from memory", w.calls.Load())
	}
}
