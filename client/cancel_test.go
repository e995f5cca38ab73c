package client_test

import (
	"testing"

	"github.com/stint-dev/stint/client"
)

func TestWhatACancellableCheckWasChargedIsCancelledOnce(t *testing.T) {
	w, key := lossy(t, func(int64) fault { return none }), fresh("far")
	c := connectTo(t, w.URL)
	charged := ask(t, c, client.Check{Key: key, Cancellable: true})
	if charged.Reservation == nil || charged.Delay != 0 {
		t.Fatalf("a cancellable check: %+v", charged)
	}
	for _, want := range []bool{true, false} {
		if freed, err := c.Cancel(t.Context(), charged.Reservation.Handle); err != nil || freed != want {
			t.Fatalf("Cancel: %v, %v, want %v", freed, err, want)
		}
	}
	if all, err := c.CheckAll(t.Context(), client.CombinedCheck{Keys: []client.CombinedKey{{Key: key}}, Cancellable: true}); err != nil || all.Reservation == nil {
		t.Errorf("CheckAll: %+v, %v", all, err)
	}
}

// A refusal caused by a reservation must not outlive the reservation, also if the answer to the
// cancellation is lost: the next attempt is answered that nothing was freed.
func TestCancelForgetsCachedRefusals(t *testing.T) {
	for name, lost := range map[string]int64{"answered": 0, "answered at the second attempt": 1} {
		t.Run(name, func(t *testing.T) {
			const cancellation = 4 // the number of its call
			w, key := lossy(t, func(n int64) fault {
				if n >= cancellation && n < cancellation+lost {
					return cutAfter
				}
				return none
			}), fresh("far")
			c := connectTo(t, w.URL)
			ask(t, c, client.Check{Key: key})
			reservation := ask(t, c, client.Check{Key: key, MaxWait: client.MaxWait}).Reservation
			if reservation == nil {
				t.Fatal("Check made no reservation")
			}
			ask(t, c, client.Check{Key: key}) // refused, and cached
			if room, err := c.Cancel(t.Context(), reservation.Handle); err != nil || room != (lost == 0) {
				t.Fatalf("Cancel: got %v, %v", room, err)
			}
			if d := ask(t, c, client.Check{Key: key}); d.FromCache || w.calls.Load() != cancellation+lost+1 {
				t.Errorf("a Check after Cancel was answered from memory, after %d calls", w.calls.Load())
			}
		})
	}
}
