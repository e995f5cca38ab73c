package grpcserver

import (
	"errors"
	"time"

	"golang.org/x/net/http2"
)

// closeAfter closes a connection when its last calls have had their time.
func closeAfter(c *conn, grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-timer.C:
		_ = c.raw.Close() // the goroutine that reads ends
	case <-c.ctx.Done():
	}
}

// goAway says why the connection is closed, and waits a moment for the client to read it.
func (c *conn) goAway(code http2.ErrCode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.framer.WriteGoAway(c.lastID, code, nil) // to a buffer
	c.flush()
	c.finishSending()
}

// finishSending ends the connection for what is sent. The client has a moment to read it:
// data that arrives at a closed connection has the system reset it. While another goroutine
// writes, that one ends it. The caller holds mu, which is free while it waits for the client.
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
		_ = c.raw.Close() // the goroutine that reads ends
	}
}

// waitForEnd waits until what was to be the last is written, and reports whether it was.
func (c *conn) waitForEnd() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.last && !c.closed {
		c.written.Wait()
	}
	return c.ended
}

// sweep resets the streams whose requests have not become whole since the last sweep before
// this one.
func sweep(c *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, s := range c.streams {
		switch {
		case s.requested || s.plain || s.gone:
		case !s.isOld:
			s.isOld = true
		case c.reset(id, http2.ErrCodeCancel) != nil:
			_ = c.raw.Close() // the goroutine that reads ends
		}
	}
	if c.sweeping = len(c.streams) > 0 && !c.closed; c.sweeping {
		c.sweeper.Reset(c.server.o.RequestTime)
	}
	c.flush()
	c.endIfDrained()
}

// drain asks the client to make no more calls on the connection, which ends after the last.
// It does not wait for the client.
func (c *conn) drain(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining || c.closed {
		return
	}
	c.draining = true
	if !c.started {
		_ = c.raw.Close() // nothing was asked
		return
	}
	_ = errors.Join( // to a buffer
		c.framer.WriteGoAway(1<<31-1, http2.ErrCodeNo, []byte(why)),
		c.framer.WritePing(false, drainPing))
	c.server.HandOver(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.flush()
	})
}

// drained is called when the client has answered drainPing: what it asks later is not
// answered.
func (c *conn) drained() {
	if !c.draining || c.isFinal {
		return
	}
	c.isFinal = true
	_ = c.framer.WriteGoAway(c.lastID, http2.ErrCodeNo, nil) // to a buffer
}

// endIfDrained ends a connection that was asked for all that it will be. The caller holds mu.
func (c *conn) endIfDrained() {
	if c.isFinal && len(c.streams) == 0 && len(c.out) == 0 && !c.writing {
		c.finishSending()
	}
}
