package doors

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/testnode"
)

// direct returns a node that is called without a gateway, from a trusted address.
func direct(t *testing.T, flags ...string) *site {
	t.Helper()
	s := &site{T: t, node: testnode.Start(t, append([]string{"--trusted-proxies", "127.0.0.1"}, flags...)...)}
	s.url = s.node.Check
	s.put("site", `{"match":["ip:*"],"rules":["3/1d"]}`)
	return s
}

func hashed(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:])[:32]
}

func TestForwardByMakesKeysOfRequestParts(t *testing.T) {
	s := direct(t)
	long := strings.Repeat("a", 300)
	for i, c := range []struct {
		query   string // behind policy=site
		headers []string
		key     string
	}{
		{"", nil, "ip:198.51.100.7"},
		{"&by=ip", nil, "ip:198.51.100.7"},
		{"&by=header:X-Api-Key", []string{"X-Api-Key: secret"}, "header:x-api-key:" + hashed("secret")},
		{"&by=cookie:session", []string{"Cookie: a=1; session=s3; b=2"}, "cookie:session:" + hashed("s3")},
		{"&by=cookie:connect.sid", []string{"Cookie: connect.sid=s3; connect_sid=s4"}, "cookie:connect.sid:" + hashed("s3")},
		{"&by=plain-header:X-User", []string{"X-User: alice"}, "header:x-user:alice"},
		{"&by=plain-header:X-User", []string{"X-User: " + long}, "header:x-user:sha256-" + hashed(long)},
		{"&by=host", []string{"X-Forwarded-Host: WWW.Example.org:8443"}, "host:www.example.org"},
		{"&by=path", []string{"X-Forwarded-Uri: //a/./%6cogin/..;p/login;s=1?x=1"}, "path:/a/login"},
		{"&by=path:X-Original-Uri", []string{"X-Original-Uri: /b", "X-Forwarded-Uri: /c"}, "path:/b"},
		{"&by=path&path=/d/e?policy=other&by=host", nil, "path:/d/e"},
		{"&by=method", []string{"X-Forwarded-Method: POST"}, "method:POST"},
		// Parts that the request does not have.
		{"&by=header:X-Other", nil, "ip:198.51.100.7"},
		{"&by=cookie:other&by=ip", nil, "ip:198.51.100.7"},
	} {
		before := s.used(c.key)
		headers := append([]string{fmt.Sprintf("X-Case: %d", i)}, c.headers...)
		// A policy for each case would not show that the key is right: the keys differ instead,
		// and the address is reset.
		s.node.Do(t, http.MethodDelete, "/v1/keys?key=ip:198.51.100.7&policy=site", "", http.StatusOK)
		if c.key == "ip:198.51.100.7" {
			before = 0
		}
		s.expect(c.query, s.get("/v1/forward?policy=site"+c.query, headers...), http.StatusOK)
		if used := s.used(c.key); used != before+1 {
			t.Errorf("%s: %s has used %d, want %d", c.query, c.key, used, before+1)
		}
	}
}

// A header or a cookie is missing only if the gateway would have sent it.
func TestForwardTakesNothingUnsentForMissing(t *testing.T) {
	s := direct(t)
	s.put("site", `{"match":["ip:*"],"rules":["1000/1d"]}`)
	for name, when := range map[string]string{"header": `"header":{"x-client":["not *"]}`, "cookie": `"cookie":{"cart":["not *"]}`} {
		s.put("no-"+name, `{"match":["ip:*"],"rules":["0/1s"],"when":{`+when+`}}`)
	}
	for _, c := range []struct {
		query, lines string
		want         int
	}{
		{"", "X-Client: a\nCookie: cart=1", http.StatusOK}, {"", "Cookie: cart=1", http.StatusTooManyRequests}, {"", "X-Client: a", http.StatusTooManyRequests},
		{"&path=/a", "", http.StatusOK}, {"&path=/a", "Cookie: a=1", http.StatusTooManyRequests},
		{"&sends=header:Accept", "", http.StatusOK}, {"&sends=header:Accept,header:X-Client", "", http.StatusTooManyRequests}, {"&sends=header:X-Client&path=/a", "", http.StatusTooManyRequests},
		{"&sends=cookie:cart", "", http.StatusTooManyRequests}, {"&sends=header:Accept", "Cookie: a=1", http.StatusOK}, {"&sends=ip", "", http.StatusUnprocessableEntity},
		{"&sends=header:Accept&sends=header:Cookie", "", http.StatusUnprocessableEntity},
	} {
		s.expect(c.query+" "+c.lines, s.get("/v1/forward?policy=site"+c.query, slices.DeleteFunc(strings.Split(c.lines, "\n"), func(line string) bool { return line == "" })...), c.want)
	}
}

func TestForwardChargesAllKeysOrNone(t *testing.T) {
	s := direct(t)
	ask := func(key string) reply {
		return s.get("/v1/forward?policy=site&by=ip&by=header:X-Api-Key", "X-Api-Key: "+key)
	}
	for range 3 {
		s.expect("allowed", ask("one"), http.StatusOK)
	}
	r := ask("two")
	s.expect("the address is used up", r, http.StatusTooManyRequests)
	for name, want := range map[string]string{"X-Stint-Decision": "limited", "X-Stint-Status": "429"} {
		if got := r.header.Get(name); got != want {
			t.Errorf("header %s: got %q, want %q", name, got, want)
		}
	}
	if id := r.header.Get("X-Stint-Refusal-Id"); id == "" {
		t.Errorf("a refusal has no id: %v", r.header)
	}
	if used := s.used("header:x-api-key:" + hashed("two")); used != 0 {
		t.Errorf("a refused check charged the other key: %d", used)
	}
	if strings.Contains(r.body, "site") {
		t.Errorf("the answer contains the name of the policy: %s", r.body)
	}
}

func TestForwardRefuseParameterReplaces429By403(t *testing.T) {
	s := direct(t)
	for range 3 {
		s.expect("allowed", s.get("/v1/forward?policy=site&refuse=403"), http.StatusOK)
	}
	r := s.get("/v1/forward?policy=site&refuse=403")
	s.expect("limited", r, http.StatusForbidden)
	if r.header.Get("X-Stint-Status") != "429" || r.header.Get("Retry-After") == "" || r.header.Get("RateLimit") == "" || r.header.Get("RateLimit-Policy") == "" {
		t.Errorf("a limited request with refuse=403: got the headers %v", r.header)
	}
}

func TestForwardIDIsChargedOnce(t *testing.T) {
	s := direct(t)
	for range 5 {
		s.expect("the same request", s.get("/v1/forward?policy=site&id=header:X-Request-Id", "X-Request-Id: "+strings.Repeat("x", 200)), http.StatusOK)
	}
	for range 2 { // no id without the parameter
		s.expect("another", s.get("/v1/forward?policy=site", "X-Request-Id: 1", "Idempotency-Key: 1"), http.StatusOK)
	}
	if used := s.used("ip:" + client); used != 3 {
		t.Errorf("%d requests are charged, want 3", used)
	}
}

func TestForwardAnswersEveryMethodAndSuffix(t *testing.T) {
	s := direct(t)
	s.put("site", `{"match":["ip:*","method:*","path:*"],"rules":["100/1d"]}`)
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND", "PURGE", "FOO"} {
		s.expect(method, s.send(method, "/v1/forward?policy=site&by=method", "", "Content-Type: text/plain"), http.StatusOK)
		if used := s.used("method:" + method); used != 1 {
			t.Errorf("%s: its key has used %d", method, used)
		}
	}
	// A query after a suffix is that of the client.
	s.expect("a suffix", s.get("/v1/forward/a/b?policy=nonsense&cost=1000"), http.StatusOK)
	if used := s.used("ip:" + client); used != 1 {
		t.Errorf("requests with a suffix: %d were charged, want 1", used)
	}
	s.expect("another path", s.get("/v1/forwarded"), http.StatusNotFound)
	s.expect("another route keeps its methods", s.send("PROPFIND", "/v1/check", ""), http.StatusNotImplemented)
}

func TestForwardNamesBadParameters(t *testing.T) {
	s := direct(t)
	for query, want := range map[string]string{
		"policy=nonsense":      "no policy of that name",
		"cost=0":               "1 to 1000",
		"cost=1001":            "can never be allowed",
		"cost=1&cost=2":        "twice",
		"by=":                  "ip, header:NAME",
		"by=header":            "name",
		"by=header:":           "name",
		"by=ip:x":              "name",
		"by=header:a%20b":      "NAME",
		"by=ip&by=ip":          "twice",
		"refuse=429":           "403",
		"id=X-Request-Id":      "header:",
		"source=a%0ab":         "control character",
		"source=%ff":           "UTF-8",
		"key=ip:203.0.113.1":   "not a parameter",
		"policy=%zz":           "encoded",
		"by=header:X%0d%0aFoo": "name",
	} {
		r := s.get("/v1/forward?" + query)
		var problem struct{ Detail, Code string }
		if err := json.Unmarshal([]byte(r.body), &problem); err != nil || r.status < 400 || r.status >= 500 || r.status == 429 {
			t.Errorf("%s: got %d %s", query, r.status, r.body)
			continue
		}
		if !strings.Contains(r.body, want) {
			t.Errorf("%s: %q does not say %q", query, problem.Detail, want)
		}
	}
	if used := s.used("ip:" + client); used != 0 {
		t.Errorf("invalid requests charged %d, want 0", used)
	}
}

// If a gateway passed on the query of its client, the client could choose what is checked.
func TestForwardRefusesTheQueryOfTheClient(t *testing.T) {
	s := direct(t)
	for query, status := range map[string]int{
		"by=host": http.StatusUnprocessableEntity, "policy=site": http.StatusUnprocessableEntity, "x": http.StatusUnprocessableEntity,
		"by=ip": http.StatusOK, "": http.StatusOK,
	} {
		uri := "/page?" + query
		if status == http.StatusOK {
			uri = "/page?x=1"
		}
		s.expect(query, s.get("/v1/forward?"+query, "X-Forwarded-Uri: "+uri), status)
	}
}

func TestForwardIgnoresHeadersOfAnUntrustedPeer(t *testing.T) {
	s := &site{T: t, node: testnode.Start(t)}
	s.url = s.node.Check
	s.put("site", `{"match":["ip:*"],"rules":["100/1d"]}`)
	s.expect("forged", s.get("/v1/forward?policy=site&by=ip&by=path&by=method&by=host&id=header:X-Request-Id",
		"X-Forwarded-Uri: /forged", "X-Forwarded-Method: PUT", "X-Forwarded-Host: forged.example", "X-Request-Id: 1"), http.StatusOK)
	for _, key := range []string{"ip:" + client, "path:/forged", "method:PUT", "host:forged.example"} {
		if used := s.used(key); used != 0 {
			t.Errorf("%s has used %d", key, used)
		}
	}
	if used := s.used("ip:127.0.0.1"); used != 1 {
		t.Errorf("the peer has used %d, want 1", used)
	}
	s.node.AwaitOutput(t, "is not among --trusted-proxies")
}

func TestForwardReadsTheTokenOnlyFromItsHeader(t *testing.T) {
	s := direct(t, "--check-auth", "token", "--forward-token-header", "X-Gate")
	made := s.node.Do(t, http.MethodPost, "/v1/tokens", `{"name":"gateway","scopes":["check"]}`, http.StatusCreated)
	var token struct{ Secret string }
	if err := json.Unmarshal(made, &token); err != nil || token.Secret == "" {
		t.Fatalf("%v: %s", err, made)
	}
	for what, header := range map[string]string{
		"no token": "X-Other: 1", "the client's Authorization": "Authorization: Bearer " + token.Secret,
		"the default header": "X-Stint-Token: " + token.Secret, "a wrong token": "X-Gate: nonsense",
	} {
		s.expect(what, s.get("/v1/forward?policy=site", header), http.StatusUnauthorized)
	}
	s.expect("the token", s.get("/v1/forward?policy=site", "X-Gate: "+token.Secret, "Authorization: Bearer of the client"), http.StatusOK)
}

// A gateway passes on the host name of its client.
func TestForwardAnswersUnderAnyHost(t *testing.T) {
	s := direct(t)
	for _, c := range []struct {
		path   string
		status int
	}{{"/v1/forward?policy=site", http.StatusOK}, {"/v1/check", http.StatusMisdirectedRequest}} {
		got := raw(t, s.node.Check, "POST "+c.path+" HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 0\r\n\r\n")
		if !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", c.status)) {
			t.Errorf("%s: got %s, want %d", c.path, got, c.status)
		}
	}
}

// raw sends bytes and returns the status line.
func raw(t *testing.T, url, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(maxWait)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// A body that the gateway passes on is not read as the next request.
func TestForwardDoesNotReadABodyAsTheNextRequest(t *testing.T) {
	s := direct(t)
	smuggled := "DELETE /v1/forward?policy=site HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
	for _, size := range []int{0, 100, 4096, 8192, 60000} {
		body := strings.Repeat("x", size) + smuggled
		request := fmt.Sprintf("POST /v1/forward?policy=nonsense HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		if got := raw(t, s.node.Check, request+"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"); strings.HasPrefix(got, "HTTP/1.1 2") {
			t.Errorf("%d bytes: got %s", size, got)
		}
	}
	if used := s.used("ip:127.0.0.1"); used != 0 {
		t.Errorf("%d bodies were read as requests, want 0", used)
	}
}

func TestForwardFollowsOnFailureWhileRedisIsStopped(t *testing.T) {
	redis := servers.DedicatedRedis(t)
	s := direct(t, "--redis-url", redis.URL, "--database-url", servers.Postgres(t).URL, "--check-deadline", "50ms")
	outcomes := map[string]int{"allow": http.StatusOK, "deny": http.StatusServiceUnavailable, "local": http.StatusOK}
	for name := range outcomes {
		s.put("down-"+name, `{"match":["down-`+name+`:*"],"rules":["1/1d"],"on_failure":"`+name+`"}`)
	}
	redis.Stop()
	t.Cleanup(redis.Continue)
	for name, status := range outcomes {
		r := s.get("/v1/forward?policy=down-" + name)
		s.expect(name, r, status)
		if r.header.Get("X-Stint-Degraded") == "" {
			t.Errorf("%s: the answer does not say that it is degraded: %v", name, r.header)
		}
	}
}

// The conditions of a trap match the client's request in any spelling, and nothing that
// an untrusted peer sends.
func TestForwardConditionsMatchTheRequestOfTheClient(t *testing.T) {
	s := direct(t)
	s.put("trap", `{"match":["ip:*"],"rules":["0/1s"],"when":{"path":["/.env*"],"host":["shop.example"]}}`)
	s.put("tool", `{"match":["ip:*"],"rules":["0/1s"],"when":{"agent":["*sqlmap*"],"method":["PUT"]}}`)
	s.expect("another path", s.get("/v1/forward", "X-Forwarded-Uri: /", "X-Forwarded-Host: shop.example"), http.StatusOK)
	s.expect("another host", s.get("/v1/forward", "X-Forwarded-Uri: /.env", "X-Forwarded-Host: other.example"), http.StatusOK)
	for _, uri := range []string{"/.env", "/%2eenv.bak?x=1", "//a/..//.env"} {
		s.expect(uri, s.get("/v1/forward", "X-Forwarded-Uri: "+uri, "X-Forwarded-Host: Shop.Example:443"), http.StatusTooManyRequests)
	}
	s.expect("another tool", s.get("/v1/forward", "X-Forwarded-Method: PUT", "User-Agent: curl/8"), http.StatusOK)
	s.expect("the tool", s.get("/v1/forward", "X-Forwarded-Method: PUT", "User-Agent: sqlMap/1.8"), http.StatusTooManyRequests)

	untrusted := &site{T: t, node: testnode.Start(t)}
	untrusted.url = untrusted.node.Check
	untrusted.put("trap", `{"match":["ip:*"],"rules":["0/1s"],"when":{"path":["/.env"]}}`)
	untrusted.expect("a forged path", untrusted.get("/v1/forward", "X-Forwarded-Uri: /.env"), http.StatusOK)
}
