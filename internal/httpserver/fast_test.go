package httpserver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/connlimit"
	"github.com/stint-dev/stint/internal/identity"
)

// fastPair returns the server's and the client's end of a connection to a server whose
// routes are answered by fast, or by their plain handlers with "plain".
func fastPair(t *testing.T, o Options, fast FastHandler) (s *Server, checks net.Listener, here, there net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return fastPairOn(t, l, o, fast)
}

// fastPairOn is fastPair on a listener.
func fastPairOn(t *testing.T, l net.Listener, o Options, fast FastHandler) (s *Server, checks net.Listener, here, there net.Conn) {
	t.Helper()
	plain := func(c *Call) error { return c.SendString("plain") }
	s = New(o, []Route{
		{Listener: Checks, Method: "POST", Path: "/v1/check", Access: identity.Check, Door: "check", Fast: fast, Handler: plain},
		{Listener: Checks, Method: AnyMethod, Path: "/v1/forward", Access: identity.Check, Door: "forward", AnyHost: true, TokenHeader: "X-Token", Fast: fast, Handler: plain},
	})
	checks = s.CheckListener(FramingListener(l, nil))
	var err error
	if there, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if here, err = checks.Accept(); err != nil {
		t.Fatal(err)
	}
	if err := there.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = there.Close(); _ = checks.Close() })
	return s, checks, here, there
}

const fastRequestText = fastLine + fastHeaders + "\r\n{}"

// onEachRoute runs a test with a request of each route that is in the common form.
func onEachRoute(t *testing.T, test func(t *testing.T, request string)) {
	for name, request := range map[string]string{
		"check": fastRequestText, "forward": "GET /v1/forward?policy=a HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) { test(t, request) })
	}
}

func answerFast(c *FastCall) bool {
	c.Status, c.Answer = 200, append(c.Answer, "fast"...)
	return true
}

func TestClosedConnectionSendsItsAnswerFirst(t *testing.T) {
	onEachRoute(t, func(t *testing.T, request string) {
		answering, goOn := make(chan bool), make(chan bool)
		s, _, here, there := fastPair(t, Options{}, func(c *FastCall) bool {
			answering <- true
			<-goOn
			return answerFast(c)
		})
		served := make(chan error, 1)
		_ = s.CheckApp().Handler()
		go func() { served <- s.CheckApp().Server().ServeConn(here) }()
		if _, err := io.WriteString(there, request); err != nil {
			t.Fatal(err)
		}
		<-answering
		for range 2 {
			if err := here.Close(); err != nil {
				t.Fatal(err)
			}
		}
		close(goOn)
		all, err := io.ReadAll(there)
		if err != nil || !strings.HasSuffix(string(all), "\r\n\r\nfast") {
			t.Errorf("got %q, %v", all, err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// ask sends one request, and returns the body of the answer.
func ask(t *testing.T, there net.Conn, from *bufio.Reader, request string) string {
	t.Helper()
	if _, err := io.WriteString(there, request); err != nil {
		t.Fatal(err)
	}
	var got fasthttp.Response
	if err := got.Read(from); err != nil {
		t.Fatal(err)
	}
	return string(got.Body())
}

func TestClosedListenerUsesThePlainVersionAndEndsIdleConnections(t *testing.T) {
	onEachRoute(t, func(t *testing.T, request string) {
		s, checks, here, there := fastPair(t, Options{}, answerFast)
		fast, _ := here.(*conn)
		_ = s.CheckApp().Handler()
		served := make(chan error, 1)
		go func() { served <- s.CheckApp().Server().ServeConn(here) }()
		from := bufio.NewReader(there)
		for _, want := range []string{"plain", "fast", "fast"} {
			fast.fast.shared.closed.Store(want == "plain")
			if got := ask(t, there, from, request); got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
		_ = checks.Close()
		if _, err := from.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("after the listener was closed: read %v, want io.EOF", err)
		}
		if err := <-served; err != nil && !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		if open := fast.listener.open(); len(open) > 0 {
			t.Errorf("the listener still has %d connections", len(open))
		}
	})
}

func TestPanicBeforeTheFastHandlerFallsBackToThePlainVersion(t *testing.T) {
	onEachRoute(t, func(t *testing.T, request string) {
		var calls atomic.Int64
		s, _, here, there := fastPair(t, Options{Now: func() time.Time {
			if calls.Add(1) == 1 {
				panic("broken")
			}
			return time.Now()
		}}, answerFast)
		_ = s.CheckApp().Handler()
		go func() { _ = s.CheckApp().Server().ServeConn(here) }()
		if got := ask(t, there, bufio.NewReader(there), request); got != "plain" {
			t.Fatalf("got %q", got)
		}
	})
}

func TestPanicAfterTheFastHandlerEndsTheConnection(t *testing.T) {
	onEachRoute(t, func(t *testing.T, request string) {
		var log bytes.Buffer
		s, _, here, there := fastPair(t, Options{
			Logger: slog.New(slog.NewTextHandler(&log, nil)), Observe: func(*Answered) { panic("broken") },
		}, answerFast)
		_ = s.CheckApp().Handler()
		served := make(chan error, 1)
		go func() { served <- s.CheckApp().Server().ServeConn(here) }()
		if _, err := io.WriteString(there, request); err != nil {
			t.Fatal(err)
		}
		if all, err := io.ReadAll(there); err != nil || len(all) > 0 {
			t.Errorf("got %q, %v", all, err)
		}
		<-served
		if path := strings.SplitAfter(t.Name(), "/")[1]; !strings.Contains(log.String(), "cause=broken") || !strings.Contains(log.String(), "path=/v1/"+path) {
			t.Errorf("got the log %q, want the panic and the path", &log)
		}
	})
}

// timedConn counts how often its deadlines are set, and remembers them.
type timedConn struct {
	net.Conn
	set         atomic.Int64
	read, write time.Time
	furthest    time.Time // of the read deadlines
}

func (c *timedConn) SetReadDeadline(t time.Time) error {
	c.set.Add(1)
	c.read = t
	if t.After(c.furthest) {
		c.furthest = t
	}
	return nil
}

func (c *timedConn) SetWriteDeadline(t time.Time) error {
	c.set.Add(1)
	c.write = t
	return nil
}

func (c *timedConn) Read(p []byte) (int, error)  { return copy(p, fastRequestText), nil }
func (c *timedConn) Write(p []byte) (int, error) { return len(p), nil }
func (c *timedConn) RemoteAddr() net.Addr        { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (c *timedConn) Close() error                { return nil }

func TestBusyConnectionDoesNotSetItsDeadlinesForEachRequest(t *testing.T) {
	left := 1000
	s := New(Options{}, []Route{{Listener: Checks, Method: "POST", Path: "/v1/check", Access: identity.Check, Fast: func(c *FastCall) bool {
		left--
		return left > 0 && answerFast(c)
	}}})
	plain := &timedConn{}
	c := newFastServer(s).conn(newConn(plain, &listener{conns: connlimit.NewSet(0)}))
	before := time.Now()
	if err := c.SetReadDeadline(before.Add(time.Millisecond)); err != nil { // as fasthttp does for the first request
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 4096)); n != len(fastRequestText) || err != nil {
		t.Fatalf("read %d, %v", n, err)
	}
	if plain.furthest.Before(before.Add(idleTimeout)) || plain.write.Before(before.Add(WriteTimeout)) {
		t.Errorf("the deadlines are %s and %s after the beginning, too early", plain.furthest.Sub(before), plain.write.Sub(before))
	}
	if plain.read.After(time.Now().Add(ReadTimeout)) {
		t.Errorf("the read deadline of the plain version is in %s", time.Until(plain.read))
	}
	if set := plain.set.Load(); set >= 1000 {
		t.Errorf("the deadlines were set %d times for 1000 requests", set)
	}
}

// Requests to both routes that arrive in one piece are answered in order. If one needs the
// plain version, the later ones go to it too.
func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	const forward = "POST /v1/forward HTTP/1.1\r\nHost: a\r\n"
	s, _, here, there := fastPair(t, Options{}, func(c *FastCall) bool {
		c.Status, c.Answer = 200, append(c.Answer, "fast "+c.request.route.Path...)
		return true
	})
	_ = s.CheckApp().Handler()
	go func() { _ = s.CheckApp().Server().ServeConn(here) }()
	sent := forward + "\r\n" + fastRequestText + forward + "Content-Length: 0\r\n\r\n" + // fast
		forward + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(forward)) + forward + fastRequestText + forward + "\r\n"
	if _, err := io.WriteString(there, sent); err != nil {
		t.Fatal(err)
	}
	from := bufio.NewReader(there)
	for i, want := range []string{"fast /v1/forward", "fast /v1/check", "fast /v1/forward", "plain", "plain", "plain"} {
		var got fasthttp.Response
		if err := got.Read(from); err != nil {
			t.Fatal(err)
		}
		if string(got.Body()) != want {
			t.Errorf("answer %d is %q, want %q", i, got.Body(), want)
		}
	}
	if got := ask(t, there, from, forward+"\r\n"); got != "fast /v1/forward" {
		t.Errorf("after the plain version: got %q", got)
	}
}
