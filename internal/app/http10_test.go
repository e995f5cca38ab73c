package app

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/httpserver"
)

// No route uses the chunked coding for a client of HTTP/1.0, which does not know it. Without a
// length, the body ends with the connection.
func TestNoRouteSendsChunksToHTTP10(t *testing.T) {
	a := startApp(t)
	_, made := send(t, a.AdminAddr(), bearer(edgeToken), http.MethodPost, "/v1/tokens", `{"name":"bouncer","scopes":["bouncer"]}`)
	var bouncer struct{ Secret string }
	if err := json.Unmarshal([]byte(made), &bouncer); err != nil || bouncer.Secret == "" {
		t.Fatalf("got %s, %v, want a token", made, err)
	}
	streams := map[string]bool{}
	for _, r := range a.server.Routes() {
		if r.Method != http.MethodGet && r.Method != httpserver.AnyMethod {
			continue
		}
		address := a.AdminAddr()
		if r.Listener == httpserver.Checks {
			address = a.CheckAddr()
		}
		for _, query := range []string{"", "?format=csv", "?format=ndjson"} {
			for _, headers := range []string{"", "Connection: keep-alive\r\n"} {
				path := pathOf(r, "default")
				if slices.Contains(bouncerPaths, r.Path) {
					headers += "X-Api-Key: " + bouncer.Secret + "\r\n"
				} else {
					headers += "Authorization: Bearer " + edgeToken + "\r\n"
				}
				if strings.Contains(path, "?") && query != "" || strings.HasPrefix(path, "/debug/") && query != "" {
					continue
				}
				answer, err := askHTTP10(address, "GET "+path+query, headers)
				switch {
				case err != nil:
					t.Errorf("GET %s%s: %v", path, query, err)
				case answer.TransferEncoding != nil || answer.ContentLength < 0 && !answer.Close:
					t.Errorf("GET %s%s, %q: got the coding %v and the headers %v", path, query, headers, answer.TransferEncoding, answer.Header)
				case answer.ContentLength < 0 && answer.StatusCode == http.StatusOK:
					streams[r.Path] = true
					if head, err := askHTTP10(address, "HEAD "+path+query, headers); err != nil || head.TransferEncoding != nil {
						t.Errorf("HEAD %s%s: got %+v, %v", path, query, head, err)
					}
				}
			}
		}
	}
	for _, want := range []string{"/v1/events", "/v1/blocks/export", "/v1/exemptions/export", "/v1/audit/export", "/v1/offenders/export", "/v1/profiles/export", "/v1/backup", "/v1/decisions/stream", "/blocks/export", "/audit/export"} {
		if !streams[want] {
			t.Errorf("%s is not among the routes that stream: %v", want, streams)
		}
	}
}

// askHTTP10 reads a response to its end, of a stream of events only the beginning.
func askHTTP10(address net.Addr, line, headers string) (*http.Response, error) {
	conn, err := net.Dial("tcp", address.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "%s HTTP/1.0\r\nHost: localhost\r\n%s\r\n", line, headers); err != nil {
		return nil, err
	}
	method, _, _ := strings.Cut(line, " ")
	answer, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return nil, err
	}
	if method == http.MethodGet && answer.StatusCode == http.StatusOK && strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		const begin = ": stint events\n\n"
		got := make([]byte, len(begin))
		if _, err := io.ReadFull(answer.Body, got); err != nil || string(got) != begin {
			return nil, fmt.Errorf("got %q, %w", got, err)
		}
		return answer, nil
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return answer, err
}
