package eventlog

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// newDialer returns a dialer of connections that fail once the receiver's machine has acknowledged nothing for
// maxUnacknowledged.
func newDialer() *net.Dialer {
	return &net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var wrong error
		err := c.Control(func(fd uintptr) {
			wrong = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(maxUnacknowledged.Milliseconds()))
		})
		return errors.Join(err, wrong)
	}}
}

// unacknowledged returns how many bytes the receiver's machine has not acknowledged.
func unacknowledged(conn net.Conn) (waiting int, err error) {
	if over, is := conn.(*tls.Conn); is {
		conn = over.NetConn()
	}
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var wrong error
	err = raw.Control(func(fd uintptr) { waiting, wrong = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	return waiting, errors.Join(err, wrong)
}
