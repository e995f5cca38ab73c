package client_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/testnode"
)

// lossyProxy is a proxy in front of a node. It drops the calls that a test chooses.
type lossyProxy struct {
	*httptest.Server
	calls atomic.Int64
	// lose returns what happens to the n-th call, counted from 1.
	lose func(n int64) fault
}

type fault int

const (
	none          fault = iota
	cutBefore           // the connection is cut before the server sees the call
	cutAfter            // the server has answered, and the connection is cut
	cutWithin           // half of the answer arrives
	badGateway          // a proxy's own 502
	unready             // 503 of a node that has not loaded
	garbage             // 200 with a page
	otherDecision       // a decision with the status of a block
	redirect
)

func lossy(t testing.TB, lose func(n int64) fault) *lossyProxy {
	t.Helper()
	return lossyTo(t, os.Getenv(testnode.CheckURL), lose)
}

// lossyTo returns a lossyProxy in front of another node.
func lossyTo(t testing.TB, node string, lose func(n int64) fault) *lossyProxy {
	t.Helper()
	to, err := url.Parse(node)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	w := &lossyProxy{lose: lose}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.serve(proxy, rw, r)
	}))
	t.Cleanup(w.Close)
	return w
}

func (w *lossyProxy) serve(proxy http.Handler, rw http.ResponseWriter, r *http.Request) {
	what := w.lose(w.calls.Add(1))
	switch what {
	case none:
		proxy.ServeHTTP(rw, r)
		return
	case cutBefore:
		panic(http.ErrAbortHandler)
	case badGateway:
		http.Error(rw, "bad gateway", http.StatusBadGateway)
		return
	case unready:
		rw.Header().Set("Content-Type", "application/problem+json")
		rw.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(rw, `{"type":"about:blank","title":"Service Unavailable","status":503,"code":"unavailable"}`)
		return
	case garbage:
		_, _ = io.WriteString(rw, "<html>welcome")
		return
	case redirect:
		http.Redirect(rw, r, "/elsewhere", http.StatusTemporaryRedirect)
		return
	}
	answer := httptest.NewRecorder()
	proxy.ServeHTTP(answer, r)
	switch what {
	case otherDecision:
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusForbidden)
		_, _ = rw.Write(answer.Body.Bytes())
		return
	case cutWithin:
		rw.Header().Set("Content-Type", "application/json")
		rw.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
		_, _ = rw.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
		_ = http.NewResponseController(rw).Flush()
	}
	panic(http.ErrAbortHandler)
}

// first makes the first n calls fail and lets the others pass.
func first(n int64, what fault) func(int64) fault {
	return func(call int64) fault {
		if call <= n {
			return what
		}
		return none
	}
}

func TestCheckIsRetriedAndChargedOnceAfterALostAnswer(t *testing.T) {
	for name, what := range map[string]fault{
		"before the server": cutBefore, "after the server charged": cutAfter, "within the answer": cutWithin,
		"a gateway's 502": badGateway, "a node that has not loaded": unready,
	} {
		t.Run(name, func(t *testing.T) {
			w, key := lossy(t, first(2, what)), fresh("user")
			d := ask(t, connectTo(t, w.URL), client.Check{Key: key})
			if !d.Allowed || w.calls.Load() != 3 {
				t.Errorf("got %+v after %d calls, want allowed after 3", d, w.calls.Load())
			}
			if served := what == cutAfter || what == cutWithin; d.Replayed != served {
				t.Errorf("Replayed is %v, want %v", d.Replayed, served)
			}
			if n := charged(t, key); n != 1 {
				t.Errorf("the key was charged %d times, want 1", n)
			}
		})
	}
}

func TestBatchIsChargedOnceAfterALostAnswer(t *testing.T) {
	w, a, b := lossy(t, first(1, cutAfter)), fresh("user"), fresh("user")
	items, err := connectTo(t, w.URL).Batch(t.Context(), []client.Check{{Key: a}, {Key: b, Cost: 2}, {Key: b, Cost: 2}})
	if err != nil || !items[0].Decision.Allowed || !items[1].Decision.Allowed || items[2].Decision.Allowed {
		t.Fatalf("got %+v, %v", items, err)
	}
	if charged(t, a) != 1 || charged(t, b) != 2 {
		t.Errorf("the keys were charged %d and %d, want 1 and 2", charged(t, a), charged(t, b))
	}
}

func TestChecksWithOneIdempotencyKeyAreChargedOnce(t *testing.T) {
	c, key := connect(t), fresh("user")
	for i := range 3 {
		d := ask(t, c, client.Check{Key: key, IdempotencyKey: "task-" + key})
		if !d.Allowed || d.Replayed != (i > 0) {
			t.Errorf("call %d: got %+v", i, d)
		}
	}
	if n := charged(t, key); n != 1 {
		t.Errorf("the key was charged %d times, want 1", n)
	}
}

func TestDecisionsAndProblemsAreNotRetried(t *testing.T) {
	w, key := lossy(t, first(0, none)), fresh("never")
	if d := ask(t, connectTo(t, w.URL), client.Check{Key: key}); d.Allowed || w.calls.Load() != 1 {
		t.Errorf("a refused check took %d calls, want 1: %+v", w.calls.Load(), d)
	}
	if _, err := connectTo(t, w.URL).Check(t.Context(), client.Check{}); err == nil || w.calls.Load() != 2 {
		t.Errorf("an invalid check: got %[2]v after %[1]d calls, want an error after 2", w.calls.Load(), err)
	}
}

func TestUnusableAnswersAreOutages(t *testing.T) {
	for name, test := range map[string]struct {
		what     fault
		attempts int
	}{
		"cut":            {cutBefore, 3},
		"502":            {badGateway, 3},
		"503":            {unready, 3},
		"a page":         {garbage, 1},
		"another status": {otherDecision, 1},
		"redirected":     {redirect, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := lossy(t, first(1000, test.what))
			d, err := connectTo(t, w.URL).Check(t.Context(), client.Check{Key: fresh("user")})
			var outage *client.OutageError
			if d != nil || !errors.As(err, &outage) || outage.Attempts != test.attempts || int(w.calls.Load()) != test.attempts {
				t.Errorf("got %+v, %v after %d calls, want an outage after %d", d, err, w.calls.Load(), test.attempts)
			}
			checkOutageModes(t, w.URL)
		})
	}
}

// checkOutageModes checks that a client decides in an outage at url as its mode says, and marks it.
func checkOutageModes(t *testing.T, url string, options ...client.Option) {
	t.Helper()
	q := client.Check{Key: fresh("user"), Policy: "users"}
	open := connectTo(t, url, append(options, client.WithOutage(client.FailOpen))...)
	d := ask(t, open, q)
	if !d.Allowed || d.Outcome != client.Allowed || !d.Degraded || d.Outage == nil || d.Key != q.Key || d.DegradedReason == "" {
		t.Errorf("Check failing open: got %+v", d)
	}
	items, err := open.Batch(t.Context(), []client.Check{q, q})
	if err != nil || len(items) != 2 || !items[1].Decision.Allowed || items[1].Decision.Outage == nil {
		t.Errorf("Batch failing open: got %+v, %v", items, err)
	}
	if d, err := open.Wait(t.Context(), q); err != nil || !d.Allowed || d.Outage == nil {
		t.Errorf("Wait failing open: got %+v, %v", d, err)
	}
	closed := connectTo(t, url, append(options, client.WithOutage(client.FailClosed))...)
	d = ask(t, closed, q)
	if d.Allowed || d.Outcome != client.Unavailable || !d.Degraded || d.Outage == nil || d.RetryAfter <= 0 {
		t.Errorf("Check failing closed: got %+v", d)
	}
	j, err := closed.CheckAll(t.Context(), client.CombinedCheck{Keys: []client.CombinedKey{{Key: "a"}, {Key: "b"}}})
	if err != nil || j.Allowed || j.Outage == nil {
		t.Errorf("CheckAll failing closed: got %+v, %v", j, err)
	}
	var refused *client.Refused
	if d, err := closed.Wait(t.Context(), q); d != nil || !errors.As(err, &refused) || refused.Decision.Outage == nil {
		t.Errorf("Wait failing closed: got %+v, %v", d, err)
	}
}

// listen accepts connections for the rest of the test and hands each to serve.
func listen(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	return "http://" + servers.Listen(t, func(conn net.Conn) {
		t.Cleanup(func() { conn.Close() })
		serve(conn)
	})
}

func TestBrokenServersAreOutages(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"cuts at once":  func(c net.Conn) { c.Close() },
		"never answers": func(net.Conn) {},
		"sends no HTTP": func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-OpenSSH\r\n\r\n") },
		"stalls within its answer": func(c net.Conn) {
			_, _ = bufio.NewReader(c).ReadString('\n')
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := listen(t, serve)
			checkOutageModes(t, url, client.WithTimeout(20*time.Millisecond), client.WithRetries(1))
			_, err := connectTo(t, url, client.WithTimeout(20*time.Millisecond)).Cancel(t.Context(), "a")
			var outage *client.OutageError
			if !errors.As(err, &outage) || outage.Attempts != 3 {
				t.Errorf("Cancel: got %v, want an outage after 3 attempts", err)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		checkOutageModes(t, "http://"+l.Addr().String())
	})
}

func TestCheckReturnsAnOutageAfterTheNodeIsKilled(t *testing.T) {
	n := testnode.Start(t)
	c := connectTo(t, n.Check)
	if d := ask(t, c, client.Check{Key: "user:a"}); !d.Allowed {
		t.Fatalf("Check of a running node: got %+v", d)
	}
	n.Kill()
	var outage *client.OutageError
	if _, err := c.Check(t.Context(), client.Check{Key: "user:a"}); !errors.As(err, &outage) {
		t.Errorf("Check of a killed node: got %v, want an outage", err)
	}
}

func TestCancelledContextIsNotAnOutage(t *testing.T) {
	arrived := make(chan bool, 10)
	url := listen(t, func(net.Conn) { arrived <- true })
	c := connectTo(t, url, client.WithOutage(client.FailOpen))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if d, err := c.Check(ctx, client.Check{Key: "user:a"}); d != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v", d, err)
	}
}

func TestErrorTextsContainNoControlCharacters(t *testing.T) {
	for _, err := range []error{
		&client.Problem{Status: 422, Detail: "a\x1b[31m\nb"},
		&client.Refused{Decision: &client.Decision{Key: "user:\x1b[31m\n", Rule: "1/s\n"}},
	} {
		if text := err.Error(); strings.ContainsAny(text, "\x1b\n") {
			t.Errorf("the error text has control characters: %q", text)
		}
	}
}
