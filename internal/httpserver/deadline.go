package httpserver

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// Fast path. Plain version: the deadlines of net.Conn, which deadline_test.go compares with. Benchmark: BenchmarkDeadlines.

// LazyDeadlines returns a listener whose connections remember a deadline that is
// moved later instead of setting it. When the earlier deadline expires, the
// connection sets the remembered one and continues: deadlines stay exact. An HTTP
// server moves the deadlines of a connection three times for each request, which
// would cost a change of the runtime's timers each time.
func LazyDeadlines(l net.Listener) net.Listener { return deadlineListener{l} }

type deadlineListener struct{ net.Listener }

// Accept waits for a connection.
func (l deadlineListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &deadlineConn{Conn: c}, nil
}

type deadlineConn struct {
	net.Conn
	read, write deadline
}

// deadline is the read or the write deadline of a connection. It is safe for use by
// many goroutines, like a net.Conn.
type deadline struct {
	mu     sync.Mutex
	wanted time.Time // zero: none
	armed  time.Time // what is set on the connection: never later than wanted
}

// move takes a new deadline, and sets it on the connection if it is earlier than
// the one that is set.
func (d *deadline) move(to time.Time, arm func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = to
	if !d.armed.IsZero() && (to.IsZero() || !to.Before(d.armed)) {
		return nil
	}
	return d.arm(arm)
}

// arm sets the wanted deadline on the connection. mu must be held.
func (d *deadline) arm(arm func(time.Time) error) error {
	if err := arm(d.wanted); err != nil {
		return err
	}
	d.armed = d.wanted
	return nil
}

// early reports whether err is the expiry of a deadline that has been moved later; the
// new one is then set.
func (d *deadline) early(err error, arm func(time.Time) error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.wanted.IsZero() && !time.Now().Before(d.wanted) {
		return false
	}
	return d.arm(arm) == nil
}

// SetReadDeadline implements net.Conn.
func (c *deadlineConn) SetReadDeadline(t time.Time) error {
	return c.read.move(t, c.Conn.SetReadDeadline)
}

// SetWriteDeadline implements net.Conn.
func (c *deadlineConn) SetWriteDeadline(t time.Time) error {
	return c.write.move(t, c.Conn.SetWriteDeadline)
}

// SetDeadline implements net.Conn.
func (c *deadlineConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// CloseWrite closes the sending half; the other end can still be read.
func (c *deadlineConn) CloseWrite() error {
	half, can := c.Conn.(interface{ CloseWrite() error })
	if !can {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// Read implements net.Conn.
func (c *deadlineConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if n > 0 || err == nil || !c.read.early(err, c.Conn.SetReadDeadline) {
			return n, err
		}
	}
}

// Write implements net.Conn.
func (c *deadlineConn) Write(b []byte) (written int, err error) {
	for {
		n, err := c.Conn.Write(b[written:])
		written += n
		if err == nil || !c.write.early(err, c.Conn.SetWriteDeadline) {
			return written, err
		}
	}
}
