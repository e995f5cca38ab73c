package httpserver

import (
	"bufio"
	"bytes"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/proxies"
)

const fastLine = "POST /v1/check HTTP/1.1\r\n"

const fastHeaders = "Host: a.example:80\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"

// The routes of the fast path, as the check listener has them.
var fastRoutes = []fastRoute{
	newFastRoute(&Route{Listener: Checks, Method: "POST", Path: "/v1/check"}, nil),
	newFastRoute(&Route{Listener: Checks, Method: AnyMethod, Path: "/v1/forward", TokenHeader: "X-Token"}, nil),
}

// readPlain returns the request as fasthttp and the framer read it. It must be all of p.
func readPlain(t *testing.T, p []byte, from net.Addr) *fasthttp.RequestCtx {
	t.Helper()
	framed := framer{length: -1}
	if n := framed.follow(p); n != len(p) || framed.err != nil || !framed.isBetween() {
		t.Fatalf("%q: the framer follows %d of %d bytes: %v", p, n, len(p), framed.err)
	}
	rc := new(fasthttp.RequestCtx)
	rc.Init(new(fasthttp.Request), from, nil)
	read := bufio.NewReaderSize(bytes.NewReader(p), headerBytes)
	if err := rc.Request.Read(read); err != nil {
		t.Fatalf("%q: fasthttp fails: %v", p, err)
	}
	if read.Buffered() > 0 {
		t.Fatalf("%q: fasthttp leaves %d bytes", p, read.Buffered())
	}
	if rc.Request.Header.ConnectionClose() || rc.Request.MayContinue() || !HasPlainTarget(rc) || len(rc.Request.Header.Peek("Traceparent")) > 0 {
		t.Fatalf("%q: the plain version does more than answer", p)
	}
	return rc
}

// FuzzParseFast checks that whatever the fast path accepts as a check is one request for the
// framer too, and that fasthttp reads the same from it.
func FuzzParseFast(f *testing.F) {
	for _, headers := range []string{
		fastHeaders, fastHeaders + "Authorization: Bearer abc\r\nX-Request-Id: 12345678\r\n", "HOST: a\r\ncontent-type: application/json; Charset=utf-8\r\nCONTENT-LENGTH: 2\r\n",
		fastHeaders + "Connection: keep-alive\r\nAccept: */*\r\nAccept-Encoding: gzip\r\nAccept-Language: *\r\nSec-Fetch-Mode: cors\r\nUser-Agent: x\r\n",
		fastHeaders + "Host: b\r\n", fastHeaders + "Accept:  a\r\n", fastHeaders + "Accept: a \r\n", fastHeaders + "Accept: a\tb\r\n", fastHeaders + " Accept: a\r\n",
		fastHeaders + "Expect: 100-continue\r\n", fastHeaders + "Transfer-Encoding: chunked\r\n", "Host: a..b:0\r\n" + fastHeaders[20:], "Host: -:99999\r\n" + fastHeaders[20:],
	} {
		f.Add([]byte(headers + "\r\n{}"))
		f.Add([]byte(headers + "\r\n{}" + fastLine))
	}
	f.Fuzz(func(t *testing.T, rest []byte) {
		p := append([]byte(fastLine), rest...)
		var got fastRequest
		size := got.parse(fastRoutes, p)
		if size == 0 {
			return
		}
		want := readPlain(t, p[:size], nil)
		h := &want.Request.Header
		if !bytes.Equal(got.body, want.Request.Body()) || !bytes.Equal(got.host, want.Request.Host()) || string(want.Path()) != "/v1/check" ||
			!bytes.Equal(got.authorization, h.Peek("Authorization")) || !bytes.Equal(got.id, h.Peek("X-Request-Id")) ||
			len(h.PeekAll("Authorization")) > 1 || len(h.ContentEncoding()) > 0 {
			t.Fatalf("fasthttp reads another request:\n%s\nthe fast path: %q of %q", &want.Request, got.body, got.host)
		}
	})
}

// forwardedRequests are requests of gateways and attackers, and whether the fast path accepts
// each, whatever follows it.
var forwardedRequests = []struct {
	sent   string
	isFast bool
}{
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\n\r\n", true},
	{"GET /v1/forward? HTTP/1.1\r\nHost: a\r\n\r\n", true},
	{"POST /v1/forward?policy=a&by=cookie:b HTTP/1.1\r\nHost: shop.example:8080\r\nContent-Length: 0\r\nCookie: a=\"1\"; b= 2 ;;c\r\nCookie: d\r\nConnection: Keep-Alive\r\n\r\n", true},
	{"PROPFIND /v1/forward?path=/a?b&c%zz HTTP/1.1\r\nhOsT: a\r\nX-Forwarded-For: 198.51.100.1, 10.0.0.1\r\nx-forwarded-for: 10.0.0.2\r\n\r\n", true},
	{"HEAD /v1/forward HTTP/1.1\r\nHost: a\r\nForwarded: for=\"[2001:db8::1]:4711\";proto=https, for=10.0.0.3\r\nX-Real-Ip: 198.51.100.2\r\n\r\n", true},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nX-Token: abc\r\nAuthorization: Basic x\r\nAuthorization: Bearer y\r\nUser-Agent: x\r\nContent-Type: a/b\r\nX-Request-Id: 12345678\r\n\r\n", true},
	{"OPTIONS /v1/forward HTTP/1.1\r\nHost: a\r\nAccept: a: b\r\n0-: -\r\n-: a\r\n\r\n", true},
	{"CONNECT /v1/forward HTTP/1.1\r\nHost: a\r\n\r\n", true},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nRange: bytes=0-1\r\nIf-None-Match: *\r\n\r\n", true},

	{"GET /v1/forward HTTP/1.1\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: A\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a@b\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: [::1]\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.0\r\nHost: a\r\n\r\n", false},
	{"GET  /v1/forward HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"GET /v1/forward  HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"get /v1/forward HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"VERSION-CONTROL /v1/forward HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"ABCDEFGHIJKLMNOPQ /v1/forward HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{" /v1/forward HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"GET /v1/forward/ HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"GET /v1/forward/a?b HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"GET /v1/forwarded HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"GET //v1/forward HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"GET /v1/%66orward HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"GET http://a/v1/forward HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"GET /v1/forward#a HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"GET /v1/forward?a#b HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"GET /v1/forward?path=http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"GET /v1/forward?a\x00 HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"GET /v1/forward?a\tb HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"GET /v1/forward?\xc3\xbc HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\nHost: a\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\n\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\n\tb: c\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\n Host: a\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nX-Forwarded-For : b\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nX_Forwarded_For: b\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nX.A: b\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nA\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nA:b\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nA:\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nA: \r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nA: b \r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nA:  b\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nA: b\tc\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nA: b\x00\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nA: b\rc\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nA: \xff\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nConnection: X-Forwarded-For\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Forwarded-For\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: keep-alive\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nKeep-Alive: 5\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nTrailer: a\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nTraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nUser-Agent: a\r\nUser-Agent: b\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nContent-Type: a\r\ncontent-type: b\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nX-Request-Id: short\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\nX-Request-Id: 12345678\r\nX-Request-Id: 12345678\r\n\r\n", false},
	{"POST /v1/forward HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", false},
	{"POST /v1/forward HTTP/1.1\r\nHost: a\r\nContent-Length: 00\r\n\r\n", false},
	{"POST /v1/forward HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n", false},
	{"POST /v1/forward HTTP/1.1\r\nHost: a\r\nContent-Length: 0, 0\r\n\r\n", false},
	{"POST /v1/forward HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
	{"POST /v1/forward HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", false},
	{"POST /v1/forward HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n", false},
	{"GET /v1/forward HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("A: b\r\n", maxFastHeaders) + "\r\n", false},
	{"\r\nGET /v1/forward HTTP/1.1\r\nHost: a\r\n\r\n", false},
}

func TestFastPathAcceptsOnlyCommonForwardedRequests(t *testing.T) {
	for _, c := range forwardedRequests {
		for _, next := range []string{"", "x", c.sent} {
			var r fastRequest
			size := r.parse(fastRoutes, []byte(c.sent+next))
			if size != 0 && size != len(c.sent) || (size > 0) != c.isFast {
				t.Errorf("parse of %q before %q: accepted %d bytes", c.sent, next, size)
			}
		}
		for end := range c.sent {
			var r fastRequest
			if size := r.parse(fastRoutes, []byte(c.sent[:end])); size > 0 {
				t.Errorf("parse of %q: accepted %d of its first %d bytes", c.sent, size, end)
			}
		}
	}
}

// FuzzParseForwarded checks that whatever the fast path accepts as a gateway's request is one
// request for the framer too, and that the plain version reads the same from it.
func FuzzParseForwarded(f *testing.F) {
	for _, c := range forwardedRequests {
		f.Add([]byte(c.sent))
		f.Add([]byte(c.sent + c.sent))
	}
	trusted, err := proxies.Parse("10.0.0.0/8,127.0.0.1")
	if err != nil {
		f.Fatal(err)
	}
	special := []string{"Host", "Content-Type", "Content-Length", "Connection", "User-Agent", "Cookie", "Trailer", "Transfer-Encoding", "Expect", "X-Forwarded-For", "X-Other"}
	f.Fuzz(func(t *testing.T, p []byte) {
		var got fastRequest
		size := got.parse(fastRoutes, p)
		if size == 0 || !got.route.isForwarded() {
			return
		}
		peer := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9)}
		want := readPlain(t, p[:size], peer)
		if string(got.method) != string(want.Method()) || string(want.Path()) != "/v1/forward" || !bytes.Equal(got.query, want.URI().QueryString()) ||
			!bytes.Equal(got.host, want.Request.Host()) || !bytes.Equal(got.id, want.Request.Header.Peek("X-Request-Id")) || len(want.Request.Body()) > 0 {
			t.Fatalf("fasthttp reads another request:\n%s\nthe fast path: %q %q of %q", &want.Request, got.method, got.query, got.host)
		}
		clients := ClientAddresses{Proxies: trusted}
		s := &Server{o: Options{Clients: func() ClientAddresses { return clients }}, isRealTime: true}
		var c FastCall
		c.begin(s, &got, peerOf(peer), time.Now())
		names := slices.Clone(special)
		for _, line := range got.headers {
			names = append(names, string(line.name))
		}
		h := &want.Request.Header
		for _, name := range names {
			for _, spelt := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
				if get := c.Get(spelt); get != string(h.Peek(spelt)) {
					t.Errorf("%s: got %q, want %q", spelt, get, h.Peek(spelt))
				}
				if !isFramingHeader(spelt) && !slices.EqualFunc(c.linesOf(spelt), h.PeekAll(spelt), bytes.Equal) {
					t.Errorf("%s: got %q, want %q", spelt, c.linesOf(spelt), h.PeekAll(spelt))
				}
			}
		}
		for _, header := range []AddressHeader{"", XForwardedFor, Forwarded, "X-Real-IP"} {
			clients.Header = header
			if address, plain := c.ClientAddress(), clients.Of(want); address != plain {
				t.Errorf("%s: the client is %s, want %s", header, address, plain)
			}
		}
		for _, header := range []TokenHeader{"", "X-Token"} {
			r := &Route{TokenHeader: header}
			secret, given := secretIn(h.PeekAll(r.headerOfToken()), r)
			if got, found := secretIn(c.linesOf(r.headerOfToken()), r); got != secret || found != given {
				t.Errorf("the token is %q, want %q", got, secret)
			}
		}
		for _, name := range append(names, "X_Other", "x_forwarded-For") {
			if lines := appendLines(h, nil, name); !slices.EqualFunc(c.AppendLines(nil, name), lines, bytes.Equal) {
				t.Errorf("%s: got %q, want %q", name, c.AppendLines(nil, name), lines)
			}
		}
	})
}

func TestIsPrintableChecksEveryPosition(t *testing.T) {
	for c := range 256 {
		for _, size := range []int{1, 8, 15, 16} {
			for at := range size {
				text := []byte(strings.Repeat("~", size))
				text[at] = byte(c)
				if got, want := isPrintable(text), c >= ' ' && c <= '~'; got != want {
					t.Errorf("isPrintable(%q): got %t", text, got)
				}
				text = []byte(strings.Repeat(" ", size))
				text[at] = byte(c)
				if got, want := isPrintable(text), c >= ' ' && c <= '~'; got != want {
					t.Errorf("isPrintable(%q): got %t", text, got)
				}
			}
		}
	}
}
