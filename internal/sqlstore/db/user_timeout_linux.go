package db

import (
	"errors"
	"net"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// newDialer returns a dialer of connections that fail once the other machine has acknowledged
// nothing for maxUnacknowledged.
func newDialer() *net.Dialer {
	return &net.Dialer{Control: func(network, _ string, c syscall.RawConn) error {
		if !strings.HasPrefix(network, "tcp") {
			return nil
		}
		var wrong error
		err := c.Control(func(fd uintptr) {
			wrong = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(maxUnacknowledged.Milliseconds()))
		})
		return errors.Join(err, wrong)
	}}
}
