package grpcserver

import "github.com/stint-dev/stint/internal/connlimit"

// heldConn is a connection for connlimit.
type heldConn struct{ *conn }

// Activity implements connlimit.Conn.
func (h heldConn) Activity() connlimit.Activity {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.streams) == 0 {
		return connlimit.Idle
	}
	for _, s := range h.streams {
		if s.busy {
			return connlimit.Answering
		}
	}
	return connlimit.AwaitingClient
}

// TakeUsed implements connlimit.Conn.
func (h heldConn) TakeUsed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	used := h.wasUsed
	h.wasUsed = false
	return used
}

// Cut implements connlimit.Conn.
func (h heldConn) Cut() { _ = h.raw.Close() } // the reading and writing goroutines end
