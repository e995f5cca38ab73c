package httpserver

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/stint-dev/stint/internal/identity"
)

// A shutdown waits for an unused connection no longer than the grace time. A first request
// within the grace time is answered.
func TestShutdownClosesUnusedConnections(t *testing.T) {
	for name, test := range map[string]struct {
		age, first time.Duration // age of the connection, and when its request arrives; 0 for none
		takes      time.Duration // maximum duration of the shutdown
	}{
		"an old connection":                 {6 * time.Second, 0, 0},
		"just accepted":                     {time.Second / 2, 0, unusedGrace - time.Second/2},
		"a request arrives":                 {0, time.Second, time.Second},
		"a request at the end of the grace": {0, unusedGrace - time.Millisecond, unusedGrace},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := fasthttputil.NewInmemoryListener()
				l := FramingListener(inner, nil)
				server := &fasthttp.Server{
					ReadTimeout: ReadTimeout, IdleTimeout: idleTimeout, NoDefaultDate: true,
					Handler:      func(rc *fasthttp.RequestCtx) { rc.SetBodyString("answer") },
					ErrorHandler: func(_ *fasthttp.RequestCtx, err error) { t.Errorf("a request failed: %v", err) },
				}
				served := make(chan error, 1)
				go func() { served <- server.Serve(l) }()
				there, err := inner.Dial()
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				time.Sleep(test.age)
				answered := make(chan string, 1)
				go func() { answered <- firstAnswer(there, test.first) }()
				began := time.Now()
				if err := server.Shutdown(); err != nil {
					t.Error(err)
				}
				// fasthttp checks ten times a second.
				if took := time.Since(began); took > test.takes+time.Second/10 {
					t.Errorf("Shutdown took %s", took)
				}
				if got, want := <-answered, map[bool]string{true: "answer"}[test.first > 0]; got != want {
					t.Errorf("the client got %q, want %q", got, want)
				}
				if err := <-served; err != nil {
					t.Error(err)
				}
				_ = there.Close()
				time.Sleep(time.Minute) // fasthttp's workers end
				if open := l.(*listener).open(); len(open) > 0 {
					t.Errorf("the listener still has %d connections", len(open))
				}
			})
		})
	}
}

// firstAnswer returns the answer to a request that is sent later, "" if the connection is
// closed.
func firstAnswer(c net.Conn, after time.Duration) string {
	if after > 0 {
		time.Sleep(after)
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			return err.Error()
		}
	}
	var answer fasthttp.Response
	if err := answer.Read(bufio.NewReader(c)); err != nil {
		if !errors.Is(err, io.EOF) {
			return err.Error()
		}
		return ""
	}
	return string(answer.Body())
}

// If an unused connection is closed by a shutdown, also one with TLS before the handshake, no failed
// request is logged.
func TestClosingAnUnusedConnectionReportsNoError(t *testing.T) {
	secure := httptest.NewTLSServer(nil)
	secure.Close()
	for name, wrap := range map[string]func(net.Listener) net.Listener{
		"plain": func(l net.Listener) net.Listener { return l },
		"TLS":   func(l net.Listener) net.Listener { return tls.NewListener(l, secure.TLS) },
	} {
		t.Run(name, func(t *testing.T) {
			inner, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			reading := make(chan bool, 1)
			l := FramingListener(wrap(signalingListener{inner, reading}), nil)
			failed := make(chan error, 1)
			server := &fasthttp.Server{ReadTimeout: ReadTimeout, ErrorHandler: func(_ *fasthttp.RequestCtx, err error) { failed <- err }}
			there, err := net.Dial("tcp", inner.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer there.Close()
			here, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- server.ServeConn(here) }()
			<-reading
			for _, c := range l.(*listener).open() {
				c.accepted = time.Now().Add(-time.Minute)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if got := firstAnswer(there, 0); got != "" {
				t.Errorf("the client got %q", got)
			}
			if err := <-served; err != nil && !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			select {
			case err := <-failed:
				t.Errorf("a request failed: %v", err)
			default:
			}
		})
	}
}

// signalingListener signals when its connections are read.
type signalingListener struct {
	net.Listener
	reading chan<- bool
}

func (l signalingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return signalingConn{c, l.reading}, err
}

type signalingConn struct {
	net.Conn
	reading chan<- bool
}

func (c signalingConn) Read(p []byte) (int, error) {
	select {
	case c.reading <- true:
	default: // already signalled
	}
	return c.Conn.Read(p)
}

// A request that arrives just after a shutdown began is answered and says that the connection
// ends; a connection that has none is closed. A proxy would otherwise send a request on a
// connection that is being closed, and lose it.
func TestShutdownAnswersTheNextRequestOfAConnection(t *testing.T) {
	for name, fast := range map[string]FastHandler{"fast": answerFast, "plain": nil} {
		for then, send := range map[string]func(there net.Conn, framing *listener){
			"asks": func(there net.Conn, _ *listener) { write(t, there, fastRequestText) },
			"asks slowly": func(there net.Conn, framing *listener) {
				const half = len(fastRequestText) / 2
				write(t, there, fastRequestText[:half])
				awaitConn(t, framing, func(c *conn) bool { return c.sending.Load() })
				framing.closeIdle()
				write(t, there, fastRequestText[half:])
			},
			"ends": nil,
		} {
			t.Run(name+" "+then, func(t *testing.T) {
				s := New(Options{}, []Route{{Listener: Checks, Method: "POST", Path: "/v1/check", Access: identity.Check, Door: "check", Fast: fast,
					Handler: func(c *Call) error { return c.SendString("plain") }}})
				inner, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				framing, _ := FramingListener(inner, nil).(*listener)
				framing.idleGrace = time.Hour // the test ends it
				app, served, stopped := s.CheckApp(), make(chan error, 1), make(chan error, 1)
				go func() { served <- app.Listener(s.CheckListener(framing)) }()
				there, err := net.Dial("tcp", inner.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer there.Close()
				from := bufio.NewReader(there)
				if got := ask(t, there, from, fastRequestText); got != name {
					t.Fatalf("got %q, want %q", got, name)
				}
				awaitConn(t, framing, func(c *conn) bool { return c.isReading.Load() }) // fasthttp ends one that does not read yet
				go func() { stopped <- app.ShutdownWithTimeout(time.Minute) }()
				for !framing.isClosed.Load() {
					time.Sleep(time.Millisecond)
				}
				if send == nil {
					framing.closeIdle()
				} else {
					send(there, framing)
					var got fasthttp.Response
					if err := got.Read(from); err != nil || string(got.Body()) != "plain" || !got.ConnectionClose() {
						t.Errorf("got %q, close %t, %v", got.Body(), got.ConnectionClose(), err)
					}
				}
				if _, err := from.ReadByte(); !errors.Is(err, io.EOF) {
					t.Errorf("read %v, want io.EOF", err)
				}
				if err := <-stopped; err != nil {
					t.Error(err)
				}
				<-served
			})
		}
	}
}

func write(t *testing.T, to net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(to, text); err != nil {
		t.Fatal(err)
	}
}

// awaitConn waits until a connection of l is as it has to be.
func awaitConn(t *testing.T, l *listener, is func(*conn) bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !slices.ContainsFunc(l.open(), is); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited too long for a connection")
		}
	}
}
