package grpcserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// checkBounds fails if the server buffers more of a connection than allowed.
func (c *client) checkBounds() {
	c.Helper()
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	for s := range c.server.conns {
		s.mu.Lock()
		if len(s.blocked) > len(s.streams) || len(s.streams) > c.server.o.MaxStreams || s.buffered < 0 || s.buffered > maxBuffered+maxBody ||
			len(s.streams) == 0 && s.buffered > 0 {
			c.Errorf("%d blocked of %d streams, %d bytes of requests", len(s.blocked), len(s.streams), s.buffered)
		}
		s.mu.Unlock()
	}
}

// ping waits for the answer to a PING, so that everything before it was read.
func (c *client) ping() {
	c.Helper()
	c.must(c.framer.WritePing(false, [8]byte{1}))
	go func() { _ = c.send() }() // if it fails, so does the reading
	for {
		frame, err := c.framer.ReadFrame()
		c.must(err)
		if f, is := frame.(*http2.PingFrame); is && f.IsAck() {
			return
		}
	}
}

// Frames that do nothing for a call end the connection when there are too many.
func TestFloodsEndTheConnection(t *testing.T) {
	calm := "ENHANCE_YOUR_CALM"
	for name, row := range map[string]struct {
		write func(c *client, i uint32) error
		code  string
	}{
		"PING":          {func(c *client, _ uint32) error { return c.framer.WritePing(false, [8]byte{}) }, calm},
		"SETTINGS":      {func(c *client, _ uint32) error { return c.framer.WriteSettings() }, calm},
		"PRIORITY":      {func(c *client, _ uint32) error { return c.framer.WritePriority(1, http2.PriorityParam{}) }, calm},
		"WINDOW_UPDATE": {func(c *client, _ uint32) error { return c.framer.WriteWindowUpdate(0, 1) }, calm},
		"unknown":       {func(c *client, _ uint32) error { return c.framer.WriteRawFrame(99, 0, 0, nil) }, calm},
		"empty DATA": {func(c *client, i uint32) error {
			if i == 0 {
				c.headers(1, false)
			}
			return c.framer.WriteData(1, false, nil)
		}, calm},
		"refused streams": {func(c *client, i uint32) error {
			c.headers(2*i+1, false)
			return nil
		}, calm},
		"rapid reset": {func(c *client, i uint32) error {
			c.headers(2*i+1, false)
			return c.framer.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
		}, calm},
		"small DATA": {func(c *client, i uint32) error {
			if i == 0 {
				c.headers(1, false)
				return c.framer.WriteData(1, false, message(strings.Repeat("x", 60<<10))[:messagePrefix])
			}
			return c.framer.WriteData(1, false, []byte{1})
		}, calm},
		"small DATA of messages": {func(c *client, i uint32) error {
			if c.path = streamMethod; i == 0 {
				c.headers(1, false)
			}
			return c.framer.WriteData(1, false, []byte{0})
		}, calm},
		"windows": {func(c *client, i uint32) error {
			return c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: i % 2})
		}, calm},
		"reset of blocked answers": {func(c *client, i uint32) error {
			if i == 0 {
				c.must(c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
			}
			c.call(2*i+1, "hello")
			return errors.Join(c.framer.WriteRSTStream(2*i+1, http2.ErrCodeCancel), c.framer.WritePriority(1, http2.PriorityParam{}),
				c.framer.WriteRawFrame(99, 0, 0, make([]byte, 8)), c.framer.WriteWindowUpdate(0, 1), c.framer.WriteWindowUpdate(0, 1),
				c.framer.WriteSettings(), c.framer.WriteSettings(), c.framer.WriteSettings(), c.framer.WriteSettings())
		}, calm},
		"empty CONTINUATION": {func(c *client, i uint32) error {
			if i == 0 {
				return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: requestHeaders[:9]})
			}
			return c.framer.WriteContinuation(1, false, nil)
		}, calm},
		"CONTINUATION": {func(c *client, i uint32) error {
			if i == 0 {
				return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: requestHeaders})
			}
			return c.framer.WriteContinuation(1, false, block(field("x", strings.Repeat("y", 4000))))
		}, "PROTOCOL_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, echo)
			c.begin()
			go func() {
				for i := range uint32(3 * maxCredit) {
					if row.write(c, i) != nil || c.send() != nil {
						return
					}
				}
			}()
			_, _, err := c.answers(1 << 30)
			if broken, is := errors.AsType[http2.ConnectionError](err); !is || http2.ErrCode(broken).String() != row.code {
				t.Errorf("the connection ended by %v, want %s", err, row.code)
			}
		})
	}
}

// Nothing is kept of an answer that waits for a window and whose stream is reset.
func TestResetStreamsDropTheirBlockedAnswers(t *testing.T) {
	c := connect(t, echo)
	c.begin(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for round := range uint32(20) {
		for i := range uint32(10) {
			c.call(20*round+2*i+1, "hello")
		}
		go func() { _ = c.send() }()
		for begun := 0; begun < 10; {
			frame, err := c.framer.ReadFrame()
			c.must(err)
			if _, is := frame.(*http2.MetaHeadersFrame); is {
				begun++
			}
		}
		for i := range uint32(10) {
			c.must(c.framer.WriteRSTStream(20*round+2*i+1, http2.ErrCodeCancel))
		}
		c.ping()
		c.checkBounds()
	}
}

// If other streams are reset, the remaining answers are sent, in order, once the window allows it.
func TestBlockedAnswersAreSentAfterOthersAreReset(t *testing.T) {
	c := connect(t, echo)
	c.begin(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for id := uint32(1); id < 12; id += 2 {
		c.call(id, "hello")
	}
	c.ping()
	c.must(errors.Join(c.framer.WriteRSTStream(1, http2.ErrCodeCancel), c.framer.WriteRSTStream(7, http2.ErrCodeCancel),
		c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100})))
	go func() { _ = c.send() }()
	_, status, err := c.answers(4)
	if err != nil || len(status) != 4 || status[1]+status[7] != "" {
		t.Errorf("got the statuses %v, %v", status, err)
	}
	c.checkBounds()
}

// An answer before the request is complete ends the stream once, also if it waited for the window.
func TestEarlyAnswerEndsTheStreamOnce(t *testing.T) {
	release := make(chan struct{})
	c := connectPlain(t, echo, func(w http.ResponseWriter, r *http.Request) {
		<-release
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		_, _ = w.Write([]byte("answer"))
	})
	c.path = streamMethod
	c.begin(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	c.headers(1, false)
	c.must(c.framer.WriteData(1, false, make([]byte, 4000)))
	c.ping()
	close(release)
	c.must(c.framer.WriteWindowUpdate(1, 100))
	go func() { _ = c.send() }()
	messages, _, err := c.answers(1)
	if err != nil || messages[1] != "answer" {
		t.Errorf("got the message %q, %v, want answer", messages[1], err)
	}
	c.ping()
	c.checkBounds()
}

// A request of many small pieces is passed to the plain version in few, and uses no more
// memory than its size.
func TestSmallDataFramesAreReadInLargePieces(t *testing.T) {
	for _, path := range []string{plainMethod, streamMethod} {
		t.Run(path, func(t *testing.T) {
			reads := make(chan int, 100)
			c := connectPlain(t, echo, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
				defer close(reads)
				for {
					n, err := r.Body.Read(make([]byte, maxFrame))
					if err != nil {
						return
					}
					reads <- n
				}
			})
			c.path = path
			c.begin()
			c.headers(1, false)
			whole := message(strings.Repeat("x", 6000))
			for i := range 5 {
				c.must(c.framer.WriteData(1, false, whole[i:i+1]))
			}
			for i := 5; i < len(whole); i++ {
				c.must(c.framer.WriteData(1, i == len(whole)-1, whole[i:i+1]))
			}
			go func() { _ = c.send() }()
			if _, _, err := c.answers(1); err != nil {
				t.Fatal(err)
			}
			count, total := 0, 0
			for n := range reads {
				count++
				total += n
			}
			if count > 2 || total != len(whole) {
				t.Errorf("the plain version read %d times, %d bytes in total", count, total)
			}
		})
	}
}

// Messages are read one by one, and the next one after the client has accepted an answer.
func TestMessagesAreNotReadAheadOfAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		c := connectPlain(t, echo, func(w http.ResponseWriter, r *http.Request) {
			for {
				if _, err := r.Body.Read(make([]byte, maxFrame)); err != nil {
					return
				}
				reads++
			}
		})
		c.path = streamMethod
		c.begin()
		c.headers(1, false)
		for range 100 {
			c.must(c.framer.WriteData(1, false, message("x")))
		}
		c.ping()
		synctest.Wait()
		if reads != 1 {
			t.Errorf("%d messages were read without an answer", reads)
		}
	})
}

// A call whose message comes in pieces is answered with the others, and not by the plain
// version.
func TestLargeMessageUsesTheFastPath(t *testing.T) {
	c := connectPlain(t, echo, func(http.ResponseWriter, *http.Request) { t.Error("the plain version was called") })
	c.begin(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	c.headers(1, false)
	whole := message(strings.Repeat("x", 60<<10))
	for at := 0; at < len(whole); at += 10_000 {
		c.must(c.framer.WriteData(1, at+10_000 >= len(whole), whole[at:min(len(whole), at+10_000)]))
	}
	go func() { _ = c.send() }()
	messages, status, err := c.answers(1)
	if err != nil || messages[1] != string(whole) || status[1] != "0" {
		t.Errorf("got a message of %d bytes, the statuses %v, %v", len(messages[1]), status, err)
	}
}

// A request that is not completed in time is reset. Others are answered.
func TestIncompleteRequestIsCancelled(t *testing.T) {
	for _, path := range []string{method, plainMethod} {
		synctest.Test(t, func(t *testing.T) {
			c := connect(t, echo)
			c.path = path
			c.begin()
			c.headers(1, false)
			c.must(c.framer.WriteData(1, false, message("hello")[:3]))
			c.call(3, "hello")
			began := time.Now()
			go func() { _ = c.send() }()
			_, status, err := c.answers(2)
			if took := time.Since(began); err != nil || status[1] != "CANCEL" || status[3] != "0" || took < 10*time.Second || took > 20*time.Second {
				t.Errorf("%s: after %v got the statuses %v, %v", path, took, status, err)
			}
			c.call(5, "hello")
			go func() { _ = c.send() }()
			if _, status, err := c.answers(1); err != nil || status[5] != "0" {
				t.Errorf("%s: a later call got the statuses %v, %v", path, status, err)
			}
		})
	}
}

// Calls are answered while the header of another call is incomplete.
func TestCallsAreAnsweredBeforeAnIncompleteHeader(t *testing.T) {
	c := connect(t, echo)
	c.begin()
	c.call(1, "hello")
	c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: requestHeaders[:9]}))
	go func() { _ = c.send() }()
	if _, status, err := c.answers(1); err != nil || status[1] != "0" {
		t.Fatalf("got the statuses %v, %v", status, err)
	}
	c.must(errors.Join(c.framer.WriteContinuation(3, true, requestHeaders[9:]), c.framer.WriteData(3, true, message("hello"))))
	go func() { _ = c.send() }()
	if _, status, err := c.answers(1); err != nil || status[3] != "0" {
		t.Errorf("got the statuses %v, %v", status, err)
	}
}

// Stop takes no longer than its grace time, even if clients do not read.
func TestStopDoesNotWaitForClientsThatDoNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(options(echo, echoPlain))
		l := pipes{make(chan net.Conn), make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		for range 5 {
			near, far := net.Pipe()
			l.accepted <- far
			var out bytes.Buffer
			out.WriteString(http2.ClientPreface)
			if err := http2.NewFramer(&out, nil).WriteSettings(); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = near.Write(out.Bytes()) }()
			if _, err := io.ReadFull(near, make([]byte, 9+12+13+9)); err != nil { // SETTINGS, WINDOW_UPDATE, SETTINGS
				t.Fatal(err)
			}
		}
		synctest.Wait()
		began := time.Now()
		if all := s.Stop(time.Second); all || time.Since(began) != time.Second {
			t.Errorf("Stop took %v and returned %v, want 1 s and false", time.Since(began), all)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
