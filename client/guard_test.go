package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/test/testnode"
)

// site is a handler behind a guard.
func site(t testing.TB, g *client.Guard) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d := client.DecisionOf(r.Context()); d != nil {
			_, _ = io.WriteString(w, string(d.Outcome))
		}
	})))
	t.Cleanup(s.Close)
	return s
}

type answer struct {
	status int
	header http.Header
	body   string
}

func visit(t testing.TB, url string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(text)}
}

func byHeader(kind string) func(*http.Request) string {
	return func(r *http.Request) string { return kind + ":" + r.Header.Get("X-Client") }
}

func TestGuardSetsRateLimitHeadersAndRefusesWith429(t *testing.T) {
	s, me := site(t, &client.Guard{Client: connect(t), Key: byHeader("site")}), fresh("a")
	for i, want := range []string{`"3/1d";r=2;t=86400`, `"3/1d";r=1;t=86400`, `"3/1d";r=0;t=86`} {
		a := visit(t, s.URL, "X-Client", me)
		if a.status != 200 || a.body != "allowed" || a.header.Get("RateLimit-Policy") != `"3/1d";q=3;w=86400` || !strings.HasPrefix(a.header.Get("RateLimit"), want) {
			t.Errorf("visit %d: %+v", i, a)
		}
	}
	a := visit(t, s.URL, "X-Client", me)
	var problem struct {
		Type     string   `json:"type"`
		Title    string   `json:"title"`
		Status   int      `json:"status"`
		Detail   string   `json:"detail"`
		Code     string   `json:"code"`
		Violated []string `json:"violated-policies"`
		ID       string   `json:"id"`
	}
	if err := json.Unmarshal([]byte(a.body), &problem, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	if a.status != 429 || a.header.Get("Content-Type") != "application/problem+json" || a.header.Get("Retry-After") == "" ||
		!strings.HasPrefix(a.header.Get("RateLimit"), `"3/1d";r=0;t=`) {
		t.Errorf("a refused request: got %+v", a)
	}
	if problem.Status != 429 || problem.Code != "limited" || problem.ID == "" || len(problem.Violated) != 1 || problem.Violated[0] != "3/1d" || !strings.HasSuffix(problem.Type, "#quota-exceeded") {
		t.Errorf("a refused request: got the problem %+v", problem)
	}
	if d := ask(t, connect(t), client.Check{Key: "site:" + me, Peek: true}); d.Allowed {
		t.Errorf("the guard did not charge: %+v", d)
	}
}

// Only the paths of challenges themselves reach Stint without a check, however others are written.
func TestPathsOfChallengesAreExact(t *testing.T) {
	c := connect(t)
	s, me := site(t, &client.Guard{Client: c, Key: byHeader("site")}), fresh("paths")
	for _, path := range []string{"../../secret", "../../v1/openapi.json", "%2e%2e/%2e%2e/secret", "pass/../../../secret", "%63hallenge", "..%2f..%2fsecret", "", "other", "challenge/"} {
		if a := visit(t, s.URL+client.ChallengePrefix+path, "X-Client", me+path); a.status != 200 || a.body != "allowed" {
			t.Errorf("%s is not checked as any other path: %+v", path, a)
		}
		r := httptest.NewRecorder()
		if c.ChallengeHandler().ServeHTTP(r, httptest.NewRequest(http.MethodGet, client.ChallengePrefix+path, nil)); r.Code != http.StatusNotFound || r.Body.String() != "404 page not found\n" {
			t.Errorf("%s is handed on: %d, %s", path, r.Code, r.Body)
		}
	}
	for _, path := range []string{"challenge", "challenge?to=/a", "pass?c=x", "continue"} {
		if a := visit(t, s.URL+client.ChallengePrefix+path, "X-Client", me); a.body == "allowed" {
			t.Errorf("%s is not handed on", path)
		}
	}
}

func TestGuardRefusesBlockedKeysWith403WithoutDetails(t *testing.T) {
	s, me := site(t, &client.Guard{Client: connect(t), Key: byHeader("site")}), fresh("a")
	testnode.Shared().Do(t, "POST", "/v1/blocks", `{"pattern":"site:`+me+`","reason":"the secret reason","expires_in":"1h"}`, 201)
	a := visit(t, s.URL, "X-Client", me)
	if a.status != 403 || a.header.Get("Content-Type") != "application/problem+json" || a.header.Get("Retry-After") == "" || a.header.Get("RateLimit") != "" {
		t.Errorf("got %+v", a)
	}
	if strings.Contains(a.body, "secret") || strings.Contains(a.body, me) {
		t.Errorf("the answer contains the key or the reason of the block: %s", a.body)
	}
}

func TestGuardAnswers400ToBadKeysAndFollowsTheOutageMode(t *testing.T) {
	var reported error
	report := func(_ *http.Request, err error) { reported = err }
	s := site(t, &client.Guard{Client: connect(t), Key: byHeader("site"), OnError: report})
	if a := visit(t, s.URL, "X-Client", strings.Repeat("a", 600)); a.status != 400 || reported == nil || strings.Contains(a.body, "aaa") {
		t.Errorf("a key of 600 bytes: got %+v, %v, want 400", a, reported)
	}
	wrong := site(t, &client.Guard{Client: connect(t), Policy: "nobody", OnError: report})
	if a := visit(t, wrong.URL); a.status != 503 {
		t.Errorf("an unknown policy: got %+v, want 503", a)
	}
	for name, test := range map[string]struct {
		outage client.OnOutage
		status int
	}{"an error": {client.ReturnError, 503}, "open": {client.FailOpen, 200}, "closed": {client.FailClosed, 503}} {
		reported = nil
		w := lossy(t, first(1000, garbage))
		s := site(t, &client.Guard{Client: connectTo(t, w.URL, client.WithOutage(test.outage)), OnError: report})
		a := visit(t, s.URL)
		var outage *client.OutageError
		if a.status != test.status || !errors.As(reported, &outage) || (test.status == 503) != (a.header.Get("Retry-After") == "1") {
			t.Errorf("mode %s: got %+v, reported %v", name, a, reported)
		}
	}
}

func TestGuardChargesTheCostAndAcceptsHostileMeta(t *testing.T) {
	s := site(t, &client.Guard{
		Client: connect(t), Key: byHeader("site"), Cost: func(*http.Request) int { return 2 },
		Meta: func(r *http.Request) map[string]string { return map[string]string{"agent": r.UserAgent()} },
	})
	me := fresh("a")
	hostile := strings.Repeat("\u00fc", 400) + "\xff\t"
	if a := visit(t, s.URL, "X-Client", me, "User-Agent", hostile); a.status != 200 {
		t.Errorf("got %+v", a)
	}
	if a := visit(t, s.URL, "X-Client", me, "User-Agent", hostile); a.status != 429 {
		t.Errorf("got %+v", a)
	}
}

func TestGuardSkipsRequestsWithoutAKey(t *testing.T) {
	w := lossy(t, first(0, none))
	s := site(t, &client.Guard{Client: connectTo(t, w.URL), Key: func(*http.Request) string { return "" }})
	if a := visit(t, s.URL); a.status != 200 || a.body != "" || w.calls.Load() != 0 {
		t.Errorf("got %+v after %d calls, want 200 after none", a, w.calls.Load())
	}
	if client.DecisionOf(context.Background()) != nil {
		t.Error("DecisionOf a context without a decision is not nil")
	}
}

// Each refusal counts as an offence unless the guard remembers refusals.
func TestGuardCachesRefusalsOnlyIfRememberIsSet(t *testing.T) {
	for name, remember := range map[string]bool{"without Remember": false, "with Remember": true} {
		w, me := lossy(t, first(0, none)), fresh("a")
		s := site(t, &client.Guard{Client: connectTo(t, w.URL), Key: byHeader("never"), Remember: remember})
		visits := int64(0)
		for range 20 {
			visit(t, s.URL, "X-Client", me)
			visits++
		}
		for remember && w.calls.Load() == visits && visits < 200 { // a loaded machine lets the memory pass
			visit(t, s.URL, "X-Client", me)
			visits++
		}
		if asked := w.calls.Load(); (asked == visits) == remember {
			t.Errorf("%s: %d calls for %d requests", name, asked, visits)
		}
	}
}

func TestAddressKeysIgnoreForgedForwardedHeaders(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, test := range map[string]struct {
		remote    string
		forwarded []string
		want      string
		alone     string // what AddressKey returns
	}{
		"no header":                  {"203.0.113.7:4711", nil, "ip:203.0.113.7", "ip:203.0.113.7"},
		"a forged header":            {"203.0.113.7:4711", []string{"198.51.100.1"}, "ip:203.0.113.7", "ip:203.0.113.7"},
		"behind a proxy":             {"10.0.0.1:80", []string{"198.51.100.1"}, "ip:198.51.100.1", "ip:10.0.0.1"},
		"behind a proxy, forged":     {"10.0.0.1:80", []string{"192.0.2.1, 198.51.100.1"}, "ip:198.51.100.1", "ip:10.0.0.1"},
		"behind two, in two lines":   {"10.0.0.1:80", []string{"192.0.2.1,198.51.100.1", "10.0.0.2"}, "ip:198.51.100.1", "ip:10.0.0.1"},
		"a proxy with a bad address": {"10.0.0.1:80", []string{"198.51.100.1, unknown"}, "ip:10.0.0.1", "ip:10.0.0.1"},
		"a proxy without a header":   {"10.0.0.1:80", nil, "ip:10.0.0.1", "ip:10.0.0.1"},
		"IPv6 behind an IPv6 proxy":  {"[fd00::1]:80", []string{"[2001:db8::7]:443"}, "ip:2001:db8::7", "ip:fd00::1"},
		"a mapped address":           {"[::ffff:203.0.113.7]:80", nil, "ip:203.0.113.7", "ip:203.0.113.7"},
		"a zone":                     {"[fe80::1%eth0]:80", nil, "ip:fe80::1", "ip:fe80::1"},
		"a Unix socket":              {"@", []string{"198.51.100.1"}, "peer:unknown", "peer:unknown"},
	} {
		r := &http.Request{RemoteAddr: test.remote, Header: http.Header{"X-Forwarded-For": test.forwarded}}
		if got := client.AddressKeyBehind(proxies...)(r); got != test.want {
			t.Errorf("%s: AddressKeyBehind: got %s, want %s", name, got, test.want)
		}
		if got := client.AddressKey(r); got != test.alone {
			t.Errorf("%s: AddressKey: got %s, want %s", name, got, test.alone)
		}
		if got := client.AddressKeyBehind()(r); got != test.alone {
			t.Errorf("%s: AddressKeyBehind without proxies: got %s, want %s", name, got, test.alone)
		}
	}
}

func TestReplyToLeavesInvalidRulesOutOfHeaders(t *testing.T) {
	d := &client.Decision{Answer: client.Answer{Outcome: client.Limited}, Rule: "1/s\r\nX: y", Rules: []client.RuleState{{Rule: "5/1m\"\r\nX: y", Limit: 5, Window: 60e9}}}
	r := client.ReplyTo(d, nil)
	if len(r.Header["Ratelimit"]) > 0 || r.Header.Get("RateLimit-Policy") != "" || strings.Contains(string(r.Body), "X: y") {
		t.Errorf("ReplyTo: got %+v %s", r.Header, r.Body)
	}
}
