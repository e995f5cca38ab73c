// Package patient spares a server most of the cost of its deadlines. An HTTP
// server moves the deadlines of a connection three times for each request, and
// each time the runtime looks for the timer's place anew; nearly all of them
// never come.
package patient

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// Listener returns a listener whose connections only remember a deadline that
// is moved later. One that comes too early then is found out when it comes, and
// set anew: deadlines stay as exact as they were.
func Listener(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

// Accept waits for a connection.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

type conn struct {
	net.Conn
	read, write deadline
}

// deadline is one of the two of a connection. Its methods may be called from
// many goroutines, as those of a net.Conn.
type deadline struct {
	mu     sync.Mutex
	wanted time.Time // zero: none
	armed  time.Time // what the connection knows: never later than wanted
}

// move takes a new deadline, and has the connection know it where it comes
// before what it knows.
func (d *deadline) move(to time.Time, arm func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = to
	if !d.armed.IsZero() && (to.IsZero() || !to.Before(d.armed)) {
		return nil
	}
	return d.arm(arm)
}

// arm tells the connection. mu must be held.
func (d *deadline) arm(arm func(time.Time) error) error {
	if err := arm(d.wanted); err != nil {
		return err
	}
	d.armed = d.wanted
	return nil
}

// early reports whether err only says that a deadline came which has been moved
// later; the connection then knows the new one.
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
func (c *conn) SetReadDeadline(t time.Time) error { return c.read.move(t, c.Conn.SetReadDeadline) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.write.move(t, c.Conn.SetWriteDeadline) }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// CloseWrite ends what is sent, so that the other end can go on reading.
func (c *conn) CloseWrite() error {
	half, can := c.Conn.(interface{ CloseWrite() error })
	if !can {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if n > 0 || err == nil || !c.read.early(err, c.Conn.SetReadDeadline) {
			return n, err
		}
	}
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (written int, err error) {
	for {
		n, err := c.Conn.Write(b[written:])
		written += n
		if err == nil || !c.write.early(err, c.Conn.SetWriteDeadline) {
			return written, err
		}
	}
}
