package grpcserver

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/connlimit"
)

// The memory of the unfinished requests of all connections is limited, in addition to that of one
// connection. Calls that arrive in one piece are answered anyway.
func TestUnfinishedRequestsShareAMemoryLimit(t *testing.T) {
	c := connect(t, echo)
	c.begin()
	c.headers(1, false)
	whole := message(strings.Repeat("x", 20<<10))
	c.must(c.framer.WriteData(1, false, whole[:10<<10]))
	c.ping()
	if held := c.server.buffered.Load(); held != 10<<10 {
		t.Fatalf("%d bytes are buffered, want 10 KiB", held)
	}
	c.server.buffered.Add(maxOfServer) // those of others
	c.must(c.framer.WriteData(1, false, whole[10<<10:12<<10]))
	c.call(3, "hello")
	go func() { _ = c.send() }()
	if _, status, err := c.answers(2); err != nil || status[1] != "ENHANCE_YOUR_CALM" || status[3] != "0" {
		t.Errorf("got the statuses %v, %v, want ENHANCE_YOUR_CALM and 0", status, err)
	}
	if held := c.server.buffered.Load(); held != maxOfServer {
		t.Errorf("%d bytes too many are buffered", held-maxOfServer)
	}
}

// A connection reports its activity, so that a full listener closes one that is idle.
func TestHeldConnReportsItsActivity(t *testing.T) {
	asked, release := make(chan bool), make(chan bool)
	c := connect(t, func(calls []*Call) {
		asked <- true
		<-release
		echo(calls)
	})
	c.begin()
	c.ping()
	var here *conn
	c.server.mu.Lock()
	for here = range c.server.conns {
	}
	c.server.mu.Unlock()
	held := heldConn{here}
	want := func(does connlimit.Activity, used bool) {
		t.Helper()
		if got, was := held.Activity(), held.TakeUsed(); got != does || was != used {
			t.Errorf("Activity: got %d, used %v, want %d, %v", got, was, does, used)
		}
	}
	want(connlimit.Idle, false)
	c.headers(1, false)
	c.ping()
	want(connlimit.AwaitingClient, false)
	c.must(c.framer.WriteData(1, true, message("hello")))
	go func() { _ = c.send() }()
	<-asked
	want(connlimit.Answering, false)
	close(release)
	if _, _, err := c.answers(1); err != nil {
		t.Fatal(err)
	}
	want(connlimit.Idle, true)
	held.Cut()
	if _, _, err := c.answers(1); err == nil {
		t.Error("the connection is open after Cut")
	}
}
