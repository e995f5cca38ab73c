//go:build !linux

package socket

import (
	"net"
	"time"
)

// DialerFailing returns a plain dialer.
func DialerFailing(time.Duration) *net.Dialer { return new(net.Dialer) }

// Unacknowledged returns 0.
func Unacknowledged(net.Conn) (int, error) { return 0, nil }
