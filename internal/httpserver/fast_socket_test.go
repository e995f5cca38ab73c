package httpserver

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/test/servers"
)

// noSocketListener hides the sockets of its connections, so that package net reads them.
type noSocketListener struct{ net.Listener }

func (l noSocketListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return struct{ net.Conn }{c}, err
}

// acceptor remembers the connection that it accepted.
type acceptor struct {
	net.Listener
	accepted *net.TCPConn
}

func (a *acceptor) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	a.accepted, _ = c.(*net.TCPConn)
	return c, err
}

// isReady reports whether a read or a write of a connection would not wait: events is unix.POLLIN or
// unix.POLLOUT.
func isReady(t *testing.T, c *net.TCPConn, events int16) bool {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	polled := []unix.PollFd{{Events: events}}
	if err := raw.Control(func(fd uintptr) {
		polled[0].Fd = int32(fd)
		_, err = unix.Poll(polled, 0)
	}); err != nil {
		t.Fatal(err)
	}
	if err != nil && !errors.Is(err, unix.EINTR) {
		t.Fatal(err)
	}
	return err != nil || polled[0].Revents != 0
}

// onSocketAndPlain runs a test on a connection whose socket is read directly and on one
// that is not. The server has the end here, and the test the end there.
func onSocketAndPlain(t *testing.T, fast FastHandler, test func(t *testing.T, here, there *net.TCPConn)) {
	for _, isPlain := range []bool{false, true} {
		name := map[bool]string{false: "socket", true: "plain"}[isPlain]
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			accepting := &acceptor{Listener: l}
			l = accepting
			if isPlain {
				l = noSocketListener{l}
			}
			s, _, here, there := fastPairOn(t, l, Options{}, fast)
			_ = s.CheckApp().Handler()
			served := make(chan error, 1)
			go func() { served <- s.CheckApp().Server().ServeConn(here) }()
			tcp, _ := there.(*net.TCPConn)
			test(t, accepting.accepted, tcp)
			_ = there.Close()
			if err := <-served; err != nil && !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		})
	}
}

// The responses fill the buffers of both ends long before the client reads the first, and eight
// requests fill the read buffer.
func TestSlowReaderGetsAllAnswersInOrder(t *testing.T) {
	const requests, size = 2000, 16 << 10
	padding := strings.Repeat("a", 4096/8-len(fastRequestText)-len("User-Agent: \r\n"))
	request := fastLine + fastHeaders + "User-Agent: " + padding + "\r\n\r\n{}"
	answered := 0
	fast := func(c *FastCall) bool {
		c.Status, c.Answer = 200, append(c.Answer, bytes.Repeat([]byte{byte(answered)}, size)...)
		answered++
		return true
	}
	onSocketAndPlain(t, fast, func(t *testing.T, here, there *net.TCPConn) {
		answered = 0
		written := make(chan error, 1)
		go func() {
			_, err := there.Write(bytes.Repeat([]byte(request), requests))
			written <- err
		}()
		servers.Await(t, "the server's writes block", func() bool { return !isReady(t, here, unix.POLLOUT) })
		from, next := bufio.NewReader(there), 0
		for i := range requests {
			var got fasthttp.Response
			if err := got.Read(from); err != nil {
				t.Fatalf("answer %d: %v", i, err)
			}
			body := got.Body()
			if len(body) == len("plain") { // it arrived in two reads
				continue
			}
			if !bytes.Equal(body, bytes.Repeat([]byte{byte(next)}, size)) {
				t.Fatalf("answer %d has %d bytes, the first of them %d, want %d of %d", i, len(body), body[0], size, byte(next))
			}
			next++
		}
		if next == 0 {
			t.Error("no request was answered on the fast path")
		}
		if err := <-written; err != nil {
			t.Error(err)
		}
	})
}

func TestHalfClosedConnectionIsAnsweredAndClosed(t *testing.T) {
	onSocketAndPlain(t, answerFast, func(t *testing.T, _, there *net.TCPConn) {
		if _, err := io.WriteString(there, fastRequestText); err != nil {
			t.Fatal(err)
		}
		if err := there.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if all, err := io.ReadAll(there); err != nil || !bytes.HasSuffix(all, []byte("\r\n\r\nfast")) {
			t.Errorf("got %q, %v", all, err)
		}
	})
	onSocketAndPlain(t, answerFast, func(t *testing.T, _, there *net.TCPConn) {
		from := bufio.NewReader(there)
		for range 5 {
			if got := ask(t, there, from, fastRequestText); got != "fast" {
				t.Fatalf("got %q", got)
			}
		}
		if err := there.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if all, err := io.ReadAll(from); err != nil || len(all) > 0 {
			t.Errorf("got %q, %v", all, err)
		}
	})
	onSocketAndPlain(t, answerFast, func(t *testing.T, _, there *net.TCPConn) {
		from := bufio.NewReader(there)
		for range 5 {
			if got := ask(t, there, from, fastRequestText); got != "fast" {
				t.Fatalf("got %q", got)
			}
		}
		if _, err := io.WriteString(there, fastRequestText); err != nil {
			t.Fatal(err)
		}
		if err := there.CloseWrite(); err != nil { // most likely before the request is read
			t.Fatal(err)
		}
		if all, err := io.ReadAll(from); err != nil || !bytes.HasSuffix(all, []byte("\r\n\r\nfast")) {
			t.Errorf("got %q, %v", all, err)
		}
	})
}

func TestConnectionReturnsToTheFastPathAfterASplitRequest(t *testing.T) {
	onSocketAndPlain(t, answerFast, func(t *testing.T, here, there *net.TCPConn) {
		from := bufio.NewReader(there)
		for range 3 {
			for range 3 {
				if got := ask(t, there, from, fastRequestText); got != "fast" {
					t.Fatalf("got %q", got)
				}
			}
			if _, err := io.WriteString(there, fastRequestText[:20]); err != nil {
				t.Fatal(err)
			}
			servers.Await(t, "it is read separately", func() bool { return !isReady(t, here, unix.POLLIN) })
			if got := ask(t, there, from, fastRequestText[20:]); got != "plain" && got != "fast" {
				t.Fatalf("got %q", got)
			}
		}
	})
}
