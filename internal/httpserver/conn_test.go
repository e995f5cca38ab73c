package httpserver

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/identity"
)

// onBothPaths runs a test with connections on which the fast path answers common requests, and
// with connections that only use the plain version.
func onBothPaths(t *testing.T, test func(t *testing.T, fast FastHandler)) {
	t.Run("fast", func(t *testing.T) { test(t, answerFast) })
	t.Run("plain", func(t *testing.T) { test(t, func(*FastCall) bool { return false }) })
}

// TestErrorsAndContinueAreSentAfterAnOldWriteDeadline lets the write deadline of the previous
// response pass, as on a connection that was idle for longer.
func TestErrorsAndContinueAreSentAfterAnOldWriteDeadline(t *testing.T) {
	for sent, want := range map[string]string{
		"GET / HTTP/1.1\nHost: a\n\n": " 400 ",
		"POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n": " 100 ",
	} {
		onBothPaths(t, func(t *testing.T, fast FastHandler) {
			s, _, here, there := fastPair(t, Options{}, fast)
			app := s.CheckApp()
			_ = app.Handler() // fiber gets ready
			served := make(chan error, 1)
			go func() { served <- app.Server().ServeConn(here) }()
			from := bufio.NewReader(there)
			ask(t, there, from, fastRequestText)
			if err := here.(*conn).Conn.SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(there, sent); err != nil {
				t.Fatal(err)
			}
			if line, err := from.ReadString('\n'); err != nil || !strings.Contains(line, want) {
				t.Errorf("got %q, %v, want one of%s", line, err, want)
			}
			_ = there.Close()
			<-served
		})
	}
}

// TestResetConnectionIsNotLogged resets connections before, during and after a request,
// as clients and the health checks of load balancers do.
func TestResetConnectionIsNotLogged(t *testing.T) {
	for what, sent := range map[string]string{"before a request": "", "in a request": fastRequestText[:20], "after a request": fastRequestText} {
		onBothPaths(t, func(t *testing.T, fast FastHandler) {
			var logged bytes.Buffer
			s, _, here, there := fastPair(t, Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))}, fast)
			app := s.CheckApp()
			_ = app.Handler()
			served := make(chan error, 1)
			go func() { served <- app.Server().ServeConn(here) }()
			if sent == fastRequestText {
				ask(t, there, bufio.NewReader(there), sent)
			} else if _, err := io.WriteString(there, sent); err != nil {
				t.Fatal(err)
			}
			if err := there.(*net.TCPConn).SetLinger(0); err != nil {
				t.Fatal(err)
			}
			_ = there.Close()
			<-served
			if logged.Len() > 0 {
				t.Errorf("%s: logged %s", what, &logged)
			}
		})
	}
}

// TestShutdownSendsTheAnswerBeforeAPipelinedRequest sends two requests together and
// stops the server while it answers the first.
func TestShutdownSendsTheAnswerBeforeAPipelinedRequest(t *testing.T) {
	began, release := make(chan bool), make(chan bool)
	s := New(Options{}, []Route{{Listener: Checks, Method: "POST", Path: "/v1/check", Access: identity.Check, Door: "check", Handler: func(c *Call) error {
		began <- true
		<-release
		return c.SendString("plain")
	}}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	app := s.CheckApp()
	served := make(chan error, 1)
	go func() { served <- app.Listener(s.CheckListener(FramingListener(l, nil))) }()
	there, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if _, err := io.WriteString(there, fastRequestText+fastRequestText); err != nil {
		t.Fatal(err)
	}
	<-began
	stopped := make(chan error, 1)
	go func() { stopped <- app.ShutdownWithTimeout(time.Minute) }()
	for {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			break // it is stopping
		}
		_ = c.Close()
	}
	close(release)
	go func() {
		for range began { // the second one, if it is answered too
		}
	}()
	var got fasthttp.Response
	if err := got.Read(bufio.NewReader(there)); err != nil || string(got.Body()) != "plain" {
		t.Errorf("got %q, %v", got.Body(), err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	<-served
	close(began)
}
