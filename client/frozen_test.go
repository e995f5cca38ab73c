package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// relay passes bytes on between clients and a server until it is frozen: then those connections
// neither pass anything on nor end, as where a host is gone or a firewall has forgotten them.
// Connections that are made later work.
type relay struct {
	net.Listener
	to     string
	frozen atomic.Pointer[chan struct{}] // closed where the connections of now are frozen
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	r := &relay{Listener: l, to: to}
	r.freeze()
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", r.to)
			if err != nil {
				from.Close()
				continue
			}
			t.Cleanup(func() { from.Close(); to.Close() })
			frozen := *r.frozen.Load()
			go pass(to, from, frozen)
			go pass(from, to, frozen)
		}
	}()
	return r
}

// freeze freezes the connections that there are.
func (r *relay) freeze() {
	fresh := make(chan struct{})
	if before := r.frozen.Swap(&fresh); before != nil {
		close(*before)
	}
}

func pass(to io.WriteCloser, from io.Reader, frozen chan struct{}) {
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		select {
		case <-frozen:
			return
		default:
		}
		if err != nil {
			to.Close()
			return
		}
		_, _ = to.Write(b[:n]) // the next Read fails too
	}
}

// One connection of HTTP/2 carries all calls. A connection that is dead but was not closed must not
// fail all of them until the kernel gives it up, a quarter of an hour later.
func TestDeadHTTP2ConnectionIsReplaced(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the client speaks %s", r.Proto)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"decision":"allowed","allowed":true}`)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	front := newRelay(t, server.Listener.Addr().String())
	c, err := New("https://"+front.Addr().String(), WithTimeout(time.Second), WithRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	c.own.TLSClientConfig = &tls.Config{RootCAs: roots, ServerName: "example.com"}
	ask := func() error {
		_, err := c.Check(context.Background(), Check{Key: "user:alice"})
		return err
	}
	for began := time.Now(); ask() != nil; { // a busy machine may need more than a second
		if time.Since(began) > time.Minute {
			t.Fatal(ask())
		}
	}
	front.freeze()
	for began := time.Now(); ; {
		err := ask()
		if err == nil {
			return
		}
		var outage *OutageError
		if !errors.As(err, &outage) {
			t.Fatal(err)
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("after a minute the connection still fails: %v", err)
		}
	}
}
