package doors

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"html"
	"math/bits"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/testnode"
)

// cache is a program that puts a shared cache in front of a gateway. It keeps every answer to a GET for an hour,
// those of 401, 403, 429 and 503 and those with Set-Cookie too, for all cookies and clients together, unless
// the answer's headers forbid it; an answer's X-Cache is "hit" if it was kept.
type cache struct {
	name string
	run  func(s *site, listen, gateway string)
}

var caches = []cache{{"varnish", runVarnish}, {"nginx", runNginxCache}}

func runVarnish(s *site, listen, gateway string) {
	host, port, _ := strings.Cut(gateway, ":")
	config := write(s.T, "cache.vcl", fmt.Sprintf(`vcl 4.1;
backend default { .host = %q; .port = %q; }
sub vcl_recv { if (req.method != "GET") { return (pass); } return (hash); }
sub vcl_backend_response {
	if (beresp.http.Cache-Control ~ "(?i)no-store|no-cache|private") { set beresp.uncacheable = true; set beresp.ttl = 60s; return (deliver); }
	if (beresp.ttl <= 0s || beresp.http.Set-Cookie || beresp.status >= 300) { set beresp.ttl = 1h; }
	return (deliver);
}
sub vcl_deliver { if (obj.hits > 0) { set resp.http.X-Cache = "hit"; } else { set resp.http.X-Cache = "miss"; } }
`, host, port))
	execute(s.T, "varnishd", "-F", "-a", listen, "-f", config, "-n", filepath.Join(s.TempDir(), "varnish"), "-s", "malloc,16m", "-j", "none")
}

func runNginxCache(s *site, listen, gateway string) {
	dir := s.TempDir()
	runNginx(s, fmt.Sprintf(`proxy_cache_path %s/cache keys_zone=c:1m;
server {
	listen %s;
	location / {
		proxy_pass http://%s; proxy_set_header Host $http_host; proxy_http_version 1.1; proxy_set_header Connection "";
		proxy_cache c; proxy_cache_key $request_uri; proxy_ignore_headers Set-Cookie;
		proxy_cache_valid any 1h; add_header X-Cache $upstream_cache_status always;
	}
}`, dir, listen, gateway))
}

// isHit reports whether a cache answered.
func (r reply) isHit() bool { return strings.EqualFold(r.header.Get("X-Cache"), "hit") }

// solutionOf returns the link that solves the challenge of a page, as the page's script does.
func solutionOf(page string) string {
	found := challengePage.FindStringSubmatch(page)
	if found == nil {
		return ""
	}
	difficulty, _ := strconv.Atoi(found[3])
	for n := 0; ; n++ {
		if sum := sha256.Sum256([]byte(found[2] + strconv.Itoa(n))); bits.LeadingZeros32(binary.BigEndian.Uint32(sum[:])) >= difficulty {
			return html.UnescapeString(found[1]) + "&n=" + strconv.Itoa(n)
		}
	}
}

// A shared cache in front of a gateway serves no page, refusal, solution or pass of one visitor to another.
func TestASharedCacheServesNoVisitorsAnswerToAnother(t *testing.T) {
	behind := gateways
	if *built != "" {
		behind = underTest()
	}
	for _, g := range behind {
		for _, in := range caches {
			t.Run(g.name+" behind "+in.name, func(t *testing.T) {
				s := &site{T: t, node: testnode.Start(t, "--trusted-proxies", "127.0.0.1", "--challenge-difficulty", "8", "--challenge-passes", "1000"), app: new(application)}
				s.behind(g, 1)
				listen := servers.FreeAddress(t)
				in.run(s, listen, strings.TrimPrefix(s.url, "http://"))
				s.url = "http://" + listen
				s.await()
				s.cached(g.name != "haproxy") // which lacks the route of the widget here
			})
		}
	}
}

// cached plays visitors at a site behind a cache.
func (s *site) cached(hasWidget bool) {
	s.Helper()
	t := s.T
	s.put("site", `{"match":["ip:*"],"rules":["0/1d"],"on_limit":"challenge"}`)
	s.node.Do(t, http.MethodPost, "/v1/exemptions", `{"pattern":"ip:203.0.113.0/24","reason":"visitors within the limit","expires_in":"1h"}`, http.StatusCreated)
	s.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"ip:192.0.2.9","expires_in":"1h"}`, http.StatusCreated)
	from := func(address string, more ...string) []string {
		return append([]string{"X-Real-IP: " + address, "X-Forwarded-For: " + address}, more...)
	}
	free := from("203.0.113.1", browserAccepts)
	// ask asks three times, and the cache must not have answered.
	ask := func(what, target string, status int, headers []string) (last reply) {
		t.Helper()
		for range 3 {
			last = s.get(target, headers...)
			if last.status != status {
				t.Errorf("%s: got %d, want %d: %v %s", what, last.status, status, last.header, last.body)
			}
			if last.isHit() {
				t.Errorf("%s: the cache answers: %v", what, last.header)
			}
		}
		return last
	}
	// The cache works: what the application answers is kept, and so is the widget of a captcha.
	s.get("/kept", free...)
	if kept := s.get("/kept", free...); kept.status != http.StatusOK || !kept.isHit() {
		t.Fatalf("the cache keeps nothing: %d %v", kept.status, kept.header)
	}
	widget := challenge.Path + "?file=altcha-3.2.2.js"
	s.get(widget, free...)
	if kept := s.get(widget, free...); hasWidget && (!kept.isHit() || !strings.Contains(kept.body, "ALTCHA")) { // with the status of a refusal behind some gateways
		t.Errorf("the widget is not kept: %d %v", kept.status, kept.header)
	}

	const challenged, blocked = "198.51.100.7", "192.0.2.9"
	for what, c := range map[string]struct {
		target string
		status int
		from   []string
	}{
		"a challenge":                 {"/page", http.StatusTooManyRequests, from(challenged, browserAccepts)},
		"a program's refusal":         {"/program", http.StatusTooManyRequests, from(challenged, "Accept: */*")},
		"a fetch's refusal":           {"/fetch", http.StatusTooManyRequests, from(challenged, browserAccepts, "Sec-Fetch-Mode: cors")},
		"a blocked browser's page":    {"/blocked", http.StatusForbidden, from(blocked, browserAccepts)},
		"a blocked program's refusal": {"/blocked-program", http.StatusForbidden, from(blocked, "Accept: */*")},
	} {
		ask(what, c.target, c.status, c.from)
		if got := s.get(c.target, free...); got.status != http.StatusOK || got.body != "the application" {
			t.Errorf("after %s another visitor gets %d: %s", what, got.status, got.body)
		}
	}
	ask("the path of the page", challenge.Path+"?to=/a", http.StatusTooManyRequests, from(challenged, browserAccepts))
	ask("a forged solution", challenge.PathPass+"?c=forged&n=1", http.StatusForbidden, from(challenged, browserAccepts))

	// Each challenge, and each pass, is a visitor's own.
	first, second := s.get("/two", from(challenged, browserAccepts)...), s.get("/two", from("198.51.100.8", browserAccepts)...)
	solution, other := solutionOf(first.body), solutionOf(second.body)
	if solution == "" || other == "" || solution == other {
		t.Fatalf("two visitors are shown %q and %q", solution, other)
	}
	passed := ask("a solution", solution, http.StatusSeeOther, from(challenged, browserAccepts))
	pass, _, _ := strings.Cut(passed.header.Get("Set-Cookie"), ";")
	if pass == "" {
		t.Fatalf("no pass: %v", passed.header)
	}
	next := passed.header.Get("Location")
	ask("where it leads, without the pass", next, http.StatusForbidden, from("198.51.100.8", browserAccepts))
	led := ask("where it leads", next, http.StatusSeeOther, from(challenged, browserAccepts, "Cookie: "+pass))
	if to := led.header.Get("Location"); to != "/two" {
		t.Errorf("it leads to %q", to)
	}
	ask("where it leads, without the pass, afterwards", next, http.StatusForbidden, from("198.51.100.8", browserAccepts))
	if got := s.get("/two", from(challenged, "Cookie: "+pass)...); got.status != http.StatusOK {
		t.Errorf("with the pass: got %d", got.status)
	}
}
