package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/supervise"
)

// FramingListener returns a listener whose connections pass only requests whose
// framing is unambiguous. At the first byte of another kind the server behind
// it reads an error, answers 400 and closes; FramingErrorOf says what was
// wrong. With TLS, l must already speak it.
//
// A connection that is closed while its client still sends is closed for
// writing first, so that the client can read the answer. Close also closes the
// connections on which nothing has come.
func FramingListener(l net.Listener) net.Listener {
	return &listener{l, unusedConns{accepted: map[*conn]time.Time{}}}
}

type listener struct {
	net.Listener
	unused unusedConns
}

// Accept waits for a connection.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	guarded := newConn(c)
	l.unused.add(guarded)
	return guarded.shown(), nil
}

// Close closes the listener.
func (l *listener) Close() error {
	err := l.Listener.Close()
	l.unused.close()
	return err
}

func newConn(c net.Conn) *conn { return &conn{Conn: c, framer: framer{length: -1}} }

// shown returns the connection as fasthttp is to see it.
func (c *conn) shown() net.Conn {
	if secured, isTLS := c.Conn.(*tls.Conn); isTLS {
		return &tlsConn{c, secured}
	}
	return c
}

type conn struct {
	net.Conn
	unused    *unusedConns // where it is until something comes; nil for none
	isUsed    bool         // of the goroutine that reads: something came
	framer    framer       // of the goroutine that reads
	raised    bool         // the server has been given the error
	isSending bool         // a copy of sending, for the goroutine that reads
	sending   atomic.Bool
	fast      fastConn
}

// tlsConn shows fasthttp that the connection is one of TLS.
type tlsConn struct {
	*conn
	secured *tls.Conn
}

// Handshake implements what fasthttp asks of a connection of TLS. The read
// deadline that fasthttp sets before bounds it.
func (c *tlsConn) Handshake() error { return c.secured.HandshakeContext(context.Background()) }

// ConnectionState implements what fasthttp asks of a connection of TLS.
func (c *tlsConn) ConnectionState() tls.ConnectionState { return c.secured.ConnectionState() }

// Read passes what the framer lets through, then one byte that is part of no
// request and makes the server look for more, then the framer's error. The
// byte makes sure that the server answers: it closes a connection without a
// word where an error comes between two requests.
func (c *conn) Read(p []byte) (int, error) {
	if c.framer.err == nil {
		n, err := c.Conn.Read(p)
		if n > 0 && !c.isUsed {
			if c.isUsed = true; c.unused != nil && !c.unused.remove(c) {
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
	if c.fast.shared != nil {
		c.fast.shared.forget(c)
	}
	if c.unused != nil {
		c.unused.remove(c)
	}
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

// unusedConns are the connections of a listener on which nothing has come. Browsers and HTTP
// clients open such ones ahead of time. fasthttp takes them for busy and would wait with a
// shutdown until ReadTimeout ends them.
type unusedConns struct {
	mu       sync.Mutex
	isClosed bool // the listener
	accepted map[*conn]time.Time
}

// add takes a connection that was just accepted.
func (u *unusedConns) add(c *conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	c.unused = u
	u.accepted[c] = time.Now()
	if u.isClosed {
		u.closeLater(c, unusedGrace)
	}
}

// remove reports whether the connection was still unused.
func (u *unusedConns) remove(c *conn) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, was := u.accepted[c]
	delete(u.accepted, c)
	return was
}

// close has the connections closed that stay unused.
func (u *unusedConns) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.isClosed = true
	for c, at := range u.accepted {
		u.closeLater(c, unusedGrace-time.Since(at))
	}
}

func (u *unusedConns) closeLater(c *conn, after time.Duration) {
	time.AfterFunc(after, func() {
		supervise.Do("unused connection", func() {
			if u.remove(c) {
				_ = c.Close() // nobody waits for anything on it
			}
		})
	})
}
