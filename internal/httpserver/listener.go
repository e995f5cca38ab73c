package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/connlimit"
	"github.com/stint-dev/stint/internal/supervise"
)

// FramingListener returns a listener whose connections pass only requests whose
// framing is unambiguous. At the first byte of another kind the server behind
// it reads an error, answers 400 and closes; FramingErrorOf says what was
// wrong. With TLS, l must already speak it. The open connections are in conns, which bounds
// them; nil for any number.
//
// A connection that is closed while its client still sends is closed for
// writing first, so that the client can read the answer. Close also closes the
// connections on which nothing has come.
func FramingListener(l net.Listener, conns *connlimit.Set) net.Listener {
	if conns == nil {
		conns = connlimit.NewSet(0)
	}
	return &listener{Listener: l, conns: conns}
}

type listener struct {
	net.Listener
	conns    *connlimit.Set
	isClosed atomic.Bool
	bodies   bodyBudget
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
			_ = c.Close() // nothing was said
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
	l.isClosed.Store(true)
	err := l.Listener.Close()
	for _, c := range l.open() {
		if c.firstByte.Load() == notYet {
			c.closeUnused(unusedGrace - time.Since(c.accepted))
		}
	}
	return err
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

// shown returns the connection as fasthttp is to see it.
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
	isReading atomic.Bool  // the server waits for what the client sends
	wasUsed   atomic.Bool  // a whole request came since TakeUsed
	isCut     atomic.Bool  // it is to be closed as soon as nothing is answered
	isUsed    bool         // of the goroutine that reads: something came
	framer    framer       // of the goroutine that reads
	raised    bool         // the server has been given the error
	isSending bool         // a copy of sending, for the goroutine that reads
	sending   atomic.Bool
	body      int64 // bytes of the request's body that count in listener.bodies
	fast      fastConn
}

// Whether the first byte of a connection came, or the connection is closed since it did not.
const (
	notYet int32 = iota
	came
	neverComes
)

// tlsConn shows fasthttp that the connection is one of TLS.
type tlsConn struct {
	*conn
	secured *tls.Conn
}

// Handshake implements what fasthttp asks of a connection of TLS. The read
// deadline that fasthttp sets before bounds it.
func (c *tlsConn) Handshake() error {
	c.isReading.Store(true)
	defer c.isReading.Store(false)
	return c.secured.HandshakeContext(context.Background())
}

// ConnectionState implements what fasthttp asks of a connection of TLS.
func (c *tlsConn) ConnectionState() tls.ConnectionState { return c.secured.ConnectionState() }

// Read passes what the framer lets through, then one byte that is part of no
// request and makes the server look for more, then the framer's error. The
// byte makes sure that the server answers: it closes a connection without a
// word where an error comes between two requests.
func (c *conn) Read(p []byte) (int, error) {
	if c.framer.err == nil {
		c.isReading.Store(true)
		defer c.isReading.Store(false)
		if c.isCut.Load() && !c.isSending {
			return 0, io.EOF
		}
		n, err := c.Conn.Read(p)
		if n == 0 && c.isCut.Load() {
			return 0, io.EOF
		}
		if n > 0 && !c.isUsed {
			if c.isUsed = true; !c.firstByte.CompareAndSwap(notYet, came) {
				return 0, io.EOF // it is being closed
			}
		}
		if n > 0 && err == nil && c.fast.shared != nil && c.framer.isBetween() {
			n, err = c.answerFast(p, n)
		}
		if n == 0 && c.isEnd(err) {
			err = io.EOF
		}
		n = c.framer.follow(p[:n])
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

// isEnd reports whether an error of reading is the end of the connection, which is no failure:
// fasthttp knows io.EOF alone for one while it has seen no request.
func (c *conn) isEnd(err error) bool {
	failed, is := errors.AsType[net.Error](err)
	if !is {
		return false
	}
	return !failed.Timeout() || c.isUsed && c.framer.isBetween()
}

// How long and how much a closed connection goes on being read. What arrives
// at a closed one makes the system reset it, and the client may lose the answer.
const (
	lingerTime  = time.Second
	lingerBytes = 8 << 20
)

// Close closes the connection, and waits for a client that still sends. What is being
// answered on the fast path is answered before.
func (c *conn) Close() error {
	for !c.fast.state.CompareAndSwap(connReads, connClosed) && !c.fast.state.CompareAndSwap(connWaits, connClosed) {
		if c.fast.state.CompareAndSwap(connAnswers, connEnds) || c.fast.state.Load() >= connEnds {
			return nil // it is closed after the answer, or already
		}
	}
	c.listener.conns.Remove(c)
	if c.sending.Load() {
		if half, can := c.Conn.(interface{ CloseWrite() error }); can && half.CloseWrite() == nil &&
			c.Conn.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
			_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes) // it is closed either way
		}
	}
	return c.Conn.Close()
}

// FramingErrorOf returns what is wrong with the framing of the request that is
// being answered, nil for nothing.
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

// unusedGrace is for how long a connection on which nothing has come is left open once its
// listener is closed, counted from when it was accepted: its first request may be on its way.
const unusedGrace = 2 * time.Second

// closeUnused closes a connection some time later unless something comes before. Browsers and
// HTTP clients open such ones ahead of time. fasthttp takes them for busy and would wait with
// a shutdown until ReadTimeout ends them.
func (c *conn) closeUnused(after time.Duration) {
	time.AfterFunc(after, func() {
		supervise.Do("unused connection", func() {
			if c.firstByte.CompareAndSwap(notYet, neverComes) {
				_ = c.Close() // nobody waits for anything on it
			}
		})
	})
}

// markUsed notes that a whole request came. It writes only where that is news, since it is
// called for each.
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
	case state == connWaits:
		return connlimit.Idle
	case state != connReads || !c.isReading.Load():
		return connlimit.Answering
	case c.sending.Load():
		return connlimit.Receiving
	default:
		return connlimit.Idle
	}
}

// Cut implements connlimit.Conn. A request that has come by now is answered. TLS says goodbye,
// which may take its time.
func (c *conn) Cut() {
	c.isCut.Store(true)
	go supervise.Do("connection of a full listener", func() {
		switch {
		case c.sending.Load():
			_ = c.Conn.Close() // without waiting for the rest; who reads it finds it closed
		case c.fast.state.Load() == connReads:
			_ = c.Conn.SetReadDeadline(time.Unix(1, 0)) // who waits to read finds that it is cut
		default:
			_ = c.Close() // its client asks again on another
		}
	})
}
