package servers_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/stint-dev/stint/test/servers"
)

// listenAlone listens on the port of an address as the system gives ports: only if no other socket
// is bound to it.
func listenAlone(t *testing.T, address string) error {
	t.Helper()
	exclusive := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		controlled := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0) })
		if controlled != nil {
			return controlled
		}
		return err
	}}
	l, err := exclusive.Listen(t.Context(), "tcp", address)
	if err == nil {
		t.Cleanup(func() { l.Close() })
	}
	return err
}

// Beside other tests, the system gave the port of a killed server to another process, so that the
// server did not start again.
func TestPortOfAKilledServerIsGivenToNobody(t *testing.T) {
	redis := servers.DedicatedRedis(t)
	redis.Kill()
	if listenAlone(t, redis.Addr) == nil {
		t.Error("another process was given the port of the killed Redis")
	}
	redis.Restart(true)
	postgres := servers.DedicatedPostgres(t)
	postgres.Kill()
	if listenAlone(t, postgres.Addr) == nil {
		t.Error("another process was given the port of the killed Postgres")
	}
	postgres.Restart(false)
}

func TestFreeAddressIsGivenToNobodyAndCanBeListenedOn(t *testing.T) {
	address := servers.FreeAddress(t)
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("somebody listens there")
	}
	if listenAlone(t, address) == nil {
		t.Error("another process was given the port")
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
