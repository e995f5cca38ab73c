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

// How the fast path of fast.go reads from and writes to a connection.

// fastConn is the part of a connection that answers common requests.
type fastConn struct {
	shared *fastServer // nil for none
	state  atomic.Int32
	out    []byte    // responses not yet sent
	read   time.Time // when the request was read
	timed  time.Time // when the deadlines were last set
	peer   netip.Addr
	call   FastCall
	id     [requestIDLength]byte
	// request is the request that is being answered.
	request fastRequest
	socket  *socket.Socket // nil for none
	// onSocket means that answerOnSocket is reading the connection.
	onSocket bool
	// charging means that the handler was called and its response is not complete.
	charging bool

	answered Answered
}

// States of a connection. A connection in state connAnswers is closed by the goroutine that
// answers.
const (
	connReads int32 = iota // reads for the plain version, which may be answering
	connAnswers
	connWaits  // waits for a request, after a response of the fast path
	connEnds   // will be closed after the response
	connClosed // is closed or being closed
)

// deadlineSlack is how much a deadline may be off, so that a busy connection does not set it
// again for every request.
const deadlineSlack = time.Second

// answerFast answers the requests in p[:n], which was just read, as far as it can, and reads
// on. It returns the number of bytes at the start of p that the plain version must read.
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

// endSlack is how long the end of the client's data may go unnoticed. ReadEach misses an end
// that arrives together with a request. The connection's own Read finds it; it is called if no
// request arrives for this long.
const endSlack = 2 * time.Second

// answerOnSocket reads requests from the connection's socket and answers them, as long as they
// arrive and it can. It returns readOn if the connection's own Read must read next.
func (c *conn) answerOnSocket(p []byte) (then afterRead, left int, failed error) {
	f := &c.fast
	if err := c.Conn.SetReadDeadline(f.read.Add(endSlack)); err != nil {
		return readOn, 0, nil // the next Read returns the error
	}
	f.onSocket = true
	f.socket.ReadEach(p, func(n int) bool {
		then, left, failed = c.answerRead(p, n, nil, connWaits)
		return then == readOn
	})
	if f.onSocket = false; then == readOn {
		_ = c.Conn.SetReadDeadline(f.read.Add(idleTimeout)) // the next Read returns the error
	}
	return then, left, failed
}

// afterRead says what happens after a read.
type afterRead int

const (
	readOn afterRead = iota // everything was answered; the connection waits
	leave                   // the plain version reads the rest
	end                     // the connection must be closed
)

// answerRead answers as much as it can of what a read returned. If the plain version must take
// over, left is how many bytes of p it reads.
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
	used, whole, err := f.answerAll(p[:n], c.sendAnswers)
	c.markUsed()
	if err == nil {
		err = c.sendAnswers()
	}
	to := connReads
	if used == n && err == nil && whole {
		to = connWaits
	}
	if !whole || !f.state.CompareAndSwap(connAnswers, to) {
		return end, 0, nil // Close was called, or the handler panicked
	}
	if err != nil {
		return leave, 0, err
	}
	if used < n {
		return leave, copy(p, p[used:n]), c.leaveToPlain()
	}
	if (c.listener.isOver.Load() || c.isCut.Load()) && f.state.CompareAndSwap(connWaits, connAnswers) {
		return end, 0, nil // closeIdle or Cut may have missed this one
	}
	return readOn, 0, nil
}

// endFast closes a connection in state connAnswers.
func (c *conn) endFast() error {
	c.fast.state.Store(connClosed)
	c.listener.conns.Remove(c)
	_ = c.Conn.Close() // nothing more will be sent
	return io.EOF
}

// leaveToPlain gives a request that the plain version reads the usual ReadTimeout. It does
// nothing if the fast path has not changed the deadline that fasthttp set.
func (c *conn) leaveToPlain() error {
	if c.fast.timed.IsZero() {
		return nil
	}
	return c.SetReadDeadline(time.Now().Add(ReadTimeout))
}

// sendAnswers sends all pending responses in one piece.
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
		_, err = c.Write(out)
	}
	if f.out = f.out[:0]; cap(f.out) > headerBytes {
		f.out = nil
	}
	return err
}

// SetReadDeadline sets the read deadline for the plain version. It also sets the write deadline
// for an error response and for "100 Continue": fasthttp sets none for these, and the one of
// the previous response may have passed. If the connection was closed before anything was
// received, it returns nil, and Read reports the end without a failure.
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

// SetWriteDeadline sets the write deadline for the plain version.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.fast.timed = time.Time{}
	return c.Conn.SetWriteDeadline(t)
}
