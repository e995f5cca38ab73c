package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/connlimit"
	"github.com/stint-dev/stint/internal/supervise"
)

// FramingListener returns a listener whose connections pass only requests with unambiguous
// framing. At the first byte of any other request the server reads an error, answers 400 and
// closes the connection; FramingErrorOf returns the reason. For TLS, l must already be a TLS
// listener. conns holds the open connections and bounds their number; nil means no bound.
//
// If a connection is closed while its client is still sending, its write side is closed first,
// so that the client can read the response. Close also closes the connections on which nothing
// was received, and after idleGrace those that wait for another request.
func FramingListener(l net.Listener, conns *connlimit.Set) net.Listener {
	if conns == nil {
		conns = connlimit.NewSet(0)
	}
	return &listener{Listener: l, conns: conns, idleGrace: idleGrace}
}

type listener struct {
	net.Listener
	conns     *connlimit.Set
	idleGrace time.Duration
	isClosed  atomic.Bool
	isOver    atomic.Bool // idleGrace has passed since it was closed
	bodies    bodyBudget  // of requests
	answers   bodyBudget  // of responses
}

// Accept waits for a connection.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		guarded := newConn(c, l)
		if !l.conns.Add(guarded) {
			_ = c.Close() // nothing was received on it
			continue
		}
		if l.isClosed.Load() {
			guarded.closeUnused(unusedGrace)
		}
		return guarded.shown(), nil
	}
}

// Close closes the listener.
func (l *listener) Close() error {
	if l.isClosed.CompareAndSwap(false, true) {
		time.AfterFunc(l.idleGrace, func() { supervise.Do("idle connections", l.closeIdle) })
	}
	err := l.Listener.Close()
	for _, c := range l.open() {
		if c.firstByte.Load() == notYet {
			c.closeUnused(unusedGrace - time.Since(c.accepted))
		}
	}
	return err
}

// idleGrace is for how long after the listener was closed a connection that waits for another
// request is kept. A request of a client that does not know of the shutdown yet is answered
// then, with "Connection: close", and not lost on a connection that is being closed.
const idleGrace = 500 * time.Millisecond

// closeIdle closes the connections that were kept for idleGrace.
func (l *listener) closeIdle() {
	l.isOver.Store(true)
	for _, c := range l.open() {
		if c.fast.state.CompareAndSwap(connWaits, connClosed) {
			l.conns.Remove(c)
			_ = c.Conn.Close() // no request was read
		} else if c.isKept.Load() && c.isReading.Load() && !c.sending.Load() {
			_ = c.Close() // as above
		}
	}
}

// open returns the open connections.
func (l *listener) open() (all []*conn) {
	for _, c := range l.conns.All() {
		all = append(all, c.(*conn))
	}
	return all
}

func newConn(c net.Conn, of *listener) *conn {
	return &conn{Conn: c, listener: of, accepted: time.Now(), framer: framer{length: -1}}
}

// shown returns the connection that fasthttp sees.
func (c *conn) shown() net.Conn {
	if secured, isTLS := c.Conn.(*tls.Conn); isTLS {
		return &tlsConn{c, secured}
	}
	return c
}

type conn struct {
	net.Conn
	listener  *listener
	accepted  time.Time
	firstByte atomic.Int32 // notYet, came or neverComes
	isReading atomic.Bool  // the server is waiting for bytes from the client
	wasUsed   atomic.Bool  // a whole request was received since TakeUsed
	isCut     atomic.Bool  // it will be closed once no request is being answered
	isKept    atomic.Bool  // closeIdle closes it
	// writing is when the present write began, in nanoseconds since accepted; 0 means that
	// there is none.
	writing   atomic.Int64
	isUsed    bool   // only for the reading goroutine: something was received
	framer    framer // only for the reading goroutine
	raised    bool   // the server has received the framing error
	isSending bool   // a copy of sending for the reading goroutine
	sending   atomic.Bool
	body      int64        // bytes of the request's body that are counted in listener.bodies
	answer    atomic.Int64 // bytes of responses that are counted in listener.answers
	fast      fastConn
}

// Whether the first byte of a connection was received, or the connection was closed without it.
const (
	notYet int32 = iota
	came
	neverComes
)

// tlsConn makes fasthttp treat the connection as a TLS connection.
type tlsConn struct {
	*conn
	secured *tls.Conn
}

// Handshake implements fasthttp's interface for TLS connections. The read deadline that
// fasthttp sets before the call bounds it.
func (c *tlsConn) Handshake() error {
	c.isReading.Store(true)
	defer c.isReading.Store(false)
	if c.isCut.Load() {
		return os.ErrDeadlineExceeded // the deadline that Cut set was replaced
	}
	return c.secured.HandshakeContext(context.Background())
}

// ConnectionState implements fasthttp's interface for TLS connections.
func (c *tlsConn) ConnectionState() tls.ConnectionState { return c.secured.ConnectionState() }

// Read returns the bytes that the framer accepts, then one byte that is not part of any request
// and makes the server read on, then the framer's error. The extra byte makes the server
// answer: it closes a connection silently if an error occurs between two requests.
func (c *conn) Read(p []byte) (int, error) {
	if c.framer.isBetween() { // not while the rest of a body is discarded
		c.releaseAnswer() // what came before has been sent
	}
	if c.framer.err == nil {
		c.isReading.Store(true)
		defer c.isReading.Store(false)
		if c.isCut.Load() && !c.isSending {
			return 0, io.EOF
		}
		n, err := c.Conn.Read(p)
		if n > 0 && !c.isUsed {
			if c.isUsed = true; !c.firstByte.CompareAndSwap(notYet, came) {
				return 0, io.EOF // the connection is being closed
			}
		}
		if n > 0 && err == nil && c.fast.shared != nil && c.framer.isBetween() {
			n, err = c.answerFast(p, n)
		}
		if n == 0 && (c.isCut.Load() || c.isEnd(err)) {
			err = io.EOF
		}
		n = c.framer.follow(p[:n])
		if errors.Is(err, io.EOF) && c.framer.inBody() {
			// Otherwise fasthttp would take what was received for the whole body.
			err = io.ErrUnexpectedEOF
		}
		if now := c.framer.err != nil || c.framer.inRequest(); now != c.isSending {
			c.isSending = now
			c.sending.Store(now)
		}
		if n > 0 && !c.isSending {
			c.markUsed()
		}
		if c.framer.err == nil || n > 0 {
			return n, err
		}
	}
	if !c.raised && len(p) > 0 {
		c.raised = true
		p[0] = 0
		return 1, nil
	}
	return 0, c.framer.err
}

// maxWrite is how long a write may take before the client counts as one that does not read.
const maxWrite = time.Second

// Write sends p.
func (c *conn) Write(p []byte) (int, error) {
	c.writing.Store(max(1, int64(time.Since(c.accepted))))
	defer c.writing.Store(0)
	return c.Conn.Write(p)
}

// isUnread reports whether a response waits because the client does not read.
func (c *conn) isUnread() bool {
	began := time.Duration(c.writing.Load())
	return began > 0 && time.Since(c.accepted)-began > maxWrite
}

// isEnd reports whether a read error only means that the connection ended. fasthttp accepts
// only io.EOF as a normal end before the first request.
func (c *conn) isEnd(err error) bool {
	failed, is := errors.AsType[net.Error](err)
	if !is {
		return false
	}
	return !failed.Timeout() || c.isUsed && c.framer.isBetween()
}

// How long and how many bytes are still read after a connection is closed. If bytes arrive at a
// closed socket, the system resets the connection and the client may lose the response.
const (
	lingerTime  = time.Second
	lingerBytes = 8 << 20
)

// Close closes the connection after waiting for a client that is still sending. If the fast
// path is answering a request, the connection is closed after that response. A connection that
// waits for another request when its listener was closed is closed after idleGrace.
func (c *conn) Close() error {
	if c.keepForGrace() {
		return nil
	}
	c.releaseAnswer() // also if it was closed before: the response may have been made later
	for !c.fast.state.CompareAndSwap(connReads, connClosed) && !c.fast.state.CompareAndSwap(connWaits, connClosed) {
		if c.fast.state.CompareAndSwap(connAnswers, connEnds) || c.fast.state.Load() >= connEnds {
			return nil // closed after the response, or already closed
		}
	}
	c.listener.conns.Remove(c)
	if c.sending.Load() {
		if half, can := c.Conn.(interface{ CloseWrite() error }); can && half.CloseWrite() == nil &&
			c.Conn.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
			_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes) // the connection is closed whether this succeeds or not
		}
	}
	return c.Conn.Close()
}

// keepForGrace reports whether a shutdown closes the connection, which waits for another
// request or has just begun to receive it, and closeIdle will close it if it still waits then.
// The goroutine that reads never closes it while it reads.
func (c *conn) keepForGrace() bool {
	l := c.listener
	if !l.isClosed.Load() || l.isOver.Load() || c.isCut.Load() || !c.isReading.Load() ||
		c.firstByte.Load() != came || c.fast.state.Load() >= connEnds {
		return false
	}
	c.isKept.Store(true)
	return !l.isOver.Load()
}

// FramingErrorOf returns the framing error of the request that is being answered, nil for none.
func FramingErrorOf(rc *fasthttp.RequestCtx) *FramingError {
	c, _ := rc.Conn().(interface{ framingError() *FramingError })
	if c == nil {
		return nil
	}
	return c.framingError()
}

func (c *conn) framingError() *FramingError {
	if !c.raised {
		return nil
	}
	return c.framer.err
}

// unusedGrace is for how long after accept the first request of a connection on which nothing was
// received may be on its way: if its listener is closed or full, others are closed first.
const unusedGrace = 2 * time.Second

// closeUnused closes the connection after a time unless something is received before. Browsers
// and HTTP clients open such connections ahead of time. fasthttp regards them as busy, and a
// shutdown would wait for them until ReadTimeout.
func (c *conn) closeUnused(after time.Duration) {
	time.AfterFunc(after, func() {
		supervise.Do("unused connection", func() {
			if c.firstByte.CompareAndSwap(notYet, neverComes) {
				_ = c.Close() // no request is lost
			}
		})
	})
}

// markUsed records that a whole request was received. It is called for every request, so it
// writes only if the value changes.
func (c *conn) markUsed() {
	if !c.wasUsed.Load() {
		c.wasUsed.Store(true)
	}
}

// TakeUsed implements connlimit.Conn.
func (c *conn) TakeUsed() bool { return c.wasUsed.Swap(false) }

// Activity implements connlimit.Conn.
func (c *conn) Activity() connlimit.Activity {
	switch state := c.fast.state.Load(); {
	case c.isUnread():
		return connlimit.AwaitingClient
	case state == connWaits:
		return connlimit.Idle
	case c.firstByte.Load() == notYet && time.Since(c.accepted) < unusedGrace:
		return connlimit.Starting
	case state != connReads || !c.isReading.Load():
		return connlimit.Answering
	case c.sending.Load():
		return connlimit.AwaitingClient
	default:
		return connlimit.Idle
	}
}

// Cut implements connlimit.Conn. A request already received is still answered, if the client
// reads. The close runs in a goroutine because the goodbye of TLS may take time.
func (c *conn) Cut() {
	c.isCut.Store(true)
	go supervise.Do("connection of a full listener", func() {
		switch {
		case c.sending.Load() || c.isUnread():
			_ = c.Conn.Close() // at once; a reading or writing goroutine gets an error
		case c.fast.state.Load() == connReads:
			_ = c.Conn.SetReadDeadline(time.Unix(1, 0)) // a waiting read returns and finds isCut
		default:
			_ = c.Close() // the client retries on another connection
		}
	})
}
