package httpserver

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stint-dev/stint/internal/connlimit"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/test/servers"
)

// largeAnswer is a route whose response is larger than the socket buffers of both sides.
func largeAnswer(size int) Route {
	return Route{Listener: Checks, Method: "GET", Path: "/large", Access: identity.Check, Handler: func(c *Call) error {
		c.Response().SetBodyRaw(bytes.Repeat([]byte("x"), size))
		return nil
	}}
}

// Clients that ask for large responses and never read them take no more memory than the budget of
// the listener, and those that read are still answered.
func TestResponsesThatNobodyReadsAreBounded(t *testing.T) {
	const size, clients = 8 << 20, 60
	checks, dial := serveChecks(t, connlimit.NewSet(1000), largeAnswer(size))
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // far below
	}
	before := heap()
	request := "GET /large HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
	var all sync.WaitGroup
	for range clients {
		c := dial()
		all.Go(func() { _, _ = io.WriteString(c, request) })
	}
	all.Wait()
	servers.Await(t, "the budget is used up", func() bool { return checks.answers.held.Load() > maxBodies-size })
	if held := checks.answers.held.Load(); held > maxBodies {
		t.Errorf("responses of %d bytes wait, want at most %d", held, maxBodies)
	}
	servers.Await(t, "the heap has little more than the budget, once all responses are made", func() bool { return heap()-before <= maxBodies+32<<20 })
	// Those that have taken nothing for a second make room for one that reads.
	servers.Await(t, "a client that reads is answered", func() bool {
		c := dial()
		defer c.Close()
		status, body := answerOn(t, c, request)
		if status == http.StatusServiceUnavailable && !strings.Contains(body, "Too many large answers") {
			t.Fatalf("got %d %s", status, body)
		}
		return status == http.StatusOK && len(body) == size
	})
	for _, c := range checks.open() {
		_ = c.Conn.Close()
	}
	servers.Await(t, "nothing is held when the connections have ended", func() bool { return checks.answers.held.Load() == 0 })
}

// A response that was read is no longer counted when the next request comes on its connection.
func TestResponsesThatWereReadAreReleased(t *testing.T) {
	checks, dial := serveChecks(t, nil, largeAnswer(1<<20))
	c := dial()
	for range 200 { // more than the budget in all
		if status, body := answerOn(t, c, "GET /large HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"); status != http.StatusOK || len(body) != 1<<20 {
			t.Fatalf("got %d with %d bytes", status, len(body))
		}
	}
	servers.Await(t, "the last is released", func() bool { return checks.answers.held.Load() == 0 })
}

// The responses to requests that came in one piece are sent as they are made, and not kept until all
// are.
func TestPipelinedResponsesDoNotPileUp(t *testing.T) {
	const size, count = 2 << 10, 100
	_, _, here, _ := fastPair(t, Options{}, func(c *FastCall) bool {
		c.Status, c.Answer = http.StatusOK, append(c.Answer, make([]byte, size)...)
		return true
	})
	f := &here.(*conn).fast
	largest := 0
	send := func() error {
		largest, f.out = max(largest, len(f.out)), f.out[:0]
		return nil
	}
	requests := []byte(strings.Repeat(fastRequestText, count))
	used, whole, err := f.answerAll(requests, send)
	if used != len(requests) || !whole || err != nil {
		t.Fatalf("answered %d of %d bytes, %v, %v", used, len(requests), whole, err)
	}
	if largest = max(largest, len(f.out)); largest > headerBytes+2*size {
		t.Errorf("%d bytes of responses waited, want at most %d and one response", largest, headerBytes)
	}
	f.out = f.out[:0]
}

// Streams count too. What changes something is answered without room, since its client would repeat
// the change, and so is what is in memory anyway.
func TestStreamsCountAndChangesAreAnsweredWithoutRoom(t *testing.T) {
	shared := make([]byte, 1<<20)
	checks, dial := serveChecks(t, nil, Route{Listener: Checks, Method: "POST", Path: "/change", Access: identity.Check, Handler: func(c *Call) error {
		return c.Send(make([]byte, 1<<20))
	}}, Route{Listener: Checks, Method: "GET", Path: "/shared", Access: identity.Check, Handler: func(c *Call) error {
		return c.SendShared(shared)
	}}, Route{Listener: Checks, Method: "GET", Path: "/stream", Access: identity.Check, Handler: func(c *Call) error {
		return Stream(c, "text/csv", "rows.csv", func(_ context.Context, w io.Writer) error {
			_, err := io.WriteString(w, "row")
			return err
		})
	}}, largeAnswer(1<<20))
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n" }
	if !checks.answers.take(maxBodies) {
		t.Fatal("the budget is not free")
	}
	for request, want := range map[string]int{
		get("/large"): 503, get("/stream"): 503, get("/shared"): 200, bodyOf("/change", 2) + "{}": 200,
	} {
		c := dial()
		if status, _ := answerOn(t, c, request); status != want {
			t.Errorf("%q without room: got %d, want %d", request, status, want)
		}
		_ = c.Close()
	}
	servers.Await(t, "what was sent is released", func() bool { return checks.answers.held.Load() == maxBodies })
	checks.answers.held.Store(0)
	if status, body := answerOn(t, dial(), get("/stream")); status != 200 || body != "row" {
		t.Errorf("with room: got %d %q", status, body)
	}
	servers.Await(t, "the stream is released", func() bool { return checks.answers.held.Load() == 0 })
}
