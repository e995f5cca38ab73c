package client_test

import (
	"testing"

	"github.com/stint-dev/stint/client"
)

// A refusal that stands because of a turn must not outlive the turn.
func TestARefusalIsForgottenWhereATurnIsGivenBack(t *testing.T) {
	w, key := lossy(t, first(0, none)), fresh("far")
	c := connectTo(t, w.URL)
	ask(t, c, client.Check{Key: key})
	turn := ask(t, c, client.Check{Key: key, MaxWait: client.MaxWait}).Turn
	if turn == nil {
		t.Fatal("no turn was reserved")
	}
	ask(t, c, client.Check{Key: key}) // is refused, and remembered
	if room, err := c.GiveBack(t.Context(), turn.Handle); err != nil || !room {
		t.Fatalf("given back: %v, %v", room, err)
	}
	if d := ask(t, c, client.Check{Key: key}); d.Remembered || w.calls.Load() != 5 {
		t.Errorf("after %d calls it was refused from memory", w.calls.Load())
	}
}
