package socket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// dialled returns a connection of Dialer and its other end.
func dialled(t *testing.T) (here, there net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	here, err = Dialer(new(net.Dialer).DialContext)(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = here.Close(); _ = there.Close() })
	return here, there
}

func TestDialledConnReadsAndWritesConcurrently(t *testing.T) {
	here, there := dialled(t)
	want := bytes.Repeat([]byte("0123456789"), 1<<18)
	go func() { // the peer sends back what it reads, slowly at first
		time.Sleep(10 * time.Millisecond)
		_, _ = io.Copy(there, there)
		_ = there.Close()
	}()
	sent := make(chan error)
	go func() {
		n, err := here.Write(want)
		if err == nil && n != len(want) {
			err = io.ErrShortWrite
		}
		if half, canClose := here.(interface{ CloseWrite() error }); canClose {
			err = errors.Join(err, half.CloseWrite())
		}
		sent <- err
	}()
	got, err := io.ReadAll(here)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes of %d, %v", len(got), len(want), err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if n, err := here.Read(make([]byte, 8)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("Read after the end: got %d bytes, %v", n, err)
	}
	if n, err := here.Read(nil); n != 0 || err != nil {
		t.Errorf("Read(nil): got %d, %v", n, err)
	}
	if n, err := here.Write(nil); n != 0 || err != nil {
		t.Errorf("Write(nil): got %d, %v", n, err)
	}
}

func TestDialledConnKeepsItsDeadlines(t *testing.T) {
	here, _ := dialled(t)
	if err := here.SetDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := here.Read(make([]byte, 8)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read: got %d bytes, %v, want a deadline exceeded", n, err)
	}
	// Nobody reads, so only the first part fits into the buffers.
	all := make([]byte, 64<<20)
	if err := here.SetDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n, err := here.Write(all)
	if n == 0 || n == len(all) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Write: got %d bytes, %v, want some and a deadline exceeded", n, err)
	}
	if n, err := here.Write(all); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Write after the deadline: got %d bytes, %v", n, err)
	}
}

func TestDialledConnCloseEndsItsRead(t *testing.T) {
	here, there := dialled(t)
	read := make(chan error)
	go func() {
		_, err := here.Read(make([]byte, 8))
		read <- err
	}()
	time.Sleep(10 * time.Millisecond) // either order is fine
	_ = here.Close()
	if err := <-read; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read during Close: got %v", err)
	}
	if _, err := here.Write([]byte("late")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write after Close: got %v", err)
	}
	if here.RemoteAddr().String() != there.LocalAddr().String() {
		t.Errorf("RemoteAddr: got %s, want %s", here.RemoteAddr(), there.LocalAddr())
	}
}

func TestDialerReturnsErrorsAndWrappedConnsUnchanged(t *testing.T) {
	broken := errors.New("no route")
	if c, err := Dialer(func(context.Context, string, string) (net.Conn, error) { return nil, broken })(t.Context(), "tcp", "x"); c != nil || !errors.Is(err, broken) {
		t.Errorf("Dialer with a failing dial: got %v, %v", c, err)
	}
	here, _ := pair(t)
	wrapped := struct{ net.Conn }{here}
	if c, err := Dialer(func(context.Context, string, string) (net.Conn, error) { return wrapped, nil })(t.Context(), "tcp", "x"); c != wrapped || err != nil {
		t.Errorf("Dialer of a wrapped connection: got %T, %v", c, err)
	}
}

func TestDialledConnDoesNotAllocate(t *testing.T) {
	here, there := dialled(t)
	go func() { _, _ = io.Copy(there, there) }()
	p := make([]byte, 64)
	n := testing.AllocsPerRun(100, func() {
		if _, err := here.Write(p); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(here, p); err != nil {
			t.Fatal(err)
		}
	})
	if n >= 1 {
		t.Errorf("%.0f allocations for a call and its answer", n)
	}
}
