package socket

import (
	"net"
	"testing"
)

// pair returns both ends of a TCP connection.
func pair(t *testing.T) (here, there *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialled.Close(); _ = accepted.Close() })
	here, _ = accepted.(*net.TCPConn)
	there, _ = dialled.(*net.TCPConn)
	return here, there
}

func TestWrappedConnHasNoSocket(t *testing.T) {
	here, _ := pair(t)
	if Of(struct{ net.Conn }{here}) != nil {
		t.Error("Of a wrapped connection is not nil")
	}
	var none *Socket
	if sent := none.Send([]byte("a")); sent != 0 {
		t.Errorf("Send of a nil Socket sent %d bytes", sent)
	}
}
