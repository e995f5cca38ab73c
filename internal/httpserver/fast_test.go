package httpserver

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/identity"
)

const fastLine = "POST /v1/check HTTP/1.1\r\n"

const fastHeaders = "Host: a.example:80\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"

// FuzzParseFast asserts that what parseFast takes is one request for the framer too, and
// that fasthttp reads the same from it.
func FuzzParseFast(f *testing.F) {
	for _, headers := range []string{
		fastHeaders, fastHeaders + "Authorization: Bearer abc\r\nX-Request-Id: 12345678\r\n", "HOST: a\r\ncontent-type: application/json; Charset=utf-8\r\nCONTENT-LENGTH: 2\r\n",
		fastHeaders + "Connection: keep-alive\r\nAccept: */*\r\nAccept-Encoding: gzip\r\nAccept-Language: *\r\nSec-Fetch-Mode: cors\r\nUser-Agent: x\r\n",
		fastHeaders + "Host: b\r\n", fastHeaders + "Accept:  a\r\n", fastHeaders + "Accept: a \r\n", fastHeaders + "Accept: a\tb\r\n", fastHeaders + " Accept: a\r\n",
		fastHeaders + "Expect: 100-continue\r\n", fastHeaders + "Transfer-Encoding: chunked\r\n", "Host: a..b:0\r\n" + fastHeaders[20:], "Host: -:99999\r\n" + fastHeaders[20:],
	} {
		f.Add([]byte(headers + "\r\n{}"))
		f.Add([]byte(headers + "\r\n{}" + fastLine))
	}
	f.Fuzz(func(t *testing.T, rest []byte) {
		p := append([]byte(fastLine), rest...)
		got, size := parseFast([]byte(fastLine), p)
		if size == 0 {
			return
		}
		framed := framer{length: -1}
		if n := framed.follow(p[:size]); n != size || framed.err != nil || !framed.isBetween() {
			t.Fatalf("the framer follows %d of %d bytes: %v", n, size, framed.err)
		}
		var want fasthttp.RequestCtx
		from := bufio.NewReaderSize(bytes.NewReader(p[:size]), headerBytes)
		if err := want.Request.Read(from); err != nil {
			t.Fatalf("fasthttp fails: %v", err)
		}
		h := &want.Request.Header
		if from.Buffered() > 0 || !bytes.Equal(got.body, want.Request.Body()) || !bytes.Equal(got.host, want.Request.Host()) || string(want.Path()) != "/v1/check" ||
			!bytes.Equal(got.authorization, h.Peek("Authorization")) || !bytes.Equal(got.id, h.Peek("X-Request-Id")) || h.ConnectionClose() || want.Request.MayContinue() ||
			len(h.PeekAll("Authorization")) > 1 || len(h.ContentEncoding()) > 0 || len(h.Peek("Traceparent")) > 0 {
			t.Fatalf("fasthttp reads another request:\n%s\nparseFast: %q of %q", &want.Request, got.body, got.host)
		}
	})
}

// fastPair returns the server's and the client's end of a connection to a server whose one
// route is answered by fast, or by its plain handler with "plain".
func fastPair(t *testing.T, o Options, fast FastHandler) (s *Server, checks net.Listener, here, there net.Conn) {
	t.Helper()
	s = New(o, []Route{{
		Listener: Checks, Method: "POST", Path: "/v1/check", Access: identity.Check, Door: "check", Fast: fast,
		Handler: func(c *Call) error { return c.SendString("plain") },
	}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	checks = s.CheckListener(FramingListener(l))
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

func answerFast(c *FastCall) bool {
	c.Status, c.Answer = 200, append(c.Answer, "fast"...)
	return true
}

func TestAConnectionThatIsClosedWhileItAnswersSendsItsAnswerFirst(t *testing.T) {
	answering, goOn := make(chan bool), make(chan bool)
	s, _, here, there := fastPair(t, Options{}, func(c *FastCall) bool {
		answering <- true
		<-goOn
		return answerFast(c)
	})
	served := make(chan error, 1)
	_ = s.CheckApp().Handler()
	go func() { served <- s.CheckApp().Server().ServeConn(here) }()
	if _, err := io.WriteString(there, fastRequestText); err != nil {
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
}

// ask sends one request, and returns the body of the answer.
func ask(t *testing.T, there net.Conn, from *bufio.Reader) string {
	t.Helper()
	if _, err := io.WriteString(there, fastRequestText); err != nil {
		t.Fatal(err)
	}
	var got fasthttp.Response
	if err := got.Read(from); err != nil {
		t.Fatal(err)
	}
	return string(got.Body())
}

func TestAClosedListenerEndsTheConnectionsThatWaitAndLeavesRequestsToThePlainVersion(t *testing.T) {
	s, checks, here, there := fastPair(t, Options{}, answerFast)
	fast, _ := here.(*conn)
	_ = s.CheckApp().Handler()
	served := make(chan error, 1)
	go func() { served <- s.CheckApp().Server().ServeConn(here) }()
	from := bufio.NewReader(there)
	for _, want := range []string{"plain", "fast", "fast"} {
		fast.fast.shared.closed.Store(want == "plain")
		if got := ask(t, there, from); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	_ = checks.Close()
	if _, err := from.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the connection still waits: %v", err)
	}
	if err := <-served; err != nil && !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if open := fast.fast.shared.connections(); len(open) > 0 {
		t.Errorf("%d connections are kept", len(open))
	}
}

func TestAPanicBeforeTheFastHandlerIsThePlainVersions(t *testing.T) {
	var asked atomic.Int64
	s, _, here, there := fastPair(t, Options{Now: func() time.Time {
		if asked.Add(1) == 1 {
			panic("broken")
		}
		return time.Now()
	}}, answerFast)
	_ = s.CheckApp().Handler()
	go func() { _ = s.CheckApp().Server().ServeConn(here) }()
	if got := ask(t, there, bufio.NewReader(there)); got != "plain" {
		t.Fatalf("got %q", got)
	}
}

func TestAPanicAfterTheFastHandlerChargedEndsTheConnection(t *testing.T) {
	var log bytes.Buffer
	s, _, here, there := fastPair(t, Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)), Observe: func(*Answered) { panic("broken") },
	}, answerFast)
	_ = s.CheckApp().Handler()
	served := make(chan error, 1)
	go func() { served <- s.CheckApp().Server().ServeConn(here) }()
	if _, err := io.WriteString(there, fastRequestText); err != nil {
		t.Fatal(err)
	}
	if all, err := io.ReadAll(there); err != nil || len(all) > 0 {
		t.Errorf("got %q, %v", all, err)
	}
	<-served
	if !strings.Contains(log.String(), "cause=broken") {
		t.Errorf("the log has %q", &log)
	}
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

func TestABusyConnectionKeepsItsDeadlinesAheadWithoutSettingThemEachTime(t *testing.T) {
	left := 1000
	s := New(Options{}, []Route{{Listener: Checks, Method: "POST", Path: "/v1/check", Access: identity.Check, Fast: func(c *FastCall) bool {
		left--
		return left > 0 && answerFast(c)
	}}})
	plain := &timedConn{}
	c := newFastServer(s).conn(FramingConn(plain))
	before := time.Now()
	if err := c.SetReadDeadline(before.Add(time.Millisecond)); err != nil { // as fasthttp does for the first request
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 4096)); n != len(fastRequestText) || err != nil {
		t.Fatalf("read %d, %v", n, err)
	}
	if plain.furthest.Before(before.Add(idleTimeout)) || plain.write.Before(before.Add(WriteTimeout)) {
		t.Errorf("the deadlines are %s and %s from the beginning", plain.furthest.Sub(before), plain.write.Sub(before))
	}
	if plain.read.After(time.Now().Add(ReadTimeout)) {
		t.Errorf("the plain version's request has %s", time.Until(plain.read))
	}
	if set := plain.set.Load(); set >= 1000 {
		t.Errorf("they were set %d times", set)
	}
}
