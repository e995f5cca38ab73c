package servers

import (
	"net"
	"strconv"
	"testing"
)

// FreeAddress returns a host:port of this machine on which nobody listens until the test has a
// program listen there. The system gives its port to no other process while the test runs.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, release, err := HoldAddress()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return address
}

// HoldAddress is FreeAddress until release.
func HoldAddress() (address string, release func(), err error) {
	port, release, err := holdPort()
	if err != nil {
		return "", nil, err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), release, nil
}

// Listen is ListenOn for an address that only this machine reaches.
func Listen(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	return ListenOn(t, "127.0.0.1", serve)
}

// ListenOn listens on a free port of an address until the test ends, gives each connection to
// serve, and returns the host:port. serve closes the connection, at the latest when the test ends.
func ListenOn(t testing.TB, address string, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l.Addr().String()
}
