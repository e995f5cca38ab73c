package grpcserver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// The methods: one that Answer answers, one of Plain that takes one message, and one that
// takes several.
const (
	method       = "/test.Echo/Say"
	plainMethod  = "/test.Echo/SayPlain"
	streamMethod = "/test.Echo/SayEach"
)

// pipes is a listener whose connections are in memory.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
}

func (l pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l pipes) Close() error   { close(l.closed); return nil }
func (l pipes) Addr() net.Addr { return &net.TCPAddr{} }

// echo answers a call, of either version, by its message.
func echo(calls []*Call) {
	for _, c := range calls {
		c.Answer = append(c.Answer[:0], c.Message...)
	}
	Finish(calls...)
}

func echoPlain(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Add("Trailer", "Grpc-Status")
	_, _ = w.Write(text)
	w.Header().Set("Grpc-Status", "0")
}

// client writes and reads the frames of one connection.
type client struct {
	testing.TB
	server  *Server
	net     net.Conn
	path    string // of the method that it calls
	framer  *http2.Framer
	out     bytes.Buffer
	decoder *hpack.Decoder
}

func options(answer func([]*Call), plain http.HandlerFunc) Options {
	return Options{
		Methods: []string{method}, Answer: answer, MaxBatch: 8, Plain: plain, MaxHeaders: 8 << 10, MaxStreams: 20,
		HandshakeTime: 10 * time.Second, MaxAge: 5 * time.Minute, Grace: 10 * time.Second, MinPing: 10 * time.Second,
		MaxMessage: 64 << 10, SingleRequest: []string{plainMethod}, RequestTime: 10 * time.Second,
	}
}

// connect starts a server and connects to it.
func connect(t testing.TB, answer func([]*Call)) *client {
	t.Helper()
	return connectPlain(t, answer, echoPlain)
}

func connectPlain(t testing.TB, answer func([]*Call), plain http.HandlerFunc) *client {
	t.Helper()
	s := New(options(answer, plain))
	l := pipes{make(chan net.Conn), make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	near, far := net.Pipe()
	l.accepted <- far
	t.Cleanup(func() {
		near.Close()
		s.Stop(0)
		if err := <-served; err != nil {
			t.Error(err)
		}
		if len(s.conns) > 0 {
			t.Error("after Stop the server still has a connection")
		}
	})
	c := &client{TB: t, server: s, net: near, path: method, decoder: hpack.NewDecoder(4096, nil)}
	c.framer = http2.NewFramer(&c.out, near)
	c.framer.ReadMetaHeaders = c.decoder
	return c
}

// send writes what was put into out.
func (c *client) send() error {
	b := c.out.Bytes()
	c.out = bytes.Buffer{}
	_, err := c.net.Write(b)
	return err
}

// begin writes the beginning of a connection, without sending it.
func (c *client) begin(settings ...http2.Setting) {
	c.out.WriteString(http2.ClientPreface)
	c.must(c.framer.WriteSettings(settings...))
}

func (c *client) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func headersOf(path string) []byte {
	return block(field(":method", "POST"), field(":scheme", "http"), field(":path", path), field(":authority", "x"),
		field("content-type", "application/grpc"), field("te", "trailers"))
}

var requestHeaders = headersOf(method)

func message(text string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text))), text...) //nolint:gosec // short
}

func (c *client) headers(id uint32, isLast bool) {
	c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: headersOf(c.path), EndHeaders: true, EndStream: isLast}))
}

// call writes a whole call, without sending it.
func (c *client) call(id uint32, text string) {
	c.headers(id, false)
	c.must(c.framer.WriteData(id, true, message(text)))
}

// answers reads until so many streams have ended, and returns their messages and trailers.
func (c *client) answers(n int) (messages map[uint32]string, status map[uint32]string, err error) {
	messages, status = map[uint32]string{}, map[uint32]string{}
	for ended := 0; ended < n; {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return messages, status, err
		}
		switch f := frame.(type) {
		case *http2.DataFrame:
			messages[f.StreamID] += string(f.Data())
		case *http2.MetaHeadersFrame:
			for _, h := range f.Fields {
				if h.Name == "grpc-status" {
					status[f.StreamID] = h.Value
				}
			}
			if f.StreamEnded() {
				ended++
			}
		case *http2.RSTStreamFrame:
			status[f.StreamID] = f.ErrCode.String()
			ended++
		case *http2.GoAwayFrame:
			return messages, status, http2.ConnectionError(f.ErrCode)
		}
	}
	return messages, status, nil
}

// The answer to a call does not depend on how the call is cut into frames.
func TestAnswerDoesNotDependOnTheFrames(t *testing.T) {
	whole := message("hello")
	for name, ask := range map[string]func(c *client){
		"in one piece": func(c *client) { c.call(1, "hello") },
		"in two pieces": func(c *client) {
			c.headers(1, false)
			c.must(errors.Join(c.framer.WriteData(1, false, whole[:3]), c.framer.WriteData(1, true, whole[3:])))
		},
		"with an empty piece": func(c *client) {
			c.headers(1, false)
			c.must(errors.Join(c.framer.WriteData(1, false, nil), c.framer.WriteData(1, true, whole)))
		},
		"with padding": func(c *client) {
			c.headers(1, false)
			c.must(c.framer.WriteDataPadded(1, true, whole, make([]byte, 20)))
		},
		"with trailers": func(c *client) {
			c.headers(1, false)
			c.must(errors.Join(c.framer.WriteData(1, false, whole),
				c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(field("x", "y")), EndHeaders: true, EndStream: true})))
		},
		"with a header in two frames": func(c *client) {
			c.must(errors.Join(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headersOf(c.path)[:9]}),
				c.framer.WriteContinuation(1, true, headersOf(c.path)[9:]), c.framer.WriteData(1, true, whole)))
		},
	} {
		for _, path := range []string{method, plainMethod, streamMethod} {
			t.Run(name+" to "+path, func(t *testing.T) {
				c := connect(t, echo)
				c.path = path
				c.begin()
				ask(c)
				go func() { c.send() }()
				messages, status, err := c.answers(1)
				if err != nil || messages[1] != string(whole) || status[1] != "0" {
					t.Errorf("got the messages %v, the statuses %v, %v", messages, status, err)
				}
			})
		}
	}
}

// Answers of both versions are sent when the client's window allows it.
func TestAnswersWaitForTheFlowControlWindow(t *testing.T) {
	c := connect(t, echo)
	c.begin(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 3})
	c.call(1, "hello")
	c.path = plainMethod
	c.headers(3, false)
	c.must(errors.Join(c.framer.WriteData(3, false, message("hello")[:1]), c.framer.WriteData(3, true, message("hello")[1:])))
	c.must(errors.Join(c.framer.WriteWindowUpdate(1, 4), c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 5}),
		c.framer.WriteWindowUpdate(3, 100), c.framer.WriteWindowUpdate(1, 100)))
	go func() { c.send() }()
	messages, status, err := c.answers(2)
	if want := string(message("hello")); err != nil || messages[1] != want || messages[3] != want || status[1] != "0" || status[3] != "0" {
		t.Errorf("got the messages %v, the statuses %v, %v", messages, status, err)
	}
}

// If a client calls and does not read, the server reads only as much as its answers may need, and
// the connection ends.
func TestClientThatDoesNotReadIsDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := 0
		c := connect(t, func(calls []*Call) { answered += len(calls); echo(calls) })
		c.begin(http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow})
		c.must(c.framer.WriteWindowUpdate(0, maxWindow-65535))
		began := time.Now()
		ended := make(chan error)
		go func() {
			for id := uint32(1); ; id += 2 {
				c.call(id, strings.Repeat("x", 1000))
				if err := c.send(); err != nil {
					ended <- err
					return
				}
			}
		}()
		<-ended
		if took := time.Since(began); took > 2*writeTime || answered > 4*maxUnsent/1000 {
			t.Errorf("the connection ended after %v and %d answers", took, answered)
		}
	})
}

// A connection without a preface is closed, and one that does not answer at its maximum age.
func TestConnectionsAreClosedWithoutPrefaceAndAtMaxAge(t *testing.T) {
	for name, row := range map[string]struct {
		begin  bool
		within time.Duration
	}{"without a preface": {false, 11 * time.Second}, "at the maximum age": {true, 6 * time.Minute}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := connect(t, echo)
				began := time.Now()
				if row.begin {
					c.begin()
					go func() { c.send() }()
				}
				if _, err := io.Copy(io.Discard, c.net); err != nil || time.Since(began) > row.within {
					t.Errorf("the connection ended after %v: %v", time.Since(began), err)
				}
			})
		})
	}
}

// A panic in an answer ends the connection and no other.
func TestPanicEndsTheConnection(t *testing.T) {
	c := connect(t, func([]*Call) { panic("in a test") })
	c.begin()
	c.call(1, "hello")
	go func() { c.send() }()
	if _, _, err := c.answers(1); !errors.Is(err, io.EOF) {
		t.Errorf("the connection ended by %v, want EOF", err)
	}
}
