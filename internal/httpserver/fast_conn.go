package httpserver

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/socket"
)

// How the fast path of fast.go reads and writes a connection.

// fastConn is the part of a connection that answers the usual requests.
type fastConn struct {
	shared *fastServer // nil for none
	state  atomic.Int32
	out    []byte    // answers that have not been sent
	read   time.Time // when the request was read
	timed  time.Time // when the deadlines were set last
	peer   netip.Addr
	call   FastCall
	id     [requestIDLength]byte
	// request is the one that is being answered.
	request fastRequest
	socket  *socket.Socket // nil for none
	// onSocket says that answerOnSocket reads the connection.
	onSocket bool
	// charging says that the handler was called and its answer is not complete.
	charging bool

	answered Answered
}

// States of a connection: one that answers is closed by the goroutine that answers.
const (
	connReads int32 = iota // for the plain version, which may be answering
	connAnswers
	connWaits  // for a request, after an answer of the fast path
	connEnds   // is to be closed after the answer
	connClosed // is being closed, or is
)

// deadlineSlack is how much earlier than said a deadline may come, so that a busy
// connection does not set it again with each request.
const deadlineSlack = time.Second

// answerFast answers what it can of p[:n], which was just read, and reads on. It returns
// what is for the plain version: the beginning of p.
func (c *conn) answerFast(p []byte, n int) (int, error) {
	if c.fast.shared.closed.Load() {
		return n, nil
	}
	var err error
	for from := connReads; ; from = connWaits {
		then, left, failed := c.answerRead(p, n, err, from)
		if then == readOn && c.fast.socket != nil {
			then, left, failed = c.answerOnSocket(p)
		}
		switch then {
		case leave:
			return left, failed
		case end:
			return 0, c.endFast()
		case readOn:
			n, err = c.Conn.Read(p)
		}
	}
}

// endSlack is how late the end of what a client sends may be noticed: ReadEach misses one that
// comes together with a request, and the connection's own Read, which finds it, follows
// where no request has come for so long.
const endSlack = 2 * time.Second

// answerOnSocket answers requests that are read from the connection's socket, as long as it
// can and they come. It returns readOn where the connection is to be read by its own Read.
func (c *conn) answerOnSocket(p []byte) (then afterRead, left int, failed error) {
	f := &c.fast
	if err := c.Conn.SetReadDeadline(f.read.Add(endSlack)); err != nil {
		return readOn, 0, nil // reading finds what is wrong
	}
	f.onSocket = true
	f.socket.ReadEach(p, func(n int) bool {
		then, left, failed = c.answerRead(p, n, nil, connWaits)
		return then == readOn
	})
	if f.onSocket = false; then == readOn {
		_ = c.Conn.SetReadDeadline(f.read.Add(idleTimeout)) // reading finds what is wrong
	}
	return then, left, failed
}

// afterRead is what follows after what a read brought.
type afterRead int

const (
	readOn afterRead = iota // all was answered, and the connection waits
	leave                   // the rest is the plain version's
	end                     // the connection is to be closed
)

// answerRead answers what it can of what a read has brought. Where the plain version takes
// over, left is how much of p is for it.
func (c *conn) answerRead(p []byte, n int, err error, from int32) (then afterRead, left int, failed error) {
	f := &c.fast
	if from == connWaits && (err != nil || n == 0 || f.shared.closed.Load()) {
		if !f.state.CompareAndSwap(connWaits, connReads) {
			return leave, 0, io.EOF
		}
		if err == nil {
			err = c.leaveToPlain()
		}
		return leave, n, err
	}
	if !f.state.CompareAndSwap(from, connAnswers) {
		return leave, 0, io.EOF
	}
	used, whole := f.answerAll(p[:n])
	c.markUsed()
	err = c.sendAnswers()
	to := connReads
	if used == n && err == nil && whole {
		to = connWaits
	}
	if !whole || !f.state.CompareAndSwap(connAnswers, to) {
		return end, 0, nil // as Close was asked to, or after a panic
	}
	if err != nil {
		return leave, 0, err
	}
	if used < n {
		return leave, copy(p, p[used:n]), c.leaveToPlain()
	}
	if (f.shared.closed.Load() || c.isCut.Load()) && f.state.CompareAndSwap(connWaits, connAnswers) {
		return end, 0, nil // who closes those that wait may have looked before
	}
	return readOn, 0, nil
}

// endFast closes a connection that answers.
func (c *conn) endFast() error {
	c.fast.state.Store(connClosed)
	c.listener.conns.Remove(c)
	_ = c.Conn.Close() // nothing more is to be sent
	return io.EOF
}

// leaveToPlain gives a request that goes on to the plain version as long as every other. Of
// the first that fasthttp sees it has set the deadline before the fast path moved it.
func (c *conn) leaveToPlain() error {
	if c.fast.timed.IsZero() {
		return nil
	}
	return c.SetReadDeadline(time.Now().Add(ReadTimeout))
}

// sendAnswers sends what has been answered in one piece.
func (c *conn) sendAnswers() error {
	f := &c.fast
	if len(f.out) == 0 {
		return nil
	}
	if f.read.Sub(f.timed) > deadlineSlack {
		f.timed = f.read
		wait := idleTimeout
		if f.onSocket {
			wait = endSlack + deadlineSlack
		}
		if err := c.Conn.SetReadDeadline(f.timed.Add(wait)); err != nil {
			return err
		}
		if err := c.Conn.SetWriteDeadline(f.timed.Add(WriteTimeout + deadlineSlack)); err != nil {
			return err
		}
	}
	var err error
	if out := f.out[f.socket.Send(f.out):]; len(out) > 0 {
		_, err = c.Conn.Write(out)
	}
	if f.out = f.out[:0]; cap(f.out) > headerBytes {
		f.out = nil
	}
	return err
}

// SetReadDeadline sets the deadline of the plain version, and with it one of the answer to an
// error and of "100 Continue", for which fasthttp sets none: that of the answer before may have
// passed. Where the connection was closed before anything came, Read says so, and not as a
// failure.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.fast.timed = time.Time{}
	err := c.Conn.SetReadDeadline(t)
	if err == nil && !t.IsZero() {
		err = c.Conn.SetWriteDeadline(t.Add(WriteTimeout))
	}
	if !c.isUsed && errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// SetWriteDeadline sets the deadline of the plain version.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.fast.timed = time.Time{}
	return c.Conn.SetWriteDeadline(t)
}
