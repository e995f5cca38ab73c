package httpserver

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// noSocketListener hides the sockets of its connections, so that package net reads them.
type noSocketListener struct{ net.Listener }

func (l noSocketListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return struct{ net.Conn }{c}, err
}

// onSocketAndPlain runs a test on a connection whose socket is read directly and on one
// that is not.
func onSocketAndPlain(t *testing.T, fast FastHandler, test func(t *testing.T, there *net.TCPConn)) {
	for _, isPlain := range []bool{false, true} {
		name := map[bool]string{false: "socket", true: "plain"}[isPlain]
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			if isPlain {
				l = noSocketListener{l}
			}
			s, _, here, there := fastPairOn(t, l, Options{}, fast)
			_ = s.CheckApp().Handler()
			served := make(chan error, 1)
			go func() { served <- s.CheckApp().Server().ServeConn(here) }()
			tcp, _ := there.(*net.TCPConn)
			test(t, tcp)
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
	onSocketAndPlain(t, fast, func(t *testing.T, there *net.TCPConn) {
		answered = 0
		written := make(chan error, 1)
		go func() {
			_, err := there.Write(bytes.Repeat([]byte(request), requests))
			written <- err
		}()
		// The client reads nothing until the server's writes block.
		time.Sleep(50 * time.Millisecond)
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
	onSocketAndPlain(t, answerFast, func(t *testing.T, there *net.TCPConn) {
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
	onSocketAndPlain(t, answerFast, func(t *testing.T, there *net.TCPConn) {
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
	onSocketAndPlain(t, answerFast, func(t *testing.T, there *net.TCPConn) {
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
	onSocketAndPlain(t, answerFast, func(t *testing.T, there *net.TCPConn) {
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
			time.Sleep(20 * time.Millisecond) // most likely it is read separately
			if got := ask(t, there, from, fastRequestText[20:]); got != "plain" && got != "fast" {
				t.Fatalf("got %q", got)
			}
		}
	})
}
