//go:build amd64 || arm64

package socket

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// socketOf returns the socket of c, which every connection of TCP has on this system.
func socketOf(t *testing.T, c *net.TCPConn) *Socket {
	t.Helper()
	s := Of(c)
	if s == nil {
		t.Fatal("the connection has no socket")
	}
	return s
}

// Everything that comes is read, and what was read is sent back, as far as there is room; the
// end, which comes by itself, is left to the connection.
func TestEachReadIsTakenUntilTheEndAndAnsweredWithoutWaiting(t *testing.T) {
	here, there := pair(t)
	s := socketOf(t, here)
	want := bytes.Repeat([]byte("0123456789"), 1<<18)
	go func() { _, _ = there.Write(want) }()
	echoed := make(chan []byte)
	go func() {
		all := make([]byte, len(want))
		n, _ := io.ReadFull(there, all)
		_ = there.CloseWrite()
		echoed <- all[:n]
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
	if all := <-echoed; !bytes.Equal(all, want) {
		t.Errorf("%d bytes came back, want %d", len(all), len(want))
	}
}

func TestATakerThatWantsNoMoreIsNotAskedAgain(t *testing.T) {
	here, there := pair(t)
	s := socketOf(t, here)
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
	s := socketOf(t, here)
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
