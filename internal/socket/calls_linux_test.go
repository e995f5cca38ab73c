//go:build amd64 || arm64

package socket

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
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

// ReadEach reads everything that arrives, and the test sends back what fits into the buffer.
// The end, which arrives separately, is left to the connection.
func TestReadEachReadsToTheEndAndSendDoesNotWait(t *testing.T) {
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
		t.Errorf("Read after ReadEach: got %d bytes, %v, want EOF", n, err)
	}
	if sent := s.Send([]byte("late")); sent != 0 {
		t.Errorf("Send outside of ReadEach sent %d bytes", sent)
	}
	if all := <-echoed; !bytes.Equal(all, want) {
		t.Errorf("the peer got %d bytes back, want %d", len(all), len(want))
	}
}

func TestReadEachStopsWhenTheCallbackReturnsFalse(t *testing.T) {
	here, there := pair(t)
	s := socketOf(t, here)
	if _, err := there.Write([]byte("abcdef")); err != nil {
		t.Fatal(err)
	}
	p, read := make([]byte, 2), 0
	s.ReadEach(p, func(n int) bool {
		read += n
		return read < 4
	})
	rest := make([]byte, 8)
	if n, err := here.Read(rest); read != 4 || err != nil || string(rest[:n]) != "ef" {
		t.Errorf("ReadEach read %d bytes and left %q, %v", read, rest[:n], err)
	}
}

func TestReadEachEndsAtTheDeadlineAndOnClose(t *testing.T) {
	here, _ := pair(t)
	s := socketOf(t, here)
	never := func(n int) bool {
		t.Errorf("ReadEach read %d bytes, want none", n)
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

// Read of a dialled connection's RawConn does not wait, and calls the caller's function only if
// bytes or the end have arrived.
func TestRawReadOfADialledConnCallsOnlyIfDataArrived(t *testing.T) {
	here, there := dialled(t)
	raw, err := here.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	look := func() (called bool, found int) {
		err := raw.Read(func(fd uintptr) bool {
			called = true
			found, _, _ = syscall.Recvfrom(int(fd), make([]byte, 8), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		return called, found
	}
	await := func(want int) {
		t.Helper()
		called, found := look()
		for until := time.Now().Add(time.Minute); !called && time.Now().Before(until); called, found = look() {
			time.Sleep(time.Millisecond)
		}
		if !called || found != want {
			t.Errorf("raw Read: called %v and found %d bytes, want %d", called, found, want)
		}
	}
	if called, _ := look(); called {
		t.Error("raw Read called the function before anything arrived")
	}
	if _, err := there.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	await(3)
	if _, err := io.ReadFull(here, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if called, _ := look(); called {
		t.Error("raw Read called the function after everything was read")
	}
	_ = there.Close()
	await(0)
	_ = here.Close()
	if err := raw.Read(func(uintptr) bool { return true }); !errors.Is(err, net.ErrClosed) {
		t.Errorf("raw Read of a closed connection: got %v", err)
	}
}
