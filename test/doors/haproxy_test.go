package doors

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// The parts that the configuration counts by reach Stint completely, or the request is refused: a client that
// fills its headers must not be counted under another key.
func TestHAProxySendsCompleteKeysOrRefuses(t *testing.T) {
	s := &site{T: t, app: new(application)}
	s.node = direct(t).node
	s.put("site", `{"match":["cookie:*","header:*","path:*"],"rules":["1000/1d"]}`)
	s.program(runHAProxy, strings.Replace(configuration(t, gateways[2], 0), "/v1/forward open",
		"/v1/forward?policy=site&by=cookie:session&by=cookie:other&by=header:X-Api-Key open", 1))
	s.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"cookie:session:`+hashed("bad")+`","reason":"test"}`, http.StatusCreated)
	s.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"header:x-api-key:`+hashed("bad")+`","reason":"test"}`, http.StatusCreated)
	ask := func(path, lines string) string {
		line := s.raw("GET " + path + " HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n" + lines + "\r\n")
		return strings.TrimSpace(strings.TrimPrefix(line, "HTTP/1.1 "))
	}
	fill := func(n int) string { return strings.Repeat("x", n) }
	for what, c := range map[string]struct{ path, lines, want string }{
		"nothing":                             {"/", "", "200 OK"},
		"another session":                     {"/", "Cookie: session=good\r\n", "200 OK"},
		"the session":                         {"/", "Cookie: session=bad\r\n", "403 Forbidden"},
		"behind a large cookie":               {"/", "Cookie: a=" + fill(5000) + "; session=bad\r\n", "403 Forbidden"},
		"before a large cookie":               {"/", "Cookie: session=bad; a=" + fill(5000) + "\r\n", "403 Forbidden"},
		"in the third line":                   {"/", "Cookie: a=1\r\nCookie: b=2\r\nCookie: session=bad\r\n", "403 Forbidden"},
		"behind another of its name":          {"/", "Cookie: session=a; session = bad\r\n", "403 Forbidden"},
		"in other white space":                {"/", "Cookie: \u00a0session\x0c=\x0c\u3000bad\xa0\r\n", "403 Forbidden"},
		"with a long path":                    {"/" + fill(7900), "Cookie: session=bad\r\n", "403 Forbidden"},
		"with a long path and agent":          {"/" + fill(7900), "User-Agent: " + fill(3000) + "\r\nCookie: session=bad\r\n", "403 Forbidden"},
		"good with both":                      {"/" + fill(7900), "User-Agent: " + fill(3000) + "\r\nCookie: session=good\r\n", "200 OK"},
		"a session of 4 KiB":                  {"/", "Cookie: session=" + fill(4000) + "\r\n", "200 OK"},
		"a session that is too long":          {"/", "Cookie: session=" + fill(5000) + "\r\n", "503 Service Unavailable"},
		"a key that is too long":              {"/", "X-Api-Key: " + fill(5000) + "\r\n", "503 Service Unavailable"},
		"together too long":                   {"/" + fill(7900), "Cookie: session=" + fill(2000) + "; other=" + fill(2000) + "\r\nX-Api-Key: " + fill(2000) + "\r\n", "503 Service Unavailable"},
		"the key in the third line":           {"/", "X-Api-Key: a\r\nX-Api-Key: b\r\nX-Api-Key: bad\r\n", "403 Forbidden"},
		"the key with underscores":            {"/", "X_Api_Key: bad\r\n", "403 Forbidden"},
		"more sessions than a check may have": {"/", "Cookie: session=1" + manyCookies("session", 20) + "\r\n", "503 Service Unavailable"},
	} {
		if got := ask(c.path, c.lines); got != c.want {
			t.Errorf("%s: got %q, want %q", what, got, c.want)
		}
	}
	// With any sizes, a blocked session is never let through.
	for size := 2000; size <= 4100; size += 150 {
		for _, path := range []int{0, 4000, 7990} {
			lines := "X-Api-Key: " + fill(size) + "\r\nCookie: other=" + fill(size) + "; session=bad\r\nUser-Agent: " + fill(size) + "\r\n"
			got := ask("/"+fill(path), lines)
			// Where it is too much for HAProxy itself, 2.6 answers 400 and 3.2 answers 431.
			if got != "403 Forbidden" && !strings.HasPrefix(got, "503") && !strings.HasPrefix(got, "400") && !strings.HasPrefix(got, "431") {
				t.Errorf("values of %d and a path of %d: got %q", size, path, got)
			}
		}
	}
}

// HAProxy's client ends HAProxy if it is given more headers than tune.http.maxhdr, 101 unless configured, and a client may
// send as many lines of one that the configuration counts by.
func TestHAProxyRefusesManyLinesOfAHeader(t *testing.T) {
	s := &site{T: t, app: new(application)}
	s.node = direct(t).node
	s.put("site", `{"match":["header:*"],"rules":["1000/1d"]}`)
	s.program(runHAProxy, strings.Replace(configuration(t, gateways[2], 0), "/v1/forward open", "/v1/forward?policy=site&by=header:X-Api-Key open", 1))
	ask := func(lines int) string {
		return s.raw("GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n" + strings.Repeat("X-Api-Key: a\r\n", lines) + "\r\n")
	}
	for _, c := range []struct {
		lines int
		want  string
	}{{26, "200"}, {27, "503"}, {98, "503"}, {1, "200"}} {
		if got := ask(c.lines); !strings.HasPrefix(got, "HTTP/1.1 "+c.want) {
			t.Errorf("%d lines: got %q, want %s", c.lines, got, c.want)
		}
	}
}

// A client chooses what its cookies contain. One match of a text cannot be interrupted, so that HAProxy ends itself where it
// takes more than a second or two.
func TestHAProxyReadsCookiesOfPunctuationAtOnce(t *testing.T) {
	s := &site{T: t, app: new(application)}
	s.node = direct(t).node
	s.put("site", `{"match":["cookie:*"],"rules":["1000/1d"]}`)
	s.program(runHAProxy, strings.Replace(configuration(t, gateways[2], 0), "/v1/forward open", "/v1/forward?policy=site&by=cookie:session open", 1))
	s.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"cookie:session:`+hashed("bad")+`","reason":"test"}`, http.StatusCreated)
	for what, cookie := range map[string]string{
		"without an equals sign": strings.Repeat("(", 10_000), "before one": strings.Repeat("(", 10_000) + "=a",
		"around letters": strings.Repeat("(a", 5000), "spaces": "a;" + strings.Repeat(" ", 10_000) + ";b",
	} {
		for _, pair := range []string{cookie + "; session=bad", "session=bad; " + cookie} {
			if got := s.raw("GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\nCookie: " + pair + "\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403") {
				t.Fatalf("punctuation %s: got %q, want 403", what, got)
			}
		}
	}
}

// A target may have no path for HAProxy, and is checked nevertheless.
func TestHAProxyChecksEveryRequestTarget(t *testing.T) {
	s := &site{T: t, app: new(application)}
	s.node = direct(t).node
	s.put("targets", `{"match":["path:*"],"rules":["1000/1d"]}`)
	s.program(runHAProxy, strings.Replace(configuration(t, gateways[2], 0), "/v1/forward open", "/v1/forward?policy=targets&by=path open", 1))
	for _, path := range []string{"/", "/*", "/shop.example", "/shop.example/a"} {
		s.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"path:`+path+`","reason":"test"}`, http.StatusCreated)
	}
	for _, target := range []string{"/", "*", "http://shop.example", "http://shop.example/", "shop.example", "shop.example/a"} {
		for _, method := range []string{"GET", "OPTIONS", "POST"} {
			line := s.raw(method + " " + target + " HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			if !strings.HasPrefix(line, "HTTP/1.1 403") && !strings.HasPrefix(line, "HTTP/1.1 400") {
				t.Errorf("%s %s: got %q, want a refusal", method, target, line)
			}
		}
	}
}

// The header that a configuration writes the target into is the one of its very name.
func TestHAProxySendsNoTargetOfAClient(t *testing.T) {
	s := &site{T: t, app: new(application)}
	s.node = direct(t).node
	s.put("targets", `{"match":["path:*"],"rules":["1000/1d"]}`)
	s.program(runHAProxy, strings.Replace(configuration(t, gateways[2], 0), "http-request lua.stint http://127.0.0.1:8080/v1/forward open",
		"http-request set-header X-Original-Uri %[path]\n    http-request lua.stint http://127.0.0.1:8080/v1/forward?policy=targets&by=path:X-Original-Uri open", 1))
	s.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"path:/private","reason":"test"}`, http.StatusCreated)
	s.expect("another path", s.get("/other"), http.StatusOK)
	for _, name := range []string{"X-Original-Uri", "X_Original_Uri", "X-Original_Uri", "X_Original-Uri"} {
		s.expect("a path with the target of another in "+name, s.get("/private", name+": /other"), http.StatusForbidden)
	}
}

// Where the URL counts by the agent too, the agent for conditions is the one of its very name.
func TestHAProxySendsNoOtherAgent(t *testing.T) {
	s := &site{T: t, app: new(application)}
	s.node = direct(t).node
	s.put("agents", `{"match":["header:*"],"rules":["1000/1d"]}`)
	s.node.Do(t, http.MethodPut, "/v1/policies/scanners?confirm=scanners", `{"match":["header:*"],"rules":["0/1s"],"when":{"agent":["*sqlmap*"]}}`, http.StatusCreated)
	s.program(runHAProxy, strings.Replace(configuration(t, gateways[2], 0), "/v1/forward open", "/v1/forward?policy=agents&by=header:User-Agent open", 1))
	s.expect("a browser", s.get("/", "User-Agent: Mozilla/5.0"), http.StatusOK)
	for _, names := range [][]string{{}, {"User_Agent"}, {"User_Agent", "A"}, {"User_Agent", "B", "C"}} {
		headers := []string{"User-Agent: sqlmap/1.8"}
		for _, name := range names {
			headers = append(headers, name+": Mozilla/5.0")
		}
		s.expect(fmt.Sprintf("a scanner with %q", names), s.get("/", headers...), http.StatusTooManyRequests)
	}
}

// manyCookies returns n further values of a cookie.
func manyCookies(name string, n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "; %s=of-%d", name, i)
	}
	return all.String()
}

// What HAProxy is not configured to send is not missing: a condition on it is met by nobody, and not by everybody.
func TestHAProxySaysWhatItSends(t *testing.T) {
	s := &site{T: t, app: new(application)}
	s.node = direct(t).node
	s.put("site", `{"match":["ip:*"],"rules":["1000/1d"]}`)
	for name, when := range map[string]string{"unsent": `"header":{"accept-encoding":["not *"]}`, "cookieless": `"cookie":{"cart":["not *"]}`, "sent": `"header":{"accept-language":["not *"]}`, "named": `"header":{"x-client":["not *"]}`} {
		s.put(name, `{"match":["*"],"rules":["0/1s"],"when":{"path":["/`+name+`"],`+when+`}}`)
	}
	s.program(runHAProxy, strings.Replace(configuration(t, gateways[2], 0), "/v1/forward open", "/v1/forward?policy=site&sends=header:X-Client,cookie:cart&by=ip open", 1))
	for path, c := range map[string]struct {
		lines string
		want  int
	}{
		"/unsent": {"", http.StatusOK}, "/cookieless": {"", http.StatusTooManyRequests}, "/sent": {"", http.StatusTooManyRequests}, "/named": {"", http.StatusTooManyRequests},
		"/cookieless?": {"Cookie: cart=1", http.StatusOK}, "/sent?": {"Accept-Language: nl", http.StatusOK}, "/named?": {"X-Client: a", http.StatusOK},
	} {
		var lines []string
		if c.lines != "" {
			lines = append(lines, c.lines)
		}
		s.expect(path+" "+c.lines, s.get(path, lines...), c.want)
	}
}
