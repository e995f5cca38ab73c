package doors

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/testnode"
)

// used returns how much of the only rule a key has used under the policy site.
func (s *site) used(key string) int {
	s.Helper()
	var shown struct {
		Policy struct {
			Rules []struct {
				Used int `json:"used"`
			} `json:"rules"`
		} `json:"policy"`
	}
	body := s.node.Do(s.T, http.MethodGet, "/v1/keys?policy=site&key="+key, "", http.StatusOK)
	if err := json.Unmarshal(body, &shown); err != nil || len(shown.Policy.Rules) != 1 {
		s.Fatalf("%v: %s", err, body)
	}
	return shown.Policy.Rules[0].Used
}

// The minimal configuration expects no proxy in front of the gateway, so that no header
// may choose the address.
func TestMinimalConfigurationLimits(t *testing.T) {
	for _, g := range underTest() {
		t.Run(g.name, func(t *testing.T) {
			s := start(t, g, 0)
			for i := range 3 {
				forged := fmt.Sprintf("203.0.113.%d", i)
				r := s.get("/page", "X-Forwarded-For: "+forged, "X-Real-IP: "+forged, "Forwarded: for="+forged, "CF-Connecting-IP: "+forged)
				s.expect("allowed", r, http.StatusOK)
				if r.body != "the application" {
					t.Errorf("request %d: got %q", i, r.body)
				}
			}
			s.expect("limited", s.get("/page", "X-Forwarded-For: 203.0.113.9"), http.StatusTooManyRequests)
			if n := s.app.count(); n != 3 {
				t.Errorf("the application received %d requests", n)
			}
		})
	}
}

// The query of the client must not choose anything either.
func TestGatewayIgnoresTheQueryOfTheClient(t *testing.T) {
	for _, g := range underTest() {
		t.Run(g.name, func(t *testing.T) {
			s := start(t, g, 0)
			for _, query := range []string{"?x=1", "?by=host&policy=other&cost=1000", "?&%zz"} {
				s.expect("allowed", s.get("/page"+query), http.StatusOK)
			}
			for _, query := range []string{"", "?", "?x=1", "?by=host", "?by=header:X-Fresh", "?by=method", "?policy=other"} {
				s.expect("limited with "+query, s.get("/page"+query, "X-Fresh: 1"), http.StatusTooManyRequests)
			}
		})
	}
}

// The proxy in front of the gateway passes on all headers of its client except that
// of the address. None of them may describe the request.
func TestGatewayIgnoresForwardedHeadersOfTheClient(t *testing.T) {
	const written, instead = "policy=website&by=ip&by=header:X-Api-Key", "policy=site&by=path&by=host&by=method"
	for _, g := range underTest() {
		if g.language == "js" { // frameworks call /v1/check and have the request themselves
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			config := configuration(t, g, 1)
			if !strings.Contains(config, written) {
				t.Fatalf("the complete configuration does not call Stint with %s", written)
			}
			s := &site{T: t, node: testnode.Start(t, "--trusted-proxies", "127.0.0.1"), app: new(application)}
			s.put("site", `{"match":["path:*"],"rules":["100/1d"]}`)
			s.program(g.run, strings.Replace(config, written, instead, 1))
			before := s.used("path:/page")
			s.expect("allowed", s.get("/page", "X-Forwarded-Uri: /other", "X-Forwarded-Method: DELETE", "X-Forwarded-Host: other.example", "Forwarded: host=other.example"), http.StatusOK)
			if used := s.used("path:/page"); used != before+1 {
				t.Errorf("path:/page has used %d, want %d", used, before+1)
			}
			for _, key := range []string{"path:/other", "method:DELETE", "host:other.example"} {
				if used := s.used(key); used != 0 {
					t.Errorf("%s has used %d", key, used)
				}
			}
		})
	}
}

func TestCompleteConfigurationWorksAsDocumented(t *testing.T) {
	for _, g := range underTest() {
		t.Run(g.name, func(t *testing.T) {
			s := start(t, g, 1)
			first := s.get("/page?policy=other&cost=1000&by=host",
				"X-Stint-Policy: other", "X-Policy: other", "X-Stint-Cost: 1000", "Authorization: Bearer stolen", "Idempotency-Key: 1", "X-Request-Id: 1")
			s.expect("the client's query and headers choose nothing", first, http.StatusOK)
			if got := first.header.Get("RateLimit"); !strings.Contains(got, "r=2") && !g.hidesLimit {
				t.Errorf("RateLimit of an allowed answer: %q, want r=2", got)
			}
			if used := s.used("ip:" + client); used != 1 {
				t.Fatalf("%s has used %d, want 1", client, used)
			}
			s.expect("a forged address", s.get("/", "X-Forwarded-For: 203.0.113.9, "+client, "Forwarded: for=203.0.113.9", "X-Client-IP: 203.0.113.9",
				"Idempotency-Key: 1", "X-Request-Id: 1"), http.StatusOK)
			if used := s.used("ip:" + client); used != 2 {
				t.Errorf("with a forged Forwarded %s has used %d, want 2", client, used)
			}
			body := strings.Repeat("x", 100<<10)
			s.expect("a body that Stint does not read", s.send(http.MethodPost, "/upload", body, "Content-Type: text/plain"), http.StatusOK)
			if last := s.app.last(); !strings.HasSuffix(last, " 102400") {
				t.Errorf("the application received %s", last)
			}
			for range 3 { // the next request on the connection is not read as a part of the body
				limited := s.send(http.MethodPost, "/upload", body, "Content-Type: text/plain")
				s.expect("limited, with an unread body", limited, http.StatusTooManyRequests)
				if limited.header.Get("Retry-After") == "" {
					t.Errorf("a limited answer has no Retry-After: %v", limited.header)
				}
			}
			if n := s.app.count(); n != 3 {
				t.Errorf("the application received %d requests, want 3", n)
			}

			other := []string{"X-Real-IP: 198.51.100.8", "X-Forwarded-For: 198.51.100.8"}
			s.expect("another address", s.get("/", other...), http.StatusOK)
			s.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"ip:198.51.100.8","reason":"test","expires_in":"1h"}`, http.StatusCreated)
			s.expect("blocked", s.get("/", other...), http.StatusForbidden)
			for what, lines := range unreadable() {
				if line := s.raw("GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n" + strings.Join(other, "\r\n") + "\r\n" + lines + "\r\n"); strings.Contains(line, " 200 ") {
					t.Errorf("blocked, with %s: %q", what, line)
				}
			}
			s.expect("blocked again", s.get("/", other...), http.StatusForbidden)
			s.node.Do(t, http.MethodPost, "/v1/exemptions", `{"pattern":"ip:198.51.100.8","reason":"test","expires_in":"1h"}`, http.StatusCreated)
			for range 5 {
				exempt := s.get("/", other...)
				s.expect("exempt", exempt, http.StatusOK)
				if got := exempt.header.Get("RateLimit"); got != "" {
					t.Errorf("exempt: got the RateLimit %q, want none", got)
				}
			}

			s.node.Kill()
			s.expect("Stint is stopped", s.get("/", "X-Real-IP: 198.51.100.9", "X-Forwarded-For: 198.51.100.9"), g.down)
		})
	}
}

// unreadable are header lines that a client may send so that Stint does not answer, or that
// the gateway does not call it.
func unreadable() map[string]string {
	all := map[string]string{
		"a control character":                   "X-A: a\x01b\r\n",
		"a DEL":                                 "X-A: a\x7fb\r\n",
		"a control character in the User-Agent": "User-Agent: a\x01b\r\n",
		"a control character in the API key":    "X-Api-Key: a\x01b\r\n",
		"large headers":                         strings.Repeat("X-B: "+strings.Repeat("b", 7000)+"\r\n", 3),
		"a large User-Agent":                    "User-Agent: " + strings.Repeat("b", 9000) + "\r\n",
	}
	for n := 93; n <= 101; n++ {
		all[fmt.Sprint(n, " headers")] = strings.Repeat("X-C: c\r\n", n)
		var lines strings.Builder
		for i := range n {
			fmt.Fprintf(&lines, "X-%d: c\r\n", i)
		}
		all[fmt.Sprint(n, " names")] = lines.String()
	}
	return all
}

// raw sends text that no HTTP client would send and returns the first line of the answer, "" for none.
func (s *site) raw(request string) string {
	s.Helper()
	c, err := net.DialTimeout("tcp", strings.TrimPrefix(s.url, "http://"), 10*time.Second)
	if err != nil {
		s.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		s.Fatal(err)
	}
	_, _ = io.WriteString(c, request) // a gateway that refuses may close it before
	line, _ := bufio.NewReader(c).ReadString('\n')
	return line
}

// While Redis is stopped, the on_failure of the policy decides, and the gateway follows it.
func TestGatewayFollowsOnFailure(t *testing.T) {
	for _, g := range underTest() {
		t.Run(g.name, func(t *testing.T) {
			redis := servers.DedicatedRedis(t)
			s := start(t, g, 1, "--redis-url", redis.URL, "--database-url", servers.Postgres(t).URL)
			s.expect("before", s.get("/"), http.StatusOK)
			redis.Stop()
			t.Cleanup(redis.Continue)
			for onFailure, status := range map[string]int{"deny": http.StatusServiceUnavailable, "allow": http.StatusOK} {
				s.put("site", `{"match":["ip:*"],"rules":["3/1d"],"on_failure":"`+onFailure+`"}`)
				for range 5 {
					s.expect(onFailure, s.get("/"), status)
				}
			}
		})
	}
}

// nginx understands no refusal but 403, and shows it as what it is.
func TestMinimalNginxConfigurationPassesOnA503(t *testing.T) {
	redis := servers.DedicatedRedis(t)
	s := start(t, gateways[0], 0, "--redis-url", redis.URL, "--database-url", servers.Postgres(t).URL)
	s.put("site", `{"match":["ip:*"],"rules":["3/1d"],"on_failure":"deny"}`)
	s.expect("before", s.get("/"), http.StatusOK)
	redis.Stop()
	t.Cleanup(redis.Continue)
	s.expect("while Redis is stopped", s.get("/"), http.StatusServiceUnavailable)
}

func TestGatewayAllowsExactlyTheLimit(t *testing.T) {
	for _, g := range underTest() {
		t.Run(g.name, func(t *testing.T) {
			s := start(t, g, 1)
			workers, each := 8, 2500
			if g.language == "js" {
				each = 250
			}
			limit := workers * each * 3 / 4
			s.put("site", fmt.Sprintf(`{"match":["ip:*"],"rules":["%d/1d"]}`, limit))
			before := dialed.Load()
			var allowed atomic.Int64
			var wait sync.WaitGroup
			for range workers {
				wait.Go(func() {
					for range each {
						switch r := s.get("/"); r.status {
						case http.StatusOK:
							allowed.Add(1)
						case http.StatusTooManyRequests:
						default:
							t.Errorf("got %d: %s", r.status, r.body)
							return
						}
					}
				})
			}
			wait.Wait()
			if n := allowed.Load(); n != int64(limit) || s.app.count() != limit {
				t.Errorf("%d requests were allowed and %d reached the application, want %d", n, s.app.count(), limit)
			}
			if opened := dialed.Load() - before; opened > int64(workers*each/100) {
				t.Errorf("%d connections were opened for %d requests", opened, workers*each)
			}
		})
	}
}

// nginx calls Stint again for each internal redirect of try_files.
func TestNginxRedirectsAreChargedOnce(t *testing.T) {
	s := start(t, gateways[0], 1)
	for i := range 3 {
		s.expect("through try_files", s.get("/missing"), http.StatusOK)
		if used := s.used("ip:" + client); used != i+1 {
			t.Fatalf("after %d requests %d are charged, want the same", i+1, used)
		}
	}
}
