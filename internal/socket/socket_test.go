package socket

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"
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

// of returns the socket of c, or skips the test where the system has none.
func of(t *testing.T, c *net.TCPConn) *Socket {
	t.Helper()
	if !isSupported {
		t.Skip("connections are read by package net on this system")
	}
	return Of(c)
}

func TestOnlyConnectionsOfTCPHaveASocket(t *testing.T) {
	here, _ := pair(t)
	if got := Of(here) != nil; got != isSupported {
		t.Errorf("a connection of TCP has a socket: %t, want %t", got, isSupported)
	}
	if Of(struct{ net.Conn }{here}) != nil {
		t.Error("a wrapped connection has a socket")
	}
	var none *Socket
	if sent := none.Send([]byte("a")); sent != 0 {
		t.Errorf("no socket sent %d bytes", sent)
	}
}

// Everything that comes is read, and what was read is sent back, as far as there is room; the
// end is left to the connection.
func TestEachReadIsTakenUntilTheEndAndAnsweredWithoutWaiting(t *testing.T) {
	here, there := pair(t)
	s := of(t, here)
	want := bytes.Repeat([]byte("0123456789"), 1<<18)
	go func() {
		_, _ = there.Write(want)
		_ = there.CloseWrite()
	}()
	echoed := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(there)
		echoed <- all
	}()
	p := make([]byte, 1000)
	var got []byte
	s.ReadEach(p, func(n int) bool {
		got = append(got, p[:n]...)
		if rest := p[s.Send(p[:n]):n]; len(rest) > 0 {
			if _, err := here.Write(rest); err != nil {
				t.Error(err)
			}
		}
		return true
	})
	if !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, want %d", len(got), len(want))
	}
	if n, err := here.Read(p); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the connection read %d bytes and %v, want its end", n, err)
	}
	if sent := s.Send([]byte("late")); sent != 0 {
		t.Errorf("%d bytes were sent outside of ReadEach", sent)
	}
	_ = here.CloseWrite()
	if all := <-echoed; !bytes.Equal(all, want) {
		t.Errorf("%d bytes came back, want %d", len(all), len(want))
	}
}

func TestATakerThatWantsNoMoreIsNotAskedAgain(t *testing.T) {
	here, there := pair(t)
	s := of(t, here)
	if _, err := there.Write([]byte("abcdef")); err != nil {
		t.Fatal(err)
	}
	p, taken := make([]byte, 2), 0
	s.ReadEach(p, func(n int) bool {
		taken += n
		return taken < 4
	})
	rest := make([]byte, 8)
	if n, err := here.Read(rest); taken != 4 || err != nil || string(rest[:n]) != "ef" {
		t.Errorf("took %d bytes and left %q, %v", taken, rest[:n], err)
	}
}

func TestAWaitEndsAtTheDeadlineAndWhenTheConnectionIsClosed(t *testing.T) {
	here, _ := pair(t)
	s := of(t, here)
	never := func(n int) bool {
		t.Errorf("read %d bytes that nobody sent", n)
		return false
	}
	if err := here.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	s.ReadEach(make([]byte, 8), never)
	if err := here.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(10 * time.Millisecond) // either order is fine
		_ = here.Close()
	}()
	s.ReadEach(make([]byte, 8), never)
}
