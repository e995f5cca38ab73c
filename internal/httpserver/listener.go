package httpserver

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// FramingListener returns a listener whose connections pass only requests whose
// framing is unambiguous. At the first byte of another kind the server behind
// it reads an error, answers 400 and closes; FramingErrorOf says what was
// wrong. With TLS, l must already speak it.
//
// A connection that is closed while its client still sends is closed for
// writing first, so that the client can read the answer.
func FramingListener(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

// Accept waits for a connection.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return FramingConn(c), nil
}

// FramingConn is FramingListener for one connection.
func FramingConn(c net.Conn) net.Conn {
	guarded := &conn{Conn: c, framer: framer{length: -1}}
	if secured, isTLS := c.(*tls.Conn); isTLS {
		return &tlsConn{guarded, secured}
	}
	return guarded
}

type conn struct {
	net.Conn
	framer    framer // of the goroutine that reads
	raised    bool   // the server has been given the error
	isSending bool   // a copy of sending, for the goroutine that reads
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
		if n > 0 && err == nil && c.fast.shared != nil && c.framer.isBetween() {
			n, err = c.answerFast(p, n)
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
