package httpserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/connlimit"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/test/servers"
)

// serveChecks serves a route that reads its body, and one that answers on the fast path.
func serveChecks(t *testing.T, conns *connlimit.Set, more ...Route) (checks *listener, dial func() net.Conn) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{}, more, []Route{
		{Listener: Checks, Method: "POST", Path: "/v1/check", Access: identity.Check, Door: "check", Fast: answerFast, Handler: func(c *Call) error { return c.SendString("plain") }},
		{Listener: Checks, Method: "POST", Path: "/read", Access: identity.Check, Handler: func(c *Call) error {
			body, err := c.ReadBody(MaxBatchBody)
			if err != nil {
				return err
			}
			return c.SendString(fmt.Sprint(len(body)))
		}},
	})
	checks = FramingListener(inner, conns).(*listener)
	served := make(chan error, 1)
	go func() { served <- s.CheckApp().Listener(s.CheckListener(checks)) }()
	t.Cleanup(func() {
		_ = s.CheckApp().ShutdownWithTimeout(time.Second)
		<-served
	})
	return checks, func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		return c
	}
}

// awaitReading waits until as many connections wait for the rest of a request.
func awaitReading(t *testing.T, checks *listener, want int) {
	t.Helper()
	servers.Await(t, "the requests are being read", func() bool {
		reading := 0
		for _, c := range checks.open() {
			if c.Activity() == connlimit.AwaitingClient {
				reading++
			}
		}
		return reading == want
	})
}

// answerOn sends a request on a connection and returns the answer's status and body.
func answerOn(t *testing.T, c net.Conn, request string) (status int, body string) {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	var answer fasthttp.Response
	if err := answer.Read(bufio.NewReader(c)); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode(), string(answer.Body())
}

func bodyOf(path string, size int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, size)
}

func heap() int64 {
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return int64(now.HeapAlloc) //nolint:gosec // no heap is so large
}

func TestAnnouncedBodyUsesNoMemoryUntilItArrives(t *testing.T) {
	checks, dial := serveChecks(t, nil)
	for _, path := range []string{"/nothing", "/read"} {
		for what, sent := range map[string]int{"nothing": 0, "the beginning": 9 << 10} {
			t.Run(path+" with "+what, func(t *testing.T) {
				const clients = 50
				answerOn(t, dial(), bodyOf("/v1/check", 2)+"{}")
				before := heap()
				for range clients {
					if _, err := io.WriteString(dial(), bodyOf(path, MaxBatchBody)+strings.Repeat(" ", sent)); err != nil {
						t.Fatal(err)
					}
				}
				awaitReading(t, checks, clients)
				if each := (heap() - before) / clients; each > 128<<10 {
					t.Errorf("each of %d requests uses %d bytes, want at most 128 KiB", clients, each)
				}
				for _, c := range checks.open() {
					c.Cut()
				}
			})
		}
	}
}

func TestLargeBodiesShareABudget(t *testing.T) {
	checks, dial := serveChecks(t, nil)
	size := 1 << 20
	request := bodyOf("/read", size) + strings.Repeat(" ", size)
	for range 3 { // earlier requests have released their bytes
		if status, body := answerOn(t, dial(), request); status != 200 || body != fmt.Sprint(size) {
			t.Fatalf("got %d %s", status, body)
		}
	}
	if held := checks.bodies.held.Load(); held != 0 {
		t.Errorf("%d bytes are reserved without a request", held)
	}
	if !checks.bodies.take(maxBodies) {
		t.Fatal("the memory budget is not free")
	}
	if status, body := answerOn(t, dial(), request); status != 503 || !strings.Contains(body, "Too many large requests") {
		t.Errorf("got %d %s", status, body)
	}
	small := bodyOf("/read", smallBody) + strings.Repeat(" ", smallBody)
	if status, body := answerOn(t, dial(), small); status != 200 {
		t.Errorf("a small body: got %d %s", status, body)
	}
	chunked := "POST /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat(fmt.Sprintf("%x\r\n%s\r\n", 1000, strings.Repeat(" ", 1000)), 100) + "0\r\n\r\n"
	if status, body := answerOn(t, dial(), chunked); status != 503 {
		t.Errorf("a chunked body: got %d %s", status, body)
	}
	checks.bodies.held.Store(0)
	if status, body := answerOn(t, dial(), chunked); status != 200 || body != "100000" {
		t.Errorf("a chunked body: got %d %s", status, body)
	}
}

// TestFullListenerClosesIdleConnections has a regular client. Between any two uses of its
// connection, others are used once.
func TestFullListenerClosesIdleConnections(t *testing.T) {
	for name, request := range map[string]string{
		"on the fast path": bodyOf("/v1/check", 2) + "{}",
		"plain":            bodyOf("/read", 2) + "{}",
	} {
		t.Run(name, func(t *testing.T) {
			const limit = 8
			checks, dial := serveChecks(t, connlimit.NewSet(limit))
			regular := dial()
			var others []net.Conn
			for range 2 * limit {
				answerOn(t, regular, request)
				fresh := dial()
				if status, _ := answerOn(t, fresh, request); status != 200 {
					t.Fatalf("a new connection: got status %d, want 200", status)
				}
				others = append(others, fresh)
				for _, c := range checks.open() {
					servers.Await(t, "the connections are idle", func() bool { return c.Activity() == connlimit.Idle })
					if c.RemoteAddr().String() != regular.LocalAddr().String() {
						c.TakeUsed() // it was used before, but not since
					}
				}
			}
			if got := checks.conns.Stats(); got != (connlimit.Stats{Open: limit, Max: limit, Cut: limit + 1}) {
				t.Errorf("got %+v", got)
			}
			open := map[string]bool{}
			for _, c := range checks.open() {
				open[c.RemoteAddr().String()] = true
			}
			for _, c := range others {
				if open[c.LocalAddr().String()] {
					continue
				}
				if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					t.Errorf("a closed connection: read %v, want io.EOF", err)
				}
			}
			answerOn(t, regular, request)
		})
	}
}

// TestFullListenerKeepsConnectionsThatAreAnswered fills a listener with requests that are being
// answered.
func TestFullListenerKeepsConnectionsThatAreAnswered(t *testing.T) {
	checks, dial := serveChecks(t, connlimit.NewSet(2))
	var here []*conn
	for range 2 {
		answerOn(t, dial(), bodyOf("/v1/check", 2)+"{}")
	}
	for _, c := range checks.open() {
		servers.Await(t, "the connections wait", func() bool { return c.fast.state.CompareAndSwap(connWaits, connAnswers) })
		here = append(here, c)
	}
	if _, err := dial().Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a connection beyond the limit: read %v, want io.EOF", err)
	}
	for _, c := range here {
		c.fast.state.Store(connWaits)
	}
	if status, _ := answerOn(t, dial(), bodyOf("/v1/check", 2)+"{}"); status != 200 {
		t.Errorf("got %d", status)
	}
}

// TestCutAnswersARequestThatHasArrived chooses a connection while it is
// idle, and closes it when it no longer is.
func TestCutAnswersARequestThatHasArrived(t *testing.T) {
	began, release := make(chan bool), make(chan bool)
	checks, dial := serveChecks(t, nil, Route{Listener: Checks, Method: "POST", Path: "/slow", Access: identity.Check, Handler: func(c *Call) error {
		began <- true
		<-release
		return c.SendString("done")
	}})
	there := dial()
	if _, err := io.WriteString(there, bodyOf("/slow", 0)); err != nil {
		t.Fatal(err)
	}
	<-began
	here := checks.open()[0]
	if does := here.Activity(); does != connlimit.Answering {
		t.Errorf("Activity: got %d, want Answering", does)
	}
	here.Cut()
	close(release)
	from := bufio.NewReader(there)
	var answer fasthttp.Response
	if err := answer.Read(from); err != nil || string(answer.Body()) != "done" {
		t.Errorf("got %q, %v", answer.Body(), err)
	}
	if _, err := from.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after the answer: read %v, want io.EOF", err)
	}
}

// TestCutSendsNothingOnIdleConnections closes connections that are idle, before and after a
// request of each path.
func TestCutSendsNothingOnIdleConnections(t *testing.T) {
	for name, request := range map[string]string{"unused": "", "after a plain request": bodyOf("/read", 2) + "{}", "after a fast one": bodyOf("/v1/check", 2) + "{}"} {
		t.Run(name, func(t *testing.T) {
			checks, dial := serveChecks(t, nil)
			there := dial()
			if request != "" {
				answerOn(t, there, request)
			}
			servers.Await(t, "it is idle", func() bool { return len(checks.open()) == 1 && checks.open()[0].Activity() == connlimit.Idle })
			checks.open()[0].Cut()
			if n, err := there.Read(make([]byte, 100)); n > 0 || !errors.Is(err, io.EOF) {
				t.Errorf("after Cut: read %d bytes, %v, want io.EOF", n, err)
			}
		})
	}
}

// TestFullListenerClosesClientsThatDoNotRead fills a listener with clients that send requests
// and read no response.
func TestFullListenerClosesClientsThatDoNotRead(t *testing.T) {
	for name, request := range map[string]string{"on the fast path": bodyOf("/v1/check", 2) + "{}", "plain": bodyOf("/read", 2) + "{}"} {
		t.Run(name, func(t *testing.T) {
			const limit = 2
			checks, dial := serveChecks(t, connlimit.NewSet(limit))
			many := strings.Repeat(request, 1000)
			for range limit {
				there := dial()
				answerOn(t, there, request)
				go func() {
					for err := error(nil); err == nil; {
						_, err = io.WriteString(there, many)
					}
				}()
			}
			open := checks.open()
			for _, c := range open {
				if err := c.Conn.(*net.TCPConn).SetWriteBuffer(4 << 10); err != nil {
					t.Fatal(err)
				}
			}
			servers.Await(t, "the responses wait", func() bool {
				for _, c := range open {
					if c.Activity() != connlimit.AwaitingClient || c.writing.Load() == 0 {
						return false
					}
				}
				return len(open) == limit
			})
			for range 3 * limit {
				if status, _ := answerOn(t, dial(), bodyOf("/v1/check", 2)+"{}"); status != 200 {
					t.Fatalf("a new connection: got status %d, want 200", status)
				}
			}
		})
	}
}

// TestFullListenerKeepsNewConnections connects twice, in place of clients that are slow to send. The
// first client sends its request after that, as one that needs long for TLS.
func TestFullListenerKeepsNewConnections(t *testing.T) {
	const limit = 3
	checks, dial := serveChecks(t, connlimit.NewSet(limit))
	request := bodyOf("/v1/check", 2) + "{}"
	for range limit {
		if _, err := io.WriteString(dial(), request[:20]); err != nil {
			t.Fatal(err)
		}
	}
	awaitReading(t, checks, limit)
	first := dial()
	servers.Await(t, "the first one is being read", func() bool {
		for _, c := range checks.open() {
			if c.RemoteAddr().String() == first.LocalAddr().String() {
				return c.isReading.Load()
			}
		}
		return false
	})
	second := dial()
	for _, c := range []net.Conn{second, first} {
		if status, _ := answerOn(t, c, request); status != 200 {
			t.Errorf("got status %d, want 200", status)
		}
	}
}
