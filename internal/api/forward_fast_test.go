package api

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/doors/forwardauth"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/proxies"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/wire"
)

// forwarded is a gateway's request with a query, "" for none, and its client's headers.
func forwarded(query string, headers ...string) string { return forwardedAs("GET", query, headers...) }

func forwardedAs(method, query string, headers ...string) string {
	return method + " /v1/forward" + query + " HTTP/1.1\r\nHost: shop.example\r\n" + strings.Join(append(headers, "", ""), "\r\n")
}

// browser are the headers of a browser, as nginx forwards them.
var browser = []string{
	"X-Real-IP: 198.51.100.7", "X-Forwarded-For: 198.51.100.7", "X-Forwarded-Proto: https", "X-Forwarded-Host: shop.example", "X-Forwarded-Uri: /cart?a=b",
	"X-Forwarded-Method: POST", "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Accept: text/html,application/xhtml+xml,*/*;q=0.8",
	"Accept-Language: en-US,en;q=0.5", "Accept-Encoding: gzip, deflate, br, zstd", "Referer: https://shop.example/", "Origin: https://shop.example",
	"Cookie: theme=dark; session=s3cret; a=\"b c\"", "Sec-Fetch-Dest: document", "Upgrade-Insecure-Requests: 1", "Content-Type: multipart/form-data; boundary=x", "Priority: u=0, i",
}

// forwardings are the conversations of gateways.
var forwardings = []conversation{
	{"no query", forwarded(""), 1},
	{"an empty query", forwarded("?"), 1},
	{"allowed until limited, in one piece", strings.Repeat(forwarded("?policy=tight"), 4), 4},
	{"limited, as 403", strings.Repeat(forwarded("?policy=tight&refuse=403", "X-Forwarded-For: 198.51.100.1"), 3), 3},
	{"a cost", strings.Repeat(forwarded("?policy=tight&cost=2", "X-Forwarded-For: 198.51.100.2"), 2), 2},
	{"blocked", forwarded("", "X-Forwarded-For: 203.0.113.1"), 1},
	{"blocked for a time, as 403", forwarded("?refuse=403", "X-Forwarded-For: 203.0.113.2"), 1},
	{"exempt from a block", forwarded("", "X-Forwarded-For: 203.0.113.3"), 1},
	{"an IPv6 client", strings.Repeat(forwarded("?policy=tight", "X-Forwarded-For: 2001:db8::7"), 3), 3},
	{"a browser", forwarded("?policy=free", browser...), 1},
	{"a browser by cookie", strings.Repeat(forwarded("?policy=tight&by=cookie:session", browser...), 3), 3},
	{"no such cookie", forwarded("?policy=free&by=cookie:other", browser...), 1},
	{"a cookie in quotes", forwarded("?policy=free&by=cookie:a", browser...), 1},
	{"a cookie of the second line", forwarded("?policy=free&by=cookie:a", "Cookie: b=1", "Cookie: a=2; a=2"), 1},
	{"a cookie of two values", forwarded("?policy=free&by=cookie:a", "Cookie: b=1; a=2", "Cookie: a=3"), 0},
	{"a header", strings.Repeat(forwarded("?policy=tight&by=header:X-Api-Key", "x-api-key: k3y"), 3), 3},
	{"a header twice", forwarded("?policy=free&by=header:X-Api-Key", "X-Api-Key: 1", "x-api-key: 1"), 1},
	{"a header of two values", forwarded("?policy=free&by=header:X-Api-Key", "X-Api-Key: 1", "x-api-key: 2"), 0},
	{"no such header", forwarded("?policy=free&by=header:X-Api-Key", "X-Api-Keys: 1"), 1},
	{"a plain header", forwarded("?policy=free&by=plain-header:X-User", "X-User: alice"), 1},
	{"a header of the server's", forwardedAs("POST", "?policy=free&by=plain-header:Content-Length"), 1},
	{"by host", forwarded("?policy=free&by=host"), 1},
	{"by forwarded host", forwarded("?policy=free&by=host", browser...), 1},
	{"by path", forwarded("?policy=free&by=path", browser...), 1},
	{"by path of the query", forwarded("?policy=free&by=path&path=/a/../b?policy=tight&by=host"), 1},
	{"a path alone", forwarded("?path=/a?b=c"), 1},
	{"by method", forwardedAs("PURGE", "?policy=free&by=method"), 1},
	{"by forwarded method", forwardedAs("PURGE", "?policy=free&by=method", browser...), 1},
	{"a scope and a source", forwarded("?policy=free&scope=login&source=the%20shop"), 1},
	{"an id", strings.Repeat(forwarded("?policy=tight&id=header:X-Request-Id", "X-Request-Id: abcd-1234_EFGH", "X-Forwarded-For: 198.51.100.3"), 4), 4},
	{"each parameter", strings.Repeat(forwarded("?policy=free&cost=3&by=ip&refuse=403&source=a&scope=b&id=header:X-Id", append(browser, "X-Id: 1")...), 2), 2},
	{"a forged hop", forwarded("?policy=free", "X-Forwarded-For: 203.0.113.1, 198.51.100.7, 10.0.0.1"), 1},
	{"hops in two lines", forwarded("?policy=free", "X-Forwarded-For: 203.0.113.1", "X-Forwarded-For: 198.51.100.7, 10.0.0.1"), 1},
	{"an invalid hop", forwarded("?policy=free", "X-Forwarded-For: 203.0.113.1, unknown, 10.0.0.1"), 1},
	{"the client's other headers", forwarded("?policy=free", "Forwarded: for=203.0.113.1", "X-Client-IP: 203.0.113.1", "Idempotency-Key: 1", "X-Policy: tight"), 1},
	{"no body", forwardedAs("POST", "?policy=free", "Content-Length: 0", "Content-Type: text/plain"), 1},
	{"kept alive", forwarded("?policy=free", "Connection: keep-alive") + forwarded("?policy=free", "Connection: Keep-Alive"), 2},
	{"HEAD, allowed", forwardedAs("HEAD", "?policy=free"), 1},
	{"HEAD, limited", strings.Repeat(forwardedAs("HEAD", "?policy=tight", "X-Forwarded-For: 198.51.100.4"), 3), 3},
	{"HEAD, blocked", forwardedAs("HEAD", "", "X-Forwarded-For: 203.0.113.1") + forwarded("", "X-Forwarded-For: 203.0.113.1"), 2},
	{"CONNECT", forwardedAs("CONNECT", ""), 1},
	{"OPTIONS", forwardedAs("OPTIONS", ""), 1},
	{"FOO", forwardedAs("FOO", ""), 1},
	{"fast, slow, fast", forwarded("") + forwarded("", "A:  b") + forwarded(""), 1},
	{"a check between", forwarded("?policy=free") + checkOf(`{"key":"free:1"}`) + forwarded("?policy=free"), 3},
	{"a token", forwarded("?policy=free", "X-Stint-Token: {token}"), 1},
	{"a token among the client's", forwarded("?policy=free", "Authorization: Bearer {read}", "x-stint-token:   {token}", "Authorization: Basic x"), 0},
	{"a token and the client's", forwarded("?policy=free", "Authorization: Bearer {read}", "x-stint-token: {token}", "Authorization: Basic x"), 1},
	{"a token of another scope", forwarded("?policy=free", "X-Stint-Token: {read}"), 1},
	{"a wrong token", forwarded("?policy=free", "X-Stint-Token: stint_check_wrong"), 1},
	{"two tokens", forwarded("?policy=free", "X-Stint-Token: {token}", "X-Stint-Token: {token}"), 1},
	{"the client's token", forwarded("?policy=free", "Authorization: Bearer {token}"), 1},
	{"the request's own id, limited", strings.Repeat(forwarded("?policy=tight", "X-Request-Id: abcd-1234_EFGH", "X-Forwarded-For: 198.51.100.5"), 3), 3},

	{"several keys", forwarded("?policy=free&by=ip&by=header:X-Api-Key", "X-Api-Key: 1"), 0},
	{"several keys of which one exists", forwarded("?policy=free&by=ip&by=header:X-Api-Key"), 0},
	{"an unknown policy", forwarded("?policy=none"), 0},
	{"an unknown parameter", forwarded("?key=free:1"), 0},
	{"a parameter twice", forwarded("?cost=1&cost=1"), 0},
	{"a parameter without a value", forwarded("?policy=free&path"), 0},
	{"a cost that never fits", forwarded("?policy=tight&cost=3"), 0},
	{"an invalid cost", forwarded("?cost=0"), 0},
	{"not well encoded", forwarded("?source=%zz"), 0},
	{"a control character", forwarded("?source=a%0ab"), 0},
	{"a value that is hashed", forwarded("?by=plain-header:X-User", "X-User: "+strings.Repeat("a", 300)), 1},
	{"a path below", forwarded("/a?cost=2"), 0},
	{"a whole URL in the path", forwarded("?policy=free&by=path&path=/a?to=http://b/"), 0},
	{"a body", forwardedAs("POST", "?policy=free", "Content-Length: 5") + "a=b&c", 0},
	{"a body that is a request", forwardedAs("POST", "?policy=free", fmt.Sprintf("Content-Length: %d", len(forwarded("?policy=tight")))) + forwarded("?policy=tight"), 0},
	{"a body behind a request", forwardedAs("POST", "?policy=free") + "a=b&c", 1},
	{"in chunks", forwardedAs("POST", "?policy=free", "Transfer-Encoding: chunked") + "3\r\na=b\r\n0\r\n\r\n", 0},
	{"chunks and no length", forwardedAs("POST", "?policy=free", "Content-Length: 0", "Transfer-Encoding: chunked") + "0\r\n\r\n", 0},
	{"two lengths", forwardedAs("POST", "?policy=free", "Content-Length: 0", "Content-Length: 0"), 0},
	{"two lengths in one", forwardedAs("POST", "?policy=free", "Content-Length: 0, 5") + "a=b&c", 0},
	{"continue", forwardedAs("POST", "?policy=free", "Content-Length: 3", "Expect: 100-continue") + "a=b", 0},
	{"an upgrade", forwarded("?policy=free", "Connection: Upgrade", "Upgrade: websocket"), 0},
	{"the connection's end", forwarded("?policy=free", "Connection: close"), 0},
	{"a header of the connection", forwarded("?policy=free", "Connection: X-Forwarded-For", "X-Forwarded-For: 198.51.100.7"), 0},
	{"a trace", forwarded("?policy=free", "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"), 0},
	{"an id that is not plain", forwarded("?policy=free", "X-Request-Id: a b c d e f g"), 0},
	{"two agents", forwarded("?policy=free&by=header:User-Agent", "User-Agent: a", "User-Agent: b"), 0},
	{"a name with an underscore", forwarded("?policy=free&by=header:X_Api_Key", "X_Api_Key: a", "X_Forwarded_For: 203.0.113.1"), 0},
	{"a folded header", forwarded("?policy=free", "X-Forwarded-For: 198.51.100.7,", " 198.51.100.8"), 0},
	{"a space before the colon", forwarded("?policy=free", "X-Forwarded-For : 198.51.100.7"), 0},
	{"no colon", forwarded("?policy=free", "X-Forwarded-For"), 0},
	{"an empty header", forwarded("?policy=free&by=header:X-Api-Key", "X-Api-Key:"), 0},
	{"a NUL", forwarded("?policy=free", "X-Api-Key: a\x00"), 0},
	{"a letter beyond ASCII", forwarded("?policy=free&by=header:X-Api-Key", "X-Api-Key: ü"), 0},
	{"a bare LF", strings.Replace(forwarded("?policy=free"), "\r\n", "\n", 1), 0},
	{"a request behind a bare LF", forwarded("?policy=free", "A: b\n\n"+forwarded("?policy=tight")), 0},
	{"HTTP/1.0", strings.Replace(forwarded("?policy=free"), "HTTP/1.1", "HTTP/1.0", 1), 0},
	{"two hosts", forwarded("?policy=free", "Host: shop.example"), 0},
	{"no host", "GET /v1/forward HTTP/1.1\r\n\r\n", 0},
	{"a host in capitals", "GET /v1/forward?by=host&policy=free HTTP/1.1\r\nHost: SHOP.example\r\n\r\n", 0},
	{"a method in small letters", forwardedAs("get", "?policy=free"), 0},
	{"a whole URL", "GET http://a/v1/forward HTTP/1.1\r\nHost: a\r\n\r\n", 0},
	{"a fragment", forwarded("?policy=free#a"), 0},
	{"another path", "GET /v1/forwarded HTTP/1.1\r\nHost: a\r\n\r\n", 0},
	{"many headers", forwarded("?policy=free", strings.Split(strings.Repeat("A: b\n", 80)+"A: b", "\n")...), 0},
	{"a long header", forwarded("?policy=free", "Cookie: a="+strings.Repeat("a", 20_000)), 0},
}

// gateways are the proxies that nodes trust.
var gateways = proxies.Trusted{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8")}

// withForward adds the door of gateways to a node that trusts this machine's proxies.
func withForward(p *nodeParts) {
	if p.Server.Clients == nil {
		p.Server.Clients = func() httpserver.ClientAddresses { return httpserver.ClientAddresses{Proxies: gateways} }
	}
	door := forwardauth.New(forwardauth.Options{Gate: p.Gate, View: p.Catalog, Logger: p.Server.Logger, Now: p.Server.Now})
	p.Connect.LastAsked = door.LastAsked
	p.Connect.Pathless = func() (string, time.Time) { return p.Catalog.Selector().PathPolicy(), door.LastPathless() }
	for _, r := range door.Routes() {
		if p.Change != nil {
			p.Change(&r.Route)
		}
		p.Extra = append(p.Extra, r.Route)
	}
}

// startForwardPair is startPair with the door for gateways and the blocks for forwardings.
func startForwardPair(t *testing.T, change func(*nodeParts)) (fast, plain *recorded) {
	t.Helper()
	fast, plain = startPair(t, func(p *nodeParts) {
		change(p)
		withForward(p)
	})
	for _, n := range []*recorded{fast, plain} {
		n.must(n.as(identity.Operate, "POST", wire.PathBlocks, `{"pattern":"ip:203.0.113.1","reason":"they attack"}`), http.StatusCreated)
		for _, address := range []string{"203.0.113.2", "203.0.113.3"} {
			n.must(n.as(identity.Operate, "POST", wire.PathBlocks, `{"pattern":"ip:`+address+`","reason":"they attack","expires_in":"1h"}`), http.StatusCreated)
		}
		n.must(n.as(identity.Operate, "POST", wire.PathExemptions, `{"pattern":"ip:203.0.113.3","reason":"ours"}`), http.StatusCreated)
		n.reset()
	}
	return fast, plain
}

func TestFastPathOfGatewaysMatchesPlainVersion(t *testing.T) {
	addressIn := func(header httpserver.AddressHeader) func(*nodeParts) {
		return func(p *nodeParts) {
			p.Server.Clients = func() httpserver.ClientAddresses {
				return httpserver.ClientAddresses{Proxies: gateways, Header: header}
			}
		}
	}
	nothing := func(*nodeParts) {}
	for _, setting := range []struct {
		what     string
		change   func(*nodeParts)
		policies map[string]string
		last     int // the status of a browser's last request
	}{
		{"open", nothing, nil, http.StatusTooManyRequests},
		{"with tokens", func(p *nodeParts) { p.Server.CheckAuth = true }, nil, http.StatusUnauthorized},
		{"under few host names", func(p *nodeParts) {
			p.Server.CheckHosts = func() *httpserver.AllowedHosts { return &httpserver.AllowedHosts{} }
		}, nil, http.StatusTooManyRequests},
		{"with a log of all checks", func(p *nodeParts) { p.Server.CheckLogRatio = 1 }, nil, http.StatusTooManyRequests},
		{"from a peer that is not trusted", func(p *nodeParts) {
			p.Server.Clients = func() httpserver.ClientAddresses { return httpserver.ClientAddresses{} }
		}, nil, http.StatusTooManyRequests},
		{"with Forwarded", addressIn(httpserver.Forwarded), nil, http.StatusTooManyRequests},
		{"with X-Real-IP", addressIn("X-Real-IP"), nil, http.StatusTooManyRequests},
		{"with conditions", nothing, map[string]string{
			"trap":  `{"match":["ip:*"],"rules":["0/1s"],"when":{"path":["/cart*"],"host":["shop.example"]}}`,
			"tool":  `{"match":["ip:*"],"rules":["1/1m"],"when":{"method":["PURGE"]}}`,
			"agent": `{"match":["*"],"rules":["3/1m"],"when":{"agent":["*firefox*"]},"mode":"shadow"}`,
		}, http.StatusTooManyRequests},
		{"with a log that fails", func(p *nodeParts) {
			local := memlog.New(memlog.Options{Now: p.Server.Now})
			t.Cleanup(func() { local.Close() })
			p.Gate = gate.New(gate.Options{View: p.Catalog.(gate.View), Log: failingLog{local}, Local: local, Now: p.Server.Now})
		}, map[string]string{
			"tight": `{"match":["tight:*"],"rules":["2/m"],"on_failure":"deny"}`, "free": `{"match":["free:*"],"rules":["9/m"],"on_failure":"allow"}`,
		}, http.StatusServiceUnavailable},
	} {
		t.Run(setting.what, func(t *testing.T) {
			fast, plain := startForwardPair(t, setting.change)
			for name, body := range setting.policies {
				for _, n := range []*recorded{fast, plain} {
					n.as(identity.Admin, http.MethodDelete, "/v1/policies/"+name, "", "If-Match: *")
					putPolicy(n.testNode, name, body)
					n.reset()
				}
			}
			converse(t, fast, plain, forwardings, setting.what == "open")
			last := fast.talk(t, strings.Repeat(forwarded("?policy=tight&by=cookie:session", browser...), 3))
			if last = last[strings.LastIndex(last, "HTTP/1.1 "):]; !strings.HasPrefix(last, fmt.Sprintf("HTTP/1.1 %d ", setting.last)) {
				t.Errorf("the last response to a browser is %q, want %d", last, setting.last)
			}
		})
	}
}

// failingLog is an unreachable log.
type failingLog struct{ timestamplog.Log }

func (failingLog) Decide(_ context.Context, _ []timestamplog.Request, results []timestamplog.Result) {
	for i := range results {
		results[i].Err = timestamplog.ErrUnreachable
	}
}

func (failingLog) DecideAll(context.Context, []timestamplog.Request, []timestamplog.Result) error {
	return timestamplog.ErrUnreachable
}

func TestFastPathRecordsTokenUseOfGateways(t *testing.T) {
	fast, _ := startForwardPair(t, func(p *nodeParts) { p.Server.CheckAuth = true })
	got := fast.talk(t, strings.ReplaceAll(forwarded("", "X-Stint-Token: {token}"), "{token}", fast.tokens[identity.Check]))
	if !strings.HasPrefix(got, "HTTP/1.1 200 ") || fast.fast.Load() != 1 {
		t.Fatalf("got %q, the fast path answered %d", got, fast.fast.Load())
	}
	fast.server.FlushTokenUse(t.Context())
	page := read[wire.Page[wire.Token]](t, fast.must(fast.as(identity.Admin, http.MethodGet, wire.PathTokens, ""), http.StatusOK))
	for _, token := range page.Items {
		if token.Name == "test-check" && token.LastUsedAt.IsZero() {
			t.Error("the use of the token was not stored")
		}
	}
}

// TestBadGatewayQueryIsLoggedOnceAMinute also sends the request from an untrusted peer.
func TestBadGatewayQueryIsLoggedOnceAMinute(t *testing.T) {
	n := startNode(t, withForward)
	lines := func() int { return strings.Count(n.logged.String(), "with a query that cannot be answered") }
	for i, query := range []string{"?policy=gone", "?policy=gone&by=ip&by=host", "?polizy=gone"} {
		for range 3 {
			n.must(n.send("GET", n.check+forwardauth.Path+query, ""), http.StatusUnprocessableEntity)
		}
		if got := lines(); got != i+1 {
			t.Errorf("%s: got %d log lines in %d minutes, want one a minute: %s", query, got, i+1, n.logged)
		}
		n.clock.Add(time.Minute)
	}
	if n.must(n.send("GET", n.check+forwardauth.Path, ""), http.StatusOK); lines() != 3 {
		t.Errorf("a valid query is logged: %s", n.logged)
	}
}

// TestForwardIgnoresQueryInClientPath sends requests of a gateway that appends the
// client's target to Stint's path, for a blocked client that tries to supply the query itself.
func TestForwardIgnoresQueryInClientPath(t *testing.T) {
	fast, plain := startForwardPair(t, func(*nodeParts) {})
	for _, n := range []*recorded{fast, plain} {
		for _, target := range []string{
			"/v1/forward/x", "/v1/forward/x?by=method", "/v1/forward/../forward?by=method", "/v1/forward/%2e%2e/forward?by=method",
			"/v1/forward/%2F../forward?by=method", "/v1/forward/a%2F..%2F..%2Fforward?by=method", "/v1/forward/./?by=method", "/v1/forward//?by=method",
		} {
			head, _, _ := strings.Cut(n.talk(t, "GET "+target+" HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-For: 203.0.113.1\r\n\r\n"), "\r\n")
			if !strings.Contains(head, " 403 ") {
				t.Errorf("%s: got %s, want 403", target, head)
			}
		}
	}
}

// TestForwardNormalizesPathKeys uses up the limit of a path in one spelling.
func TestForwardNormalizesPathKeys(t *testing.T) {
	n := startNode(t, withForward)
	n.must(n.as(identity.Admin, "PUT", wire.PathPolicies+"/paths", `{"match":["path:*"],"rules":["1/1h"]}`), http.StatusCreated)
	ask := func(uri string) answer {
		return n.send("GET", n.check+forwardauth.Path+"?policy=paths&by=path", "", "X-Forwarded-Uri: "+uri)
	}
	n.must(ask("/login"), http.StatusOK)
	for _, uri := range []string{"/login#1", "/login?a=b", "/%6cogin", "/./login", "//login", "/login/", "/x/../login", "http://shop.example/login", "http://shop.example/login#2"} {
		n.must(ask(uri), http.StatusTooManyRequests)
	}
	n.must(ask("/logout"), http.StatusOK)
}
