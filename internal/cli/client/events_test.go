package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// The client must not wait for ever on a connection that was lost without being closed.
func TestEventsEndsASilentStream(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	for name, sent := range map[string]string{
		"before the answer": "", "after the head": head, "after an event": head + "event: block\ndata: {\"kind\":\"block\"}\n\n: still here\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := New("http://192.0.2.1:8081", "", "")
				if err != nil {
					t.Fatal(err)
				}
				here, there := net.Pipe()
				defer there.Close()
				c.conn.http.Transport = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return here, nil }}
				go func() {
					if _, err := there.Read(make([]byte, 4096)); err == nil && sent != "" {
						_, _ = there.Write([]byte(sent)) // it fails once the client has gone
					}
				}()
				received := 0
				var last error
				for event, err := range c.Events(t.Context(), nil, "", func() {}) {
					if last = err; err == nil && event.Kind == "block" {
						received++
					}
				}
				var unreachable *Unreachable
				if !errors.As(last, &unreachable) {
					t.Errorf("Events ended with %v, want Unreachable", last)
				}
				if want := strings.Count(sent, "event:"); received != want {
					t.Errorf("received %d events, want %d", received, want)
				}
				if sent != "" && !errors.Is(last, errSilent) {
					t.Errorf("Events ended because of %v, want errSilent", last)
				}
			})
		})
	}
}
