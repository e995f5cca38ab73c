package httpserver_test

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// pieces is a body whose pieces come when the test sends them.
type pieces struct{ in chan string }

func (p *pieces) Next() ([]*httpserver.Piece, error) {
	text, open := <-p.in
	if !open {
		return nil, io.EOF
	}
	return []*httpserver.Piece{httpserver.NewPiece([]byte(text))}, nil
}

func (p *pieces) Close() error { return nil }

func TestAnswersWithoutSecretsAreCompressed(t *testing.T) {
	long := strings.Repeat("ip:203.0.113.7,12,", 200)
	live := &pieces{in: make(chan string)}
	send := func(kind, text string) httpserver.Handler {
		return func(c *httpserver.Call) error {
			c.Set(fiber.HeaderContentType, kind)
			return c.SendString(text)
		}
	}
	file := func(failed error) httpserver.Handler {
		return func(c *httpserver.Call) error {
			return httpserver.Stream(c, "text/csv; charset=utf-8", "a.csv", func(_ context.Context, w io.Writer) error {
				_, err := io.WriteString(w, long)
				return errors.Join(err, failed)
			})
		}
	}
	route := func(listener httpserver.Listener, method, path string, h httpserver.Handler) httpserver.Route {
		return httpserver.Route{Listener: listener, Method: method, Path: path, Access: identity.Public, Handler: h}
	}
	server := httpserver.New(httpserver.Options{}, []httpserver.Route{
		route(httpserver.Admin, "GET", "/json", send("application/json", long)),
		route(httpserver.Admin, "GET", "/short", send("application/json", "short")),
		route(httpserver.Admin, "GET", "/page", send("text/html; charset=utf-8", long)),
		route(httpserver.Admin, "GET", "/database", send("application/octet-stream", long)),
		route(httpserver.Admin, "POST", "/token", send("application/json", long)),
		route(httpserver.Admin, "GET", "/file", file(nil)),
		route(httpserver.Admin, "GET", "/half", file(errors.New("the disk is full"))),
		route(httpserver.Checks, "GET", "/check", send("application/json", long)),
		route(httpserver.Admin, "GET", "/versioned", func(c *httpserver.Call) error {
			c.Set(fiber.HeaderETag, `"1"`)
			return send("application/json", long)(c)
		}),
		route(httpserver.Admin, "GET", "/live", func(c *httpserver.Call) error {
			c.Set(fiber.HeaderContentType, "text/event-stream")
			c.SendPieces(live)
			return nil
		}),
	})
	urls := map[string]string{}
	for name, app := range map[string]*fiber.App{"admin": server.AdminApp(), "checks": server.CheckApp()} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go app.Listener(l)
		t.Cleanup(func() { app.ShutdownWithTimeout(time.Second) })
		urls[name] = "http://" + l.Addr().String()
	}
	ask := func(listener, method, path, accepts string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, urls[listener]+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", accepts)
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { got.Body.Close() })
		return got
	}
	for _, tt := range []struct {
		name, listener, method, path, accepts string
		compressed                            bool
	}{
		{"JSON", "admin", "GET", "/json", "gzip", true},
		{"JSON for a client that prefers another encoding", "admin", "GET", "/json", "br, deflate;q=0.5, GZIP;q=0.1", true},
		{"a page", "admin", "GET", "/page", "gzip, deflate", true},
		{"a file that is streamed", "admin", "GET", "/file", "gzip", true},
		{"JSON for a client without gzip", "admin", "GET", "/json", "", false},
		{"JSON for a client that refuses gzip", "admin", "GET", "/json", "gzip;q=0, identity", false},
		{"JSON for a client that refuses gzip with q=0.000", "admin", "GET", "/json", "gzip; q=0.000", false},
		{"a file for a client without gzip", "admin", "GET", "/file", "br", false},
		{"a short answer", "admin", "GET", "/short", "gzip", false},
		{"a backup", "admin", "GET", "/database", "gzip", false},
		{"an answer that shows a new secret", "admin", "POST", "/token", "gzip", false},
		{"an answer whose ETag names its bytes", "admin", "GET", "/versioned", "gzip", false},
		{"an answer of the check listener", "checks", "GET", "/check", "gzip", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ask(tt.listener, tt.method, tt.path, tt.accepts)
			var body io.Reader = got.Body
			if encoding := got.Header.Get("Content-Encoding"); (encoding == "gzip") != tt.compressed || encoding != "" && encoding != "gzip" {
				t.Fatalf("got the encoding %q, want gzip %v", encoding, tt.compressed)
			}
			if tt.compressed {
				unpacked, err := gzip.NewReader(got.Body)
				if err != nil {
					t.Fatal(err)
				}
				body = unpacked
			}
			if text, err := io.ReadAll(body); err != nil || string(text) != long && string(text) != "short" {
				t.Errorf("got %d bytes, error %v", len(text), err)
			}
		})
	}
	t.Run("a file that failed is truncated", func(t *testing.T) {
		unpacked, err := gzip.NewReader(ask("admin", "GET", "/half", "gzip").Body)
		if err == nil {
			_, err = io.Copy(io.Discard, unpacked)
		}
		if err == nil {
			t.Error("the truncated file is read without an error")
		}
	})
	t.Run("each event arrives before the next is sent", func(t *testing.T) {
		go func() { live.in <- "event 0\n" }()
		unpacked, err := gzip.NewReader(ask("admin", "GET", "/live", "gzip").Body)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len("event 0\n"))
		for i := range 3 {
			if _, err := io.ReadFull(unpacked, got); err != nil || got[6] != byte('0'+i) {
				t.Fatalf("got %q, error %v", got, err)
			}
			if i < 2 {
				live.in <- "event " + string(rune('1'+i)) + "\n"
			}
		}
		close(live.in)
		if _, err := unpacked.Read(got); !errors.Is(err, io.EOF) {
			t.Errorf("at the end: got %v, want io.EOF", err)
		}
	})
}
