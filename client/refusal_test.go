package client_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/test/testnode"
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

// Lists say 9999 for blocks that never end, which is more than a duration holds.
func TestReplyToABlockUntilTheLastYear(t *testing.T) {
	n := testnode.Start(t)
	n.AddEntry(t, "blocks", `{"pattern":"user:a","reason":"test","expires_at":"9999-12-31T23:59:59Z"}`)
	d := ask(t, connectTo(t, n.Check), client.Check{Key: "user:a"})
	if years := d.RetryAfter / (365 * 24 * time.Hour); d.Outcome != client.Blocked || years < 290 {
		t.Errorf("got %s with a wait of %s, want blocked for some 292 years", d.Outcome, d.RetryAfter)
	}
	reply := client.ReplyTo(d, nil)
	if seconds, err := strconv.ParseUint(reply.Header.Get("Retry-After"), 10, 64); err != nil || seconds < 290*365*24*3600 {
		t.Errorf("got Retry-After %q", reply.Header.Get("Retry-After"))
	}
	response, err := http.Post(n.Check+"/v1/check", "application/json", strings.NewReader(`{"key":"user:a"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 64); err != nil || seconds < 290*365*24*3600 {
		t.Errorf("Stint answers with Retry-After %q", response.Header.Get("Retry-After"))
	}
}
