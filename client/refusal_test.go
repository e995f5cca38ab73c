package client_test

import (
	"testing"

	"github.com/stint-dev/stint/client"
)

func TestCheckAnswersKnownRefusalsFromMemory(t *testing.T) {
	w, key := lossy(t, first(0, none)), fresh("never")
	c := connectTo(t, w.URL)
	first := ask(t, c, client.Check{Key: key})
	d := ask(t, c, client.Check{Key: key})
	// A loaded machine may let the memory's two seconds pass.
	for range 100 {
		if d.FromCache {
			break
		}
		d = ask(t, c, client.Check{Key: key})
	}
	if !d.FromCache || d.Outcome != client.Limited || d.RetryAfter != client.Never || d.ID == "" || d.Rule != first.Rule {
		t.Errorf("a known refusal: got %+v", d)
	}
	before := w.calls.Load()
	if d := ask(t, c, client.Check{Key: key, Fresh: true}); d.FromCache || w.calls.Load() != before+1 {
		t.Errorf("a check with Fresh: got %+v", d)
	}
	c = connectTo(t, w.URL, client.WithMemory(0))
	before = w.calls.Load()
	for range 3 {
		if d := ask(t, c, client.Check{Key: key}); d.FromCache {
			t.Errorf("without a memory: got %+v from the memory", d)
		}
	}
	if asked := w.calls.Load() - before; asked != 3 {
		t.Errorf("without a memory: got %d calls for 3 checks", asked)
	}
}
