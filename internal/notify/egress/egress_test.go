package egress

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/notify"
)

func TestRefusePrivate(t *testing.T) {
	for _, address := range []string{
		"127.0.0.1:80", "10.1.2.3:80", "172.16.0.1:80", "192.168.1.1:80", "169.254.169.254:80", "0.0.0.0:80",
		"100.64.0.1:80", "198.18.0.1:80", "224.0.0.1:80", "255.255.255.255:80",
		"[::1]:80", "[::]:80", "[fe80::1]:80", "[fd00::1]:80", "[::ffff:10.0.0.1]:80", "[64:ff9b::a00:1]:80", "[2002:a00:1::]:80",
		"168.63.129.16:80", "[2001:0:a00:1::1]:80", "[::a00:1]:80", "[fec0::1]:80",
	} {
		if refusePrivate(address) == nil {
			t.Errorf("refusePrivate(%s): got no error", address)
		}
	}
	for _, address := range []string{"203.0.113.7:443", "[2600::1]:443", "168.63.129.17:443", "[2001:4860::1]:443"} {
		if err := refusePrivate(address); err != nil {
			t.Errorf("refusePrivate(%s): got %v", address, err)
		}
	}
}

func TestPostRefusesLoopbackUnlessAllowed(t *testing.T) {
	called := false
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
	defer receiver.Close()
	err := New(Options{}).Post(t.Context(), receiver.URL+"/secret-token", "text/plain", nil, nil)
	if !notify.IsPermanent(err) || called || strings.Contains(err.Error(), "secret-token") {
		t.Errorf("Post to loopback: got %v, called %v, want a permanent error", err, called)
	}
	if err := New(Options{AllowPrivate: true}).Post(t.Context(), receiver.URL, "text/plain", nil, nil); err != nil || !called {
		t.Errorf("Post to loopback with AllowPrivate: got %v, called %v", err, called)
	}
}

func TestPostStatusDecidesWhetherToRetry(t *testing.T) {
	for status, want := range map[int]struct{ fails, permanent bool }{
		200: {false, false}, 204: {false, false},
		302: {true, true}, 404: {true, true}, 401: {true, true},
		408: {true, false}, 429: {true, false}, 500: {true, false}, 503: {true, false},
	} {
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		}))
		err := New(Options{AllowPrivate: true}).Post(t.Context(), receiver.URL, "text/plain", nil, nil)
		if (err != nil) != want.fails || notify.IsPermanent(err) != want.permanent {
			t.Errorf("status %d: got %v", status, err)
		}
		receiver.Close()
	}
}

func TestPostDoesNotFollowRedirects(t *testing.T) {
	var paths []string
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		http.Redirect(w, r, "/inside", http.StatusTemporaryRedirect)
	}))
	defer receiver.Close()
	_ = New(Options{AllowPrivate: true}).Post(t.Context(), receiver.URL+"/hook", "text/plain", []byte("x"), nil)
	if len(paths) != 1 || paths[0] != "/hook" {
		t.Errorf("the receiver was called at %v, want /hook only", paths)
	}
}

func TestPostErrorDoesNotContainTheURL(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, url := range []string{"http://127.0.0.1:1/secret", "::bad secret::"} {
		err := New(Options{AllowPrivate: true}).Post(ctx, url, "text/plain", nil, nil)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v", err)
		}
	}
}

// A server that is no receiver of messages, such as one that echoes requests, must not make a
// secret of the URL a part of the error: readers of notifications may see errors.
func TestPostErrorDoesNotRepeatTheAnswer(t *testing.T) {
	for _, answer := range []string{
		"POST /secret HTTP/1.1\r\n\r\n", "HTTP/1.1 secret\r\n\r\n", "HTTP/secret 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nsecret\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: secret\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: secret\r\n\r\n", "secret",
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		}()
		err = New(Options{AllowPrivate: true}).Post(t.Context(), "http://"+listener.Addr().String()+"/secret", "text/plain", []byte("x"), nil)
		if err == nil || strings.Contains(err.Error(), "secret") || notify.IsPermanent(err) {
			t.Errorf("answer %q: got %v", answer, err)
		}
		listener.Close()
	}
}

func TestPostErrorSaysWhyTheReceiverIsUnreachable(t *testing.T) {
	receiver := httptest.NewTLSServer(http.NotFoundHandler())
	defer receiver.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for url, want := range map[string]string{
		"http://127.0.0.1:1/": "refused", receiver.URL: "certificate", "https" + strings.TrimPrefix(plain.URL, "http"): "HTTP response to HTTPS client",
	} {
		if err := New(Options{AllowPrivate: true}).Post(t.Context(), url, "text/plain", nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", url, err, want)
		}
	}
}

func TestPostErrorSaysThatTheReceiverIsSilent(t *testing.T) {
	end := make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
	defer receiver.Close()
	defer close(end)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	err := New(Options{AllowPrivate: true}).Post(ctx, receiver.URL, "text/plain", nil, nil)
	if err == nil || err.Error() != "the receiver did not answer in time" || notify.IsPermanent(err) {
		t.Errorf("got %v", err)
	}
}
