package httpserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/klauspost/compress/gzip"

	"github.com/stint-dev/stint/internal/identity"
)

// A client of HTTP/1.0 does not know the chunked coding: what is streamed for it ends with the
// connection, which is reset if the body is incomplete.
func TestStreamsForHTTP10EndWithTheConnection(t *testing.T) {
	long := strings.Repeat("ip:203.0.113.7,12\n", 2000)
	file := func(failed error) Handler {
		return func(c *Call) error {
			return Stream(c, "text/csv; charset=utf-8", "a.csv", func(_ context.Context, w io.Writer) error {
				_, err := io.WriteString(w, long)
				return errors.Join(err, failed)
			})
		}
	}
	confirmed := func(failed error) Handler {
		return func(c *Call) error {
			return StreamConfirmed(c, "text/csv", func(_ context.Context, w io.Writer) error {
				_, err := io.WriteString(w, long)
				return err
			}, func() error { return failed })
		}
	}
	live := func(cut bool) Handler {
		return func(c *Call) error {
			c.Set(fiber.HeaderContentType, "text/event-stream")
			all := []*Piece{NewPiece([]byte(long)), NewPiece([]byte(long))}
			c.SendPieces(&batches{all: all, size: 1, cut: cut})
			return nil
		}
	}
	broken := errors.New("the disk is full")
	routes := []struct {
		path    string
		handler Handler
		want    string
		whole   bool
	}{
		{"/file", file(nil), long, true}, {"/half", file(broken), long, false},
		{"/confirmed", confirmed(nil), long, true}, {"/unconfirmed", confirmed(broken), long, false},
		{"/live", live(false), long + long, true}, {"/cut", live(true), long + long, false},
	}
	var table []Route
	for _, r := range routes {
		table = append(table, Route{Listener: Admin, Method: "GET", Path: r.path, Access: identity.Public, Handler: r.handler})
	}
	s := New(Options{}, table)
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	dial := map[string]func() (net.Conn, error){}
	for _, kind := range []string{"plain", "TLS"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		dial[kind] = func() (net.Conn, error) { return net.Dial("tcp", address) }
		if kind == "TLS" {
			l = tls.NewListener(l, certified.TLS)
			roots := certified.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
			dial[kind] = func() (net.Conn, error) {
				return tls.Dial("tcp", address, &tls.Config{RootCAs: roots, ServerName: "example.com"})
			}
		}
		framing := FramingListener(l, nil)
		served := make(chan error, 1)
		go func() { served <- s.AdminApp().Server().Serve(framing) }()
		defer func() { _ = framing.Close(); <-served }()
	}
	_ = s.AdminApp().Handler() // fiber gets ready
	for kind, dial := range dial {
		for _, r := range routes {
			for _, version := range []string{"HTTP/1.0", "HTTP/1.1"} {
				for _, more := range []string{"", "Connection: keep-alive\r\n", "Accept-Encoding: gzip\r\n"} {
					t.Run(fmt.Sprintf("%s %s %s %q", kind, r.path, version, more), func(t *testing.T) {
						got, header, err := readStream(t, dial, r.path, version, more)
						if header == nil { // a reset may overtake what was sent before it
							if r.whole || version != "HTTP/1.0" {
								t.Error(err)
							}
							return
						}
						if is10 := version == "HTTP/1.0"; is10 && (header.TransferEncoding != nil || header.ContentLength >= 0 || !header.Close) || !is10 && header.TransferEncoding == nil {
							t.Errorf("got the coding %v, the length %d and the headers %v", header.TransferEncoding, header.ContentLength, header.Header)
						}
						if r.whole && (err != nil || got != r.want) {
							t.Errorf("got %d bytes, %v, want %d", len(got), err, len(r.want))
						}
						if !r.whole && (err == nil || !strings.HasPrefix(r.want, got)) {
							t.Errorf("got %d bytes and no error of an incomplete response", len(got))
						}
					})
				}
			}
		}
	}
}

// readStream returns the body that a client reads, the headers, nil for none, and the error at
// its end.
func readStream(t *testing.T, dial func() (net.Conn, error), path, version, more string) (string, *http.Response, error) {
	conn, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "GET %s %s\r\nHost: a\r\n%s\r\n", path, version, more); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", nil, err
	}
	body := io.Reader(response.Body)
	if response.Header.Get("Content-Encoding") == "gzip" {
		// gzip has an end mark of its own, so that the error must be that of the connection.
		packed, err := io.ReadAll(response.Body)
		if err != nil {
			return "", response, err
		}
		if body, err = gzip.NewReader(strings.NewReader(string(packed))); err != nil {
			return "", response, err
		}
	}
	text, err := io.ReadAll(body)
	return string(text), response, err
}
