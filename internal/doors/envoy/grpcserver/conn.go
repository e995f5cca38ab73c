package grpcserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/stint-dev/stint/internal/supervise"
)

// Limits of a connection.
const (
	readBuffer = 16 << 10
	maxFrame   = 16 << 10 // of a received frame, the minimum that HTTP/2 allows
	// streamWindow is how much of one call a client may send before it is read, and connWindow
	// of all calls.
	streamWindow = 64<<10 - 1
	connWindow   = 1 << 20
	// maxUnsent is how much may wait to be sent before reading stops. writeTime is how long a
	// client may take to accept some of it.
	maxUnsent = 256 << 10
	writeTime = 20 * time.Second
	// deadlineSlack is how much earlier the write deadline may be, so that a busy connection
	// does not set it with each write.
	deadlineSlack = time.Second
	// lingerTime is how long a connection is read after its last GOAWAY, which the client might
	// lose otherwise.
	lingerTime = 250 * time.Millisecond
	// A connection starts with maxCredit for frames without use for a call. Each response adds
	// answerCredit.
	maxCredit    = 10_000
	answerCredit = 8
	maxStrikes   = 2 // PINGs that are too early
	maxSettings  = 32
	// maxRead bounds a frame together with its continuation frames, in bytes.
	maxRead = 128 << 10
)

// conn is one connection. The goroutine in serve reads it; mu guards the fields below mu.
type conn struct {
	server *Server
	raw    net.Conn // only used to close
	net    net.Conn // raw, or TLS over it
	in     *bufio.Reader
	frame  frameReader
	framer *http2.Framer // reads; and writes to out with mu held
	peer   netip.Addr
	secure *tls.ConnectionState
	// accepted is when the connection was accepted.
	accepted time.Time
	ctx      context.Context // ends with the connection

	// Used only by the reading goroutine.
	batch    []*Call
	isSet    bool // the client's first SETTINGS was received
	strikes  int
	lastPing time.Time
	received int // bytes of DATA not yet acknowledged by a window update

	mu       sync.Mutex
	credit   credit
	wasReset recent
	written  sync.Cond // less is unsent, or the connection ended
	streams  map[uint32]*stream
	lastID   uint32    // last stream that the client opened
	window   int64     // how much may be sent on all streams
	initial  int64     // initial window of a new stream
	blocked  []*stream // the oldest first
	buffered int       // bytes kept, see count
	outKept  int       // of them in buffers for writing
	sending  int       // size of the buffer that is being written
	wasUsed  bool      // a call ended since TakeUsed
	out      outBuffer
	freeOut  []byte
	timed    time.Time // when the write deadline was last set
	started  bool
	writing  bool
	sweeping bool // the sweeper will call sweep
	sweeper  *time.Timer
	answered bool // something was sent for a call since the last PING
	draining bool
	isFinal  bool // streams after lastID are not answered
	last     bool // the present write is the last one
	closed   bool // nothing more will be sent
	ended    bool // everything was sent before closed
}

// outBuffer collects frames to be written together.
type outBuffer []byte

// Write implements io.Writer.
func (b *outBuffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// drainPing is a PING. Its acknowledgement means that the client has received the GOAWAY before
// it.
var drainPing = [8]byte{'s', 't', 'i', 'n', 't', 'e', 'n', 'd'}

// serveConn serves one connection until it ends.
func (s *Server) serveConn(raw net.Conn) {
	c := &conn{server: s, raw: raw, net: raw, streams: map[uint32]*stream{}, window: 65535, initial: 65535, credit: maxCredit, accepted: time.Now()}
	c.written.L = &c.mu
	if !s.add(c) {
		_ = raw.Close() // nothing was received
		return
	}
	defer s.remove(c)
	ctx, cancel := context.WithCancel(context.Background())
	c.ctx = ctx
	defer c.close(cancel)
	if err := c.start(); err != nil {
		return // the client does not speak HTTP/2
	}
	age := time.AfterFunc(s.age(), func() {
		supervise.Do("grpc connection", func() {
			c.drain("max_age")
			closeAfter(c, s.o.Grace)
		})
	})
	defer age.Stop()
	defer c.sweeper.Stop()
	err := supervise.Call("grpc connection", c.serve)
	if broken, is := errors.AsType[http2.ConnectionError](err); is {
		c.goAway(http2.ErrCode(broken))
	}
	if c.waitForEnd() {
		_, _ = io.CopyN(io.Discard, c.net, 4*connWindow) // the connection is closed either way
	}
}

// start reads the connection preface.
func (c *conn) start() error {
	if tcp, is := c.net.RemoteAddr().(*net.TCPAddr); is {
		c.peer = tcp.AddrPort().Addr().Unmap().WithZone("")
	} else {
		c.peer = netip.IPv6Unspecified()
	}
	if err := c.net.SetDeadline(time.Now().Add(c.server.o.HandshakeTime)); err != nil {
		return err
	}
	if c.server.o.TLS != nil {
		secured := tls.Server(c.net, c.server.o.TLS)
		if err := secured.HandshakeContext(c.ctx); err != nil {
			return err
		}
		state := secured.ConnectionState()
		if state.NegotiatedProtocol != http2.NextProtoTLS {
			return errors.New("the client does not speak HTTP/2")
		}
		c.net, c.secure = secured, &state
	}
	c.in = bufio.NewReaderSize(c.net, readBuffer)
	var preface [len(http2.ClientPreface)]byte
	if _, err := io.ReadFull(c.in, preface[:]); err != nil || string(preface[:]) != http2.ClientPreface {
		return errors.New("the client does not speak HTTP/2")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frame.in = c.in
	c.framer = http2.NewFramer(&c.out, &c.frame)
	c.framer.SetReuseFrames()
	c.framer.SetMaxReadFrameSize(maxFrame)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.framer.MaxHeaderListSize = c.server.o.MaxHeaders
	c.started = true
	c.sweeper = time.AfterFunc(time.Hour, func() { supervise.Do("grpc connection", func() { sweep(c) }) })
	c.sweeper.Stop() // until there is a stream
	if c.server.isStopped() {
		return net.ErrClosed // drain did not see it as started
	}
	err := errors.Join(
		c.framer.WriteSettings(
			http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(c.server.o.MaxStreams)}, //nolint:gosec // a thousand
			http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: c.server.o.MaxHeaders},
		),
		c.framer.WriteWindowUpdate(0, connWindow-65535))
	c.flush()
	return err
}

// serve reads frames until the connection ends. A http2.ConnectionError is an error of the
// client.
func (c *conn) serve() error {
	for {
		c.frame.left = maxRead
		frame, err := c.framer.ReadFrame()
		if err = c.take(frame, err); err != nil {
			return err
		}
		if hasFrame(c.in) {
			if len(c.batch) >= c.server.o.MaxBatch {
				c.dispatch()
			}
			continue
		}
		c.dispatch()
		if err := c.sendAndWait(); err != nil {
			return err
		}
	}
}

// frameReader reads one frame. Its limit ends a connection whose header block never ends,
// although the block adds no headers.
type frameReader struct {
	in   *bufio.Reader
	left int // bytes that may still be read
}

// Read implements io.Reader.
func (r *frameReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	n, err := r.in.Read(p)
	r.left -= n
	return n, err
}

// hasFrame reports whether the next frame can be read without waiting.
func hasFrame(in *bufio.Reader) bool {
	const header = 9
	if in.Buffered() < header {
		return false
	}
	next, err := in.Peek(header)
	if err != nil || http2.FrameType(next[3]) == http2.FrameHeaders && !http2.Flags(next[4]).Has(http2.FlagHeadersEndHeaders) {
		return false // it must be read together with its continuation
	}
	return in.Buffered() >= header+int(next[0])<<16+int(next[1])<<8+int(next[2])
}

// sendAndWait sends what has been written, and waits if the client does not read.
func (c *conn) sendAndWait() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush()
	c.endIfDrained()
	if !c.sweeping && len(c.streams) > 0 {
		c.sweeping = true
		c.sweeper.Reset(c.server.o.RequestTime)
	}
	for c.outRoom() < 0 && !c.closed {
		c.written.Wait()
	}
	if c.closed {
		return net.ErrClosed
	}
	return nil
}

// flush sends what has been written. If another goroutine is sending, that one sends it too.
// The caller holds mu, which is released while sending.
func (c *conn) flush() {
	if c.closed || len(c.out) == 0 {
		return
	}
	c.countOut()
	if c.writing {
		return
	}
	c.writing = true
	for len(c.out) > 0 && !c.closed {
		send := c.out
		c.out, c.freeOut, c.sending = c.freeOut[:0], nil, cap(send)
		c.mu.Unlock()
		err := c.write(send)
		c.mu.Lock()
		if c.sending = 0; cap(send) <= connShare && !c.closed {
			c.freeOut = send[:0]
		}
		if err == nil && !c.closed {
			c.sendBlocked() // what there was no room for
		}
		c.countOut()
		if err != nil {
			c.closed = true
			_ = c.raw.Close() // the reading goroutine ends too
		}
		if c.closed || c.outRoom() >= 0 {
			c.written.Broadcast()
		}
	}
	c.writing = false
	if c.last {
		c.finishSending()
	}
	c.endIfDrained()
}

// write sends b. Only one goroutine may call it at a time.
func (c *conn) write(b []byte) error {
	if now := time.Now(); now.Sub(c.timed) > deadlineSlack {
		c.timed = now
		if err := c.net.SetWriteDeadline(now.Add(writeTime + deadlineSlack)); err != nil {
			return err
		}
	}
	_, err := c.net.Write(b)
	return err
}

// close ends the connection and all its calls.
func (c *conn) close(cancel context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	cancel()
	c.out, c.freeOut = nil, nil
	c.countOut()
	for _, s := range c.streams {
		if !s.plain {
			s.release(s.kept) // a call that was not yet handed over, or whose answer panicked, is never forgotten
		}
		s.end(net.ErrClosed)
	}
	c.written.Broadcast()
	_ = c.raw.Close() // nothing more will be sent
}
