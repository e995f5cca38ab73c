package socket

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// DialerFailing returns a dialer of connections that fail once the other machine has acknowledged
// nothing for that long. Elsewhere than on Linux they fail only when the system gives them up.
func DialerFailing(after time.Duration) *net.Dialer {
	return &net.Dialer{Control: func(network, _ string, c syscall.RawConn) error {
		if !strings.HasPrefix(network, "tcp") {
			return nil
		}
		var wrong error
		err := c.Control(func(fd uintptr) {
			wrong = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(after.Milliseconds()))
		})
		return errors.Join(err, wrong)
	}}
}

// Unacknowledged returns how many bytes that were written to a connection over TCP the other machine
// has not acknowledged, and 0 elsewhere than on Linux, where it is not known.
func Unacknowledged(conn net.Conn) (waiting int, err error) {
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
