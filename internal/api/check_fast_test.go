package api

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// usual is a check in the common form, with more headers.
func usual(headers, body string) string {
	return "POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n" + headers +
		fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func checkOf(body string) string { return usual("", body) }

func settleOf(body string) string {
	return strings.Replace(checkOf(body), "/v1/check", "/v1/holds/{hold}", 1)
}

// conversation is the bytes that a client sends on one connection. {token} is a token with the scope
// check, {read} one without it, and {hold} the handle of a new hold of 5.
type conversation struct {
	what, sent string
	fast       int64 // how many of its requests the fast path answers on an open node
}

var conversations = []conversation{
	{"one key", checkOf(`{"key":"free:1"}`), 1},
	{"one key, no detail", checkOf(`{"key":"free:1","detail":"none"}`), 1},
	{"every field", checkOf(`{"key":"free:2","cost":2,"detail":"rules","source":"shop","meta":{"a":"b"},"idempotency_key":"one","request":{"method":"GET","path":"/a"}}`), 1},
	{"allowed until refused, in one piece", strings.Repeat(checkOf(`{"key":"tight:1"}`), 4), 4},
	{"refused for longer than its wait", strings.Repeat(checkOf(`{"key":"tight:2","max_wait":"10ms"}`), 3), 3},
	{"reserved", strings.Repeat(checkOf(`{"key":"tight:3","max_wait":"100s"}`), 3), 3},
	{"a peek", checkOf(`{"key":"tight:1","peek":true}`), 1},
	{"blocked", checkOf(`{"key":"bad:1"}`), 1},
	{"exempt from a block", checkOf(`{"key":"bad:good"}`), 1},
	{"an address", checkOf(`{"key":"ip:2001:db8:0:0::1"}`), 1},
	{"a policy by name", checkOf(`{"key":"free:3","policy":"tight"}`), 1},
	{"the request's own id", usual("X-Request-Id: abcd-1234_EFGH\r\n", `{"key":"free:1"}`), 1},
	{"headers of a browser's fetch", usual("Connection: keep-alive\r\nAccept: */*\r\nAccept-Language: *\r\nSec-Fetch-Mode: cors\r\nUser-Agent: node\r\nAccept-Encoding: br, gzip\r\n", `{"key":"free:1"}`), 1},
	{"headers in other letters", "POST /v1/check HTTP/1.1\r\nhOST: localhost\r\ncontent-TYPE: Application/JSON; charset=UTF-8\r\ncontent-length: 16\r\n\r\n{\"key\":\"free:1\"}", 1},
	{"a token that is not required", usual("Authorization: Bearer {token}\r\n", `{"key":"free:1"}`), 1},
	{"a token of another scope", usual("Authorization: Bearer {read}\r\n", `{"key":"free:1"}`), 1},
	{"a wrong token", usual("Authorization: Bearer stint_check_wrong\r\n", `{"key":"free:1"}`), 1},
	{"another scheme", usual("Authorization: Basic {token}\r\n", `{"key":"free:1"}`), 1},
	{"fast, slow, fast", checkOf(`{"key":"free:1"}`) + checkOf(`{"keys":["free:1","free:2"]}`) + checkOf(`{"key":"free:1"}`), 1},

	{"a hold settled", settleOf(`{"cost":3}`), 1},
	{"a hold settled with more", settleOf(`{"cost": 12}`), 1},
	{"a hold settled as it was held", settleOf(`{}`), 1},
	{"a hold released", settleOf(`{"cost":0}`), 1},
	{"a hold settled twice", settleOf(`{"cost":3}`) + settleOf(`{"cost":3}`), 2},
	{"a hold settled again with another cost", settleOf(`{"cost":3}`) + settleOf(`{"cost":4}`), 1},
	{"a hold settled, with a token that is not required", strings.Replace(settleOf(`{"cost":3}`), "Content-Type", "Authorization: Bearer {token}\r\nContent-Type", 1), 1},
	{"no hold", strings.Replace(settleOf(`{"cost":3}`), "{hold}", "abc", 1), 0},
	{"a hold with an escaped handle", strings.Replace(settleOf(`{"cost":3}`), "{hold}", "%7bhold%7d", 1), 0},
	{"a hold settled with a number that JSON does not know", settleOf(`{"cost":03}`), 0},
	{"a hold settled with too much", settleOf(`{"cost":9000000000000000}`), 0},
	{"a hold renewed", strings.Replace(settleOf(`{"hold":"10m"}`), "{hold}", "{hold}/extend", 1), 0},

	{"two tokens", usual("Authorization: Bearer {token}\r\nAuthorization: Bearer {token}\r\n", `{"key":"free:1"}`), 0},
	{"an id that is not plain", usual("X-Request-Id: a b c d e f g\r\n", `{"key":"free:1"}`), 0},
	{"two ids", usual("X-Request-Id: abcdefgh\r\nX-Request-Id: ijklmnop\r\n", `{"key":"free:1"}`), 0},
	{"a header that is not known", usual("X-Forwarded-For: 203.0.113.9\r\n", `{"key":"free:1"}`), 0},
	{"a trace", usual("Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00\r\n", `{"key":"free:1"}`), 0},
	{"the connection's end", usual("Connection: close\r\n", `{"key":"free:1"}`), 0},
	{"continue", usual("Expect: 100-continue\r\n", `{"key":"free:1"}`), 0},
	{"a coding", usual("Content-Encoding: gzip\r\n", `{"key":"free:1"}`), 0},
	{"in chunks", "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{\"key\":\"free:1\"}\r\n0\r\n\r\n", 0},
	{"several keys", checkOf(`{"keys":["free:1","tight:9"]}`), 0},
	{"HTTP/1.0", "POST /v1/check HTTP/1.0\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"key\":\"free:1\"}", 0},
	{"a query", "POST /v1/check?a=b HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"key\":\"free:1\"}", 0},
	{"another path", "POST /v1/checks HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"key\":\"free:1\"}", 0},
	{"another method", "PUT /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"key\":\"free:1\"}", 0},
	{"a whole URL", "POST http://a/v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"key\":\"free:1\"}", 0},
	{"no host", "POST /v1/check HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"key\":\"free:1\"}", 0},
	{"two hosts", "POST /v1/check HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"key\":\"free:1\"}", 0},
	{"a host with a path", "POST /v1/check HTTP/1.1\r\nHost: a/b\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"key\":\"free:1\"}", 0},
	{"another host", "POST /v1/check HTTP/1.1\r\nHost: rebound.example\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"key\":\"free:1\"}", 1},
	{"no type", "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 16\r\n\r\n{\"key\":\"free:1\"}", 0},
	{"a form", "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 16\r\n\r\n{\"key\":\"free:1\"}", 0},
	{"two types", "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Type: text/plain\r\nContent-Length: 16\r\n\r\n{\"key\":\"free:1\"}", 0},
	{"two lengths", "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 16\r\nContent-Length: 16\r\n\r\n{\"key\":\"free:1\"}", 0},
	{"a length with a sign", "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: +16\r\n\r\n{\"key\":\"free:1\"}", 0},
	{"a length with a zero", "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 016\r\n\r\n{\"key\":\"free:1\"}", 0},
	{"a length that is too long", "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n{\"key\":\"free:1\"}", 0},
	{"a length and chunks", "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nContent-Length: 16\r\n\r\n{\"key\":\"free:1\"}", 0},
	{"a body that is longer", "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"key\":\"free:1\"}", 0},
	{"more after the body", checkOf(`{"key":"free:1"}`) + "x", 1},
	{"an empty line before", "\r\n" + checkOf(`{"key":"free:1"}`), 0},
	{"an empty line between", checkOf(`{"key":"free:1"}`) + "\r\n" + checkOf(`{"key":"free:1"}`), 1},
	{"a bare LF", strings.ReplaceAll(checkOf(`{"key":"free:1"}`), "\r\n", "\n"), 0},
	{"one bare LF", "POST /v1/check HTTP/1.1\r\nHost: a\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"key\":\"free:1\"}", 0},
	{"a folded header", usual("Accept: a\r\n b\r\n", `{"key":"free:1"}`), 0},
	{"a space before the colon", usual("Accept : a\r\n", `{"key":"free:1"}`), 0},
	{"no colon", usual("Accept\r\n", `{"key":"free:1"}`), 0},
	{"a control character", usual("Accept: a\x01\r\n", `{"key":"free:1"}`), 0},
	{"a letter beyond ASCII", usual("User-Agent: ü\r\n", `{"key":"free:1"}`), 0},
	{"an empty header", usual("Accept:\r\n", `{"key":"free:1"}`), 0},
	{"no body", "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n", 0},
	{"no JSON", checkOf(`key=free:1`), 0},
	{"a field twice", checkOf(`{"key":"free:1","key":"free:2"}`), 0},
	{"an unknown field", checkOf(`{"key":"free:1","keyy":"x"}`), 0},
	{"no key", checkOf(`{}`), 0},
	{"a bad key", checkOf(`{"key":""}`), 0},
	{"a bad address", checkOf(`{"key":"ip:1.2.3"}`), 0},
	{"an escape", checkOf(`{"key":"free:\u0031"}`), 0},
	{"a cost that never fits", checkOf(`{"key":"tight:1","cost":3}`), 0},
	{"a policy that does not exist", checkOf(`{"key":"free:1","policy":"none"}`), 0},
	{"a long body", checkOf(`{"key":"free:1"` + strings.Repeat(" ", 70_000) + "}"), 0},
	{"a long header", usual("User-Agent: "+strings.Repeat("a", 20_000)+"\r\n", `{"key":"free:1"}`), 0},
}

// random matches the parts that differ between nodes or responses.
var random = regexp.MustCompile(`X-Request-Id: [A-Z2-7]{26}|X-Stint-Refusal-Id: [^\r]*|"request_id":"[A-Z2-7]{26}"|request_id=[A-Z2-7]{26}|Date: [^\r]*|"id":"[^"]*"|"handle":"[^"]*"|took=\S+|time=\S+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func masked(text string) string {
	return random.ReplaceAllStringFunc(text, func(found string) string {
		return found[:strings.IndexAny(found, ":=")+1] + "*"
	})
}

// talk sends bytes in pieces on one connection, each after the server has read the previous
// ones, and returns everything that is answered.
func (r *recorded) talk(t *testing.T, pieces ...string) string {
	t.Helper()
	r.received.begin()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.check, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sent := 0
	for i, piece := range pieces {
		n, err := io.WriteString(conn, piece)
		if err != nil {
			t.Logf("the server closed the connection during the write: %v", err)
		}
		if sent += n; i < len(pieces)-1 && err == nil {
			r.received.await(t, sent)
		}
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	all, _ := io.ReadAll(conn) // also if the connection was cut
	return string(all)
}

// received counts the bytes that the first connection of a listener has read since begin.
type received struct {
	net.Listener
	mu    sync.Mutex
	conn  *receivedConn // nil until it is accepted
	bytes int
	ended bool // the server closed it
}

func (r *received) listen(l net.Listener) net.Listener {
	r.Listener = l
	return r
}

func (r *received) Accept() (net.Conn, error) {
	accepted, err := r.Listener.Accept()
	c := &receivedConn{accepted, r}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn == nil && err == nil {
		r.conn = c
	}
	return c, err
}

type receivedConn struct {
	net.Conn
	counted *received
}

func (c *receivedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.counted.mu.Lock()
	defer c.counted.mu.Unlock()
	if c.counted.conn == c {
		c.counted.bytes += n
	}
	return n, err
}

func (c *receivedConn) Close() error {
	c.counted.mu.Lock()
	defer c.counted.mu.Unlock()
	c.counted.ended = c.counted.ended || c.counted.conn == c
	return c.Conn.Close()
}

func (r *received) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conn, r.bytes, r.ended = nil, 0, false
}

// await waits until that many bytes were read, or no more will be.
func (r *received) await(t *testing.T, bytes int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Microsecond) {
		r.mu.Lock()
		done := r.bytes >= bytes || r.ended
		r.mu.Unlock()
		if done {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the server did not read %d bytes within a minute", bytes)
		}
	}
}

// recorded is a node and its measurements and logs of requests.
type recorded struct {
	*testNode
	received received
	mu       sync.Mutex
	observed []string
	fast     atomic.Int64
}

// reset clears the measurements and logs, and returns them.
func (r *recorded) reset() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := strings.Join(r.observed, "\n") + "\n" + masked(r.logged.String())
	r.observed = nil
	r.logged.Reset()
	return text
}

// startPair starts two nodes that are equal, except that the second has no fast path.
func startPair(t *testing.T, change func(*nodeParts)) (fast, plain *recorded) {
	t.Helper()
	both := [2]*recorded{}
	for i := range both {
		r := &recorded{}
		r.testNode = startNode(t, func(p *nodeParts) {
			p.Plain, p.Listen = i == 1, r.received.listen
			p.Server.Observe = func(a *httpserver.Answered) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.observed = append(r.observed, fmt.Sprint(a.Route.Method, a.Route.Path, a.Status, a.Outcome, a.TraceID, len(a.RequestID) > 0, !a.Read.IsZero(), a.Took > 0))
			}
			p.Change = func(route *httpserver.Route) {
				if answer := route.Fast; answer != nil {
					route.Fast = func(c *httpserver.FastCall) bool {
						answered := answer(c)
						if answered {
							r.fast.Add(1)
						}
						return answered
					}
				}
			}
			change(p)
		})
		putPolicy(r.testNode, "spend", `{"match":["spend:*"],"rules":["1M tokens/1h"],"hold":"10m"}`)
		for name, rule := range map[string]string{"free": "1000/m", "tight": "2/m"} {
			putPolicy(r.testNode, name, fmt.Sprintf(`{"match":[%q],"rules":[%q,"5000/h"]}`, name+":*", rule))
		}
		r.must(r.as(identity.Operate, "POST", wire.PathBlocks, `{"literal":true,"pattern":"bad:*","reason":"they attack","confirm":"bad:*"}`), 201)
		r.must(r.as(identity.Operate, "POST", wire.PathExemptions, `{"literal":true,"pattern":"bad:good","reason":"ours"}`), 201)
		r.reset()
		both[i] = r
	}
	return both[0], both[1]
}

func TestFastPathOfChecksMatchesPlainVersion(t *testing.T) {
	open := func(*nodeParts) {}
	for _, setting := range []struct {
		what   string
		change func(*nodeParts)
	}{
		{"open", open},
		{"with tokens", func(p *nodeParts) { p.Server.CheckAuth = true }},
		{"under few host names", func(p *nodeParts) {
			p.Server.CheckHosts = func() *httpserver.AllowedHosts { return &httpserver.AllowedHosts{} }
		}},
		{"with a log of all checks", func(p *nodeParts) { p.Server.CheckLogRatio = 1 }},
	} {
		t.Run(setting.what, func(t *testing.T) {
			fast, plain := startPair(t, setting.change)
			converse(t, fast, plain, conversations, setting.what == "open")
		})
	}
}

// converse compares the responses of both nodes to conversations. If the nodes are open, it
// also sends the conversations in pieces, and checks how many requests the fast path answers.
func converse(t *testing.T, fast, plain *recorded, conversations []conversation, isOpen bool) {
	t.Helper()
	for _, c := range conversations {
		before := fast.fast.Load()
		compare(t, c.what, fast, plain, c.sent)
		if !isOpen {
			continue
		}
		if answered := fast.fast.Load() - before; answered != c.fast {
			t.Errorf("%s: the fast path answered %d requests, want %d", c.what, answered, c.fast)
		}
		for _, split := range []int{1, 36, 60, len(c.sent) - 1} {
			if split < len(c.sent) {
				compare(t, c.what, fast, plain, c.sent[:split], c.sent[split:])
			}
		}
	}
	if fast.fast.Load() == 0 || plain.fast.Load() > 0 {
		t.Errorf("the fast path answered %d and %d requests, want some and none", fast.fast.Load(), plain.fast.Load())
	}
}

// compare sends the same bytes to both nodes and compares all responses, measurements and logs.
func compare(t *testing.T, what string, fast, plain *recorded, pieces ...string) {
	t.Helper()
	var got [2]string
	for i, n := range []*recorded{fast, plain} {
		filled := make([]string, len(pieces))
		hold := ""
		if strings.Contains(pieces[0]+pieces[len(pieces)-1], "{hold}") {
			before := n.fast.Load()
			hold = read[wire.Decision](t, n.must(n.send("POST", n.check+wire.PathCheck, `{"key":"spend:1","cost":5}`, "Authorization: Bearer "+n.tokens[identity.Check]), 200)).Hold.Handle
			n.fast.Store(before)
			n.reset()
		}
		for j, piece := range pieces {
			filled[j] = strings.NewReplacer("{token}", n.tokens[identity.Check], "{read}", n.tokens[identity.Read], "{hold}", hold).Replace(piece)
		}
		got[i] = masked(n.talk(t, filled...))
	}
	for i, n := range []*recorded{fast, plain} {
		got[i] += "\n" + n.reset()
	}
	if got[0] != got[1] {
		t.Errorf("%s, in %d pieces:\n%q\nthe plain version:\n%q", what, len(pieces), got[0], got[1])
	}
}
