package grpcserver

import (
	"time"

	"github.com/stint-dev/stint/internal/connlimit"
)

// startTime is for how long the first call of a new connection may be on its way.
const startTime = 2 * time.Second

// heldConn is a connection for connlimit.
type heldConn struct{ *conn }

// Activity implements connlimit.Conn.
func (h heldConn) Activity() connlimit.Activity {
	h.mu.Lock()
	defer h.mu.Unlock()
	does := connlimit.Idle
	if h.lastID == 0 && time.Since(h.accepted) < startTime {
		does = connlimit.Starting
	}
	for _, s := range h.streams {
		switch {
		case s.longLived:
		case s.busy && !s.isBlocked && h.outRoom() >= 0:
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
