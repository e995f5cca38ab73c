package grpcserver

import (
	"errors"
	"time"

	"golang.org/x/net/http2"
)

// closeAfter closes a connection after the grace time of its last calls.
func closeAfter(c *conn, grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-timer.C:
		_ = c.raw.Close() // the reading goroutine ends
	case <-c.ctx.Done():
	}
}

// goAway sends the reason for closing the connection, and waits briefly for the client to read
// it.
func (c *conn) goAway(code http2.ErrCode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.framer.WriteGoAway(c.lastID, code, nil) // a buffer never fails
	c.flush()
	c.finishSending()
}

// finishSending closes the sending side of the connection. The client gets a moment to read: if
// data arrives at a closed connection, the system resets it. If another goroutine is writing,
// that one closes the side. The caller holds mu, which is released while waiting for the
// client.
func (c *conn) finishSending() {
	if c.closed {
		return
	}
	if c.last = true; c.writing {
		return
	}
	c.closed, c.ended = true, true
	c.written.Broadcast()
	c.mu.Unlock()
	defer c.mu.Lock()
	half, can := c.net.(interface{ CloseWrite() error })
	if !can || half.CloseWrite() != nil || c.net.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		_ = c.raw.Close() // the reading goroutine ends
	}
}

// waitForEnd waits until everything is written, and reports whether it was.
func (c *conn) waitForEnd() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.last && !c.closed {
		c.written.Wait()
	}
	return c.ended
}

// sweep resets the streams whose requests were already incomplete at the previous sweep.
func sweep(c *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, s := range c.streams {
		switch {
		case s.requested || s.plain || s.gone:
		case !s.isOld:
			s.isOld = true
		case c.reset(id, http2.ErrCodeCancel) != nil:
			_ = c.raw.Close() // the reading goroutine ends
		}
	}
	if c.sweeping = len(c.streams) > 0 && !c.closed; c.sweeping {
		c.sweeper.Reset(c.server.o.RequestTime)
	}
	c.flush()
	c.endIfDrained()
}

// drain asks the client to make no more calls on the connection, which ends after the last
// call. It does not wait for the client.
func (c *conn) drain(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining || c.closed {
		return
	}
	c.draining = true
	if !c.started {
		_ = c.raw.Close() // there was no call
		return
	}
	_ = errors.Join( // a buffer never fails
		c.framer.WriteGoAway(1<<31-1, http2.ErrCodeNo, []byte(why)),
		c.framer.WritePing(false, drainPing))
	c.server.HandOver(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.flush()
	})
}

// drained is called when the client has acknowledged drainPing: later calls are not answered.
func (c *conn) drained() {
	if !c.draining || c.isFinal {
		return
	}
	c.isFinal = true
	_ = c.framer.WriteGoAway(c.lastID, http2.ErrCodeNo, nil) // a buffer never fails
}

// endIfDrained ends a connection that was asked for all that it will be. The caller holds mu.
func (c *conn) endIfDrained() {
	if c.isFinal && len(c.out) == 0 && !c.writing && areLongLived(c.streams) {
		c.finishSending()
	}
}

// areLongLived reports whether all calls are long-lived.
func areLongLived(calls map[uint32]*stream) bool {
	for _, s := range calls {
		if !s.longLived {
			return false
		}
	}
	return true
}
