package grpcserver

import (
	"bytes"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/stint-dev/stint/internal/connlimit"
	"github.com/stint-dev/stint/test/servers"
)

// kept fails if the requests of all connections do not keep at least min and at most max bytes.
func (c *client) kept(min, max int64) {
	c.Helper()
	c.ping()
	if held := c.server.buffered.Load(); held < min || held > max {
		c.Errorf("%d bytes are kept, want %d to %d", held, min, max)
	}
}

// The memory of the unfinished requests of all connections is limited, in addition to that of one
// connection. Calls that arrive in one piece are answered anyway.
func TestUnfinishedRequestsShareAMemoryLimit(t *testing.T) {
	c := connect(t, echo)
	c.begin()
	whole := message(strings.Repeat("x", 60<<10))
	for id := uint32(1); id <= 3; id += 2 {
		c.headers(id, false)
		for part := range slices.Chunk(whole[:40<<10], 10<<10) {
			c.must(c.framer.WriteData(id, false, part))
		}
	}
	c.kept(80<<10, 82<<10)
	c.server.buffered.Add(maxOfServer) // those of others
	c.must(c.framer.WriteData(1, false, whole[40<<10:42<<10]))
	c.call(5, "hello")
	go func() { _ = c.send() }()
	if _, status, err := c.answers(2); err != nil || status[1] != "ENHANCE_YOUR_CALM" || status[5] != "0" {
		t.Errorf("got the statuses %v, %v, want ENHANCE_YOUR_CALM and 0", status, err)
	}
	c.kept(maxOfServer+40<<10, maxOfServer+41<<10)
}

// Answers that wait for their client's window count as memory until they are sent. Where all
// connections together keep too much, a call whose answer would wait is reset.
func TestWaitingAnswersShareTheMemoryLimit(t *testing.T) {
	c := connect(t, echo)
	c.begin(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	const answer = 10 << 10
	begun := func(id uint32) (code string) {
		c.call(id, strings.Repeat("x", answer))
		go func() { _ = c.send() }()
		for {
			frame, err := c.framer.ReadFrame()
			c.must(err)
			switch f := frame.(type) {
			case *http2.RSTStreamFrame:
				return f.ErrCode.String()
			case *http2.MetaHeadersFrame:
				if c.server.buffered.Load() < maxOfServer {
					return ""
				}
			}
		}
	}
	for id := uint32(1); id < 7; id += 2 {
		if code := begun(id); code != "" {
			t.Fatalf("call %d was reset: %s", id, code)
		}
	}
	c.kept(6*answer, 7*answer)         // of each the request and the answer
	c.server.buffered.Add(maxOfServer) // those of others
	if code := begun(9); code != "ENHANCE_YOUR_CALM" {
		t.Errorf("a call that finds no room was answered %q, want ENHANCE_YOUR_CALM", code)
	}
	c.server.buffered.Add(-maxOfServer)
	c.must(c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}))
	go func() { _ = c.send() }()
	messages, status, err := c.answers(3)
	if err != nil || status[1]+status[3]+status[5] != "000" || len(messages[5]) != answer+messagePrefix {
		t.Errorf("got the statuses %v, %v, want the three answers", status, err)
	}
	c.kept(0, connShare) // in buffers
}

// A client that opens its windows and does not read has answers wait for its connection. They
// count, and it gets all of them once it reads.
func TestAnswersThatWaitForTheConnectionCountAsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, answer = 20, 60 << 10
		c := connectPlain(t, echo, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
			_, _ = w.Write(make([]byte, answer))
		})
		c.path = plainMethod
		c.begin(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
		c.must(c.framer.WriteWindowUpdate(0, 1<<24))
		c.ping()
		for i := range uint32(calls) {
			c.call(2*i+1, "hello")
		}
		c.must(c.send())
		synctest.Wait()
		if kept := c.server.buffered.Load(); kept < calls*(answer+plainMemory) || kept > calls*(plainCopies*answer+2*plainMemory)+3*maxUnsent {
			t.Errorf("%d bytes are kept of %d answers that wait", kept, calls)
		}
		for s := range c.server.conns {
			s.mu.Lock()
			if len(s.out) > maxUnsent+calls*100 {
				t.Errorf("%d bytes are to be written, want at most %d", len(s.out), maxUnsent)
			}
			s.mu.Unlock()
		}
		messages, status, err := c.answers(calls)
		if err != nil {
			t.Fatal(err)
		}
		for i := range uint32(calls) {
			if id := 2*i + 1; len(messages[id]) != answer || status[id] != "0" {
				t.Errorf("call %d: got %d bytes and status %q", id, len(messages[id]), status[id])
			}
		}
		c.kept(0, connShare) // in buffers
	})
}

// A call has at most maxMessages.
func TestTooManyMessagesEndTheCall(t *testing.T) {
	answered := 0
	c := connectPlain(t, echo, func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := r.Body.Read(make([]byte, maxFrame)); err != nil {
				return
			}
			answered++
			_, _ = w.Write([]byte("answer"))
		}
	})
	c.path = streamMethod
	c.begin(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	c.headers(1, false)
	for range maxMessages + 1 {
		c.must(c.framer.WriteData(1, false, message("x")))
	}
	go func() { _ = c.send() }()
	_, status, err := c.answers(1)
	if err != nil || status[1] != "ENHANCE_YOUR_CALM" || answered != maxMessages {
		t.Errorf("%d messages were answered, the call ended with %v, %v", answered, status, err)
	}
}

// The headers of requests, and what the plain version needs for each call, count as memory until
// the call ends.
func TestHeadersAndPlainCallsCountAsMemory(t *testing.T) {
	began, release := make(chan bool), make(chan bool)
	c := connectPlain(t, echo, func(w http.ResponseWriter, _ *http.Request) {
		began <- true
		<-release
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	c.begin()
	fields := bytes.Repeat(block(field("a", "")), 200)
	c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: append(headersOf(method), fields...), EndHeaders: true}))
	c.kept(200*40, 20<<10)
	c.must(c.framer.WriteData(1, true, message("hello")))
	go func() { _ = c.send() }()
	if _, status, err := c.answers(1); err != nil || status[1] != "0" {
		t.Errorf("got the statuses %v, %v, want 0", status, err)
	}
	c.kept(0, 0)
	c.server.buffered.Add(maxOfServer) // those of others
	c.path = plainMethod
	for _, id := range []uint32{3, 5, 7} {
		c.call(id, "hello")
	}
	go func() { _ = c.send() }()
	<-began
	if _, status, err := c.answers(2); err != nil || status[5] != "REFUSED_STREAM" || status[7] != "REFUSED_STREAM" {
		t.Errorf("got the statuses %v, %v, want REFUSED_STREAM", status, err)
	}
	c.kept(maxOfServer+plainMemory, maxOfServer+plainMemory+2<<10)
	close(release)
	if _, _, err := c.answers(1); err != nil {
		t.Error(err)
	}
	c.kept(maxOfServer, maxOfServer)
}

// A call whose client does not open the window for the response keeps no place in a full listener.
func TestUnreadResponseIsNotBeingAnswered(t *testing.T) {
	for _, path := range []string{method, plainMethod} {
		c := connect(t, echo)
		c.begin(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		c.path = path
		c.call(1, "hello")
		go func() { _ = c.send() }()
		for began := false; !began; {
			frame, err := c.framer.ReadFrame()
			c.must(err)
			_, began = frame.(*http2.MetaHeadersFrame)
		}
		servers.Await(t, "the response waits", func() bool { return heldConn{c.conn()}.Activity() == connlimit.AwaitingClient })
	}
}

// conn returns the server's side of the connection.
func (c *client) conn() *conn {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	for s := range c.server.conns {
		return s
	}
	return nil
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
	held := heldConn{c.conn()}
	want := func(does connlimit.Activity, used bool) {
		t.Helper()
		if got, was := held.Activity(), held.TakeUsed(); got != does || was != used {
			t.Errorf("Activity: got %d, used %v, want %d, %v", got, was, does, used)
		}
	}
	for age, does := range map[time.Duration]connlimit.Activity{-time.Hour: connlimit.Starting, time.Hour: connlimit.Idle} {
		held.mu.Lock()
		held.accepted = time.Now().Add(-age)
		held.mu.Unlock()
		want(does, false)
	}
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

// A connection that ends before its calls are answered keeps no memory of them.
func TestEndOfAConnectionReleasesUnansweredCalls(t *testing.T) {
	whole := message(strings.Repeat("x", 10<<10))
	for name, test := range map[string]struct {
		answer func([]*Call)
		wrong  bool // a frame that ends the connection follows the call at once
	}{
		"a call before an error":       {echo, true},
		"a call whose answer panicked": {func([]*Call) { panic("in a test") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, test.answer)
			c.begin()
			c.headers(1, false)
			c.must(c.framer.WriteData(1, false, whole[:9<<10]))
			c.kept(9<<10, 10<<10)
			c.must(c.framer.WriteData(1, true, whole[9<<10:]))
			if test.wrong {
				c.must(c.framer.WriteData(3, true, nil)) // there is no such stream
			}
			go func() { _ = c.send() }()
			if _, _, err := c.answers(1); err == nil {
				t.Error("the call was answered, want the end of the connection")
			}
			c.net.Close()
			servers.Await(t, "the connection ends", func() bool { return c.conn() == nil })
			if held := c.server.buffered.Load(); held != 0 {
				t.Errorf("%d bytes are kept, want none", held)
			}
		})
	}
}

// starting is a connection that starts: its mutex is held by what asks whether the server is stopped.
type starting struct {
	server *Server
	looked chan struct{}
}

func (s starting) Activity() connlimit.Activity {
	close(s.looked)
	s.server.isStopped()
	return connlimit.Idle
}
func (s starting) TakeUsed() bool { return false }
func (s starting) Cut()           {}

// A connection that arrives while the server stops must not wait for one that starts, while a full
// listener looks at that one.
func TestStopWithAFullListenerDoesNotDeadlock(t *testing.T) {
	o := options(echo, echoPlain)
	o.Conns = connlimit.NewSet(2)
	s := New(o)
	s.stopped = true
	near, far := net.Pipe()
	defer near.Close()
	refused := make(chan bool)
	s.mu.Lock()
	go func() { refused <- !s.add(&conn{server: s, raw: far, accepted: time.Now()}) }()
	servers.Await(t, "the connection waits", func() bool { return o.Conns.Stats().Open == 1 })
	looked := make(chan struct{})
	o.Conns.Add(starting{s, looked})
	go o.Conns.Add(starting{s, make(chan struct{})})
	<-looked
	s.mu.Unlock()
	if !<-refused {
		t.Error("a connection was added after Stop")
	}
}
