package grpcserver

import "github.com/stint-dev/stint/internal/connlimit"

// heldConn is a connection for connlimit.
type heldConn struct{ *conn }

// Activity implements connlimit.Conn.
func (h heldConn) Activity() connlimit.Activity {
	h.mu.Lock()
	defer h.mu.Unlock()
	does := connlimit.Idle
	for _, s := range h.streams {
		switch {
		case s.longLived:
		case s.busy && !s.isBlocked && len(h.out) <= maxUnsent:
			return connlimit.Answering
		default:
			does = connlimit.AwaitingClient
		}
	}
	return does
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
