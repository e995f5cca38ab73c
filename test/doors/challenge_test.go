package doors

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/testnode"
)

// chromium starts the browser that all tests share.
var chromium = sync.OnceValues(func() (context.Context, error) { return startChromium() })

// newChromium starts a browser for one test, with flags.
func newChromium(t *testing.T, flags ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	ctx, err := startChromium(flags...)
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

func startChromium(flags ...chromedp.ExecAllocatorOption) (context.Context, error) {
	profile, err := os.MkdirTemp("", "stint-chromium-")
	if err != nil {
		return nil, err
	}
	options := chromedp.DefaultExecAllocatorOptions[:]
	if path, err := exec.LookPath("chromium-headless-shell"); err == nil {
		options = append(options, chromedp.ExecPath(path))
	}
	options = append(options, chromedp.UserDataDir(profile), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(maxWait))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), append(options, flags...)...)
	ctx, cancel := chromedp.NewContext(allocator)
	servers.AtExit(func() {
		_ = chromedp.Cancel(ctx)
		cancel()
		stop()
		os.RemoveAll(profile)
	})
	return ctx, chromedp.Do(ctx)
}

// tab is a tab of a browser.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// visitor returns a tab that shares no cookie with others.
func visitor(t *testing.T) *tab {
	t.Helper()
	shared, err := chromium()
	if err != nil {
		t.Fatal(err)
	}
	return newTab(t, shared, chromedp.WithNewBrowserContext())
}

// another returns a tab of the same visitor.
func (b *tab) another() *tab { return newTab(b.t, b.ctx) }

func newTab(t *testing.T, parent context.Context, options ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(parent, options...)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		cancel()
	})
	if err := chromedp.Do(ctx); err != nil { // it lives as long as the context of the first step
		t.Fatal(err)
	}
	return &tab{t, ctx}
}

func (b *tab) open(url string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, maxWait)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		b.t.Fatal(err)
	}
}

// text returns where the tab is, and what it shows.
func (b *tab) text() string {
	ctx, cancel := context.WithTimeout(b.ctx, maxWait)
	defer cancel()
	got, err := chromedp.Run(ctx, chromedp.Evaluate[string]("location.href + ' ' + document.body.innerText"))
	if err != nil {
		return err.Error() // between two pages
	}
	return got
}

// shows waits until the tab shows a text.
func (b *tab) shows(what, text string) {
	b.t.Helper()
	last := ""
	defer func() {
		if b.t.Failed() {
			b.t.Logf("%s shows: %s", what, last)
		}
	}()
	servers.Await(b.t, what+" shows "+text, func() bool {
		last = b.text()
		return strings.Contains(last, text)
	})
}

const browserAccepts = "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"

// Browsers go the whole way through every door: what they asked for is answered, whatever they lack.
func TestChallengesThroughEveryDoor(t *testing.T) {
	for _, d := range doors() {
		t.Run(d.name, func(t *testing.T) {
			s := &site{T: t, node: testnode.Start(t, append(d.flags, "--challenge-difficulty", "12", "--challenge-wait", "1s", "--contact", "help@example.org")...), app: new(application)}
			d.start(s, 0)
			s.put("site", `{"match":["ip:*"],"rules":["2/1d"],"on_limit":"challenge"}`)
			s.put("passes", `{"match":["pass:*"],"rules":["5/1d"]}`)
			for range 2 {
				s.expect("within the limit", s.get("/"), http.StatusOK)
			}
			page := s.onlyNavigationsAreShownThePage(d)
			s.app.forget()
			person := s.browsersComeThrough()
			s.browserWithoutCookies()
			pass := s.passWithoutABrowser(page)

			// With the pass a form is sent on as it is. Another site of the domain may have set cookies of the same name.
			s.expect("a form with a pass", s.send(http.MethodPost, "/form?c=d", "b=c", browserAccepts, "Content-Type: text/plain", "Cookie: "+challenge.Cookie+"=forged; "+pass), http.StatusOK)
			if got := s.app.last(); got != "POST /form?c=d 3" {
				t.Errorf("the application was asked %s", got)
			}

			// A pass that many share is limited exactly.
			var group sync.WaitGroup
			var passes atomic.Int64
			for range 50 {
				group.Go(func() {
					if s.get("/shared", "Cookie: a=b; "+pass).status == http.StatusOK {
						passes.Add(1)
					}
				})
			}
			group.Wait()
			if passes.Load() != 4 { // after the form
				t.Errorf("50 clients with one pass were allowed %d requests, want 4", passes.Load())
			}
			limited := s.get("/shared", browserAccepts, "Cookie: "+pass)
			if limited.status != http.StatusTooManyRequests || !d.leads && (!strings.Contains(limited.body, "Too many requests") || !strings.Contains(limited.body, "mailto:help@example.org")) {
				t.Errorf("beyond the limit of the pass: got %d:\n%s", limited.status, limited.body)
			}
			s.expect("a forged pass", s.get("/", "Cookie: "+challenge.Cookie+"=AXAAAA"), http.StatusTooManyRequests)

			// A block holds against passes.
			s.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"ip:`+d.address+`","expires_in":"1h"}`, http.StatusCreated)
			person.open(s.url + "/after")
			if d.leads {
				person.shows("a blocked browser", `"blocked"`)
			} else {
				person.shows("a blocked browser", "Access is blocked")
			}
		})
	}
}

// onlyNavigationsAreShownThePage asks as programs and browsers do, and returns the page.
func (s *site) onlyNavigationsAreShownThePage(d door) (page reply) {
	s.Helper()
	for what, headers := range map[string][]string{
		"a program": {"Accept: */*"}, "a fetch": {browserAccepts, "Sec-Fetch-Mode: cors"}, "an image": {"Accept: image/avif,image/*", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"},
		"a frame": {browserAccepts, "Sec-Fetch-Dest: iframe"},
	} {
		refused := s.get("/a", headers...)
		s.expect(what, refused, http.StatusTooManyRequests)
		if refused.header.Get("Retry-After") == "" || refused.header.Get(challenge.Header) != challenge.Path {
			s.Errorf("%s is answered %v", what, refused.header)
		}
	}
	s.expect("a form", s.send(http.MethodPost, "/a", "b=c", browserAccepts), http.StatusTooManyRequests)
	s.expect("robots.txt", s.get("/robots.txt", browserAccepts), http.StatusTooManyRequests)
	page = s.get("/a?b", browserAccepts)
	if d.leads {
		to := page.header.Get("Location")
		if page.status != http.StatusSeeOther || to != challenge.Path+"?to=%2Fa%3Fb" || page.header.Get("Cache-Control") != "no-store" {
			s.Errorf("a browser is led on by %d, %v", page.status, page.header)
		}
		page = s.get(to, browserAccepts)
	}
	isOwn := func(p reply) bool {
		return p.status == http.StatusTooManyRequests && strings.Contains(p.body, "One moment") && strings.Contains(p.header.Get("Cache-Control"), "no-store") &&
			strings.Contains(p.header.Get("Vary"), "Cookie") && len(p.header.Values("Content-Security-Policy")) == 1
	}
	if !isOwn(page) {
		s.Errorf("got %d, %v:\n%s", page.status, page.header, page.body)
	}
	// Headers that only a gateway may send are not handed on.
	if p := s.get(challenge.Path+"?to=/here", browserAccepts, "X-Forwarded-Uri: /elsewhere", "X-Stint-Decision: blocked"); !isOwn(p) {
		s.Errorf("with headers of a gateway: got %d, %v:\n%s", p.status, p.header, p.body)
	}
	return page
}

// browsersComeThrough opens pages in browsers that are challenged, and returns the first.
func (s *site) browsersComeThrough() (person *tab) {
	s.Helper()
	const target = "/search?q=a%20b&page=2&to=//evil.example"
	person = visitor(s.T)
	person.open(s.url + target)
	person.shows("the browser", "the application")
	if got := s.app.last(); got != "GET "+target+" 0" {
		s.Errorf("the application was asked %s, want GET %s", got, target)
	}
	if count := s.app.count(); count > 2 { // and /favicon.ico
		s.Errorf("the application was asked %d times", count)
	}

	// Two tabs that are challenged at the same time lead where each was going.
	first := visitor(s.T)
	second := first.another()
	first.open("about:blank")
	second.open(s.url + "/second?tab=2")
	first.open(s.url + "/first?tab=1")
	first.shows("the first tab", "/first?tab=1 the application")
	second.shows("the second tab", "/second?tab=2 the application")

	without := visitor(s.T)
	without.open("about:blank")
	if err := chromedp.Do(without.ctx, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	})); err != nil {
		s.Fatal(err)
	}
	without.open(s.url + "/plain?a=b")
	without.shows("the browser without JavaScript", "/plain?a=b the application")
	return person
}

// browserWithoutCookies opens a page in a browser that keeps no cookies: it sees a page that says so, and is not led in a circle.
func (s *site) browserWithoutCookies() {
	s.Helper()
	target, err := url.Parse(s.url)
	if err != nil {
		s.Fatal(err)
	}
	var asked atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(target)
	dropping := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		r.Header.Del("Cookie") // as a browser that has kept none
		proxy.ServeHTTP(w, r)
	}))
	s.Cleanup(dropping.Close)
	person := visitor(s.T)
	person.open(dropping.URL + "/a?b")
	person.shows("the browser without cookies", "Cookies are needed")
	before := asked.Load()
	if before > 6 { // the page, what leads to it, the solution, where it leads, and icons
		s.Errorf("the browser without cookies asked %d times", before)
	}
	another := visitor(s.T) // as long as this takes, the first one asks for nothing
	another.open(dropping.URL + "/c")
	another.shows("another browser without cookies", "Cookies are needed")
	if more := asked.Load() - before; more > before {
		s.Errorf("two browsers without cookies asked %d times, the first alone %d", before+more, before)
	}
}

// passWithoutABrowser waits instead of working, as a page says, and returns the cookie.
func (s *site) passWithoutABrowser(page reply) (pass string) {
	s.Helper()
	found := challengeLink.FindStringSubmatch(page.body)
	if found == nil {
		s.Fatalf("no link in:\n%s", page.body)
	}
	var passed reply
	s.until("the wait has ended", func() bool {
		passed = s.get(strings.ReplaceAll(found[1], "&amp;", "&"), browserAccepts)
		return passed.status == http.StatusSeeOther
	})
	pass, _, _ = strings.Cut(passed.header.Get("Set-Cookie"), ";")
	// A picture in somebody's article gives its readers no pass.
	picture := s.get(strings.ReplaceAll(found[1], "&amp;", "&"), "Accept: image/avif,*/*", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image")
	if picture.status != http.StatusForbidden || picture.header.Get("Set-Cookie") != "" {
		s.Errorf("a picture is answered %d, %v", picture.status, picture.header)
	}
	next := s.get(passed.header.Get("Location"), browserAccepts)
	if next.status != http.StatusForbidden || !strings.Contains(next.body, "Cookies are needed") {
		s.Errorf("without the cookie: got %d:\n%s", next.status, next.body)
	}
	next = s.get(passed.header.Get("Location"), browserAccepts, "Cookie: "+pass)
	if next.status != http.StatusSeeOther || next.header.Get("Location") != "/a?b" {
		s.Errorf("with the cookie: got %d to %q", next.status, next.header.Get("Location"))
	}
	return pass
}

// A block with the action challenge lets clients with a pass go on, under the limits that they have.
func TestABlockThatChallenges(t *testing.T) {
	s := start(t, gateways[1], 0, "--challenge-difficulty", "8")
	s.put("site", `{"match":["ip:*"],"rules":["1000/1d"]}`)
	s.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"ip:127.0.0.1","action":"challenge","expires_in":"1h"}`, http.StatusCreated)
	s.expect("a program", s.get("/"), http.StatusTooManyRequests)
	person := visitor(t)
	person.open(s.url + "/a?b=c")
	person.shows("the browser", "the application")
	s.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"ip:127.0.0.0/16","expires_in":"1h","confirm":"ip:127.0.0.0/16"}`, http.StatusCreated)
	person.open(s.url + "/a?b=c")
	person.shows("a blocked browser", "Access is blocked")
}

// While Stint is stopped, browsers are answered as everybody is.
func TestChallengesWhileStintIsStopped(t *testing.T) {
	for _, d := range doors() {
		t.Run(d.name, func(t *testing.T) {
			s := &site{T: t, node: testnode.Start(t, append(d.flags, "--challenge-difficulty", "8")...), app: new(application)}
			d.start(s, 1)
			s.put("site", `{"match":["ip:*"],"rules":["0/1d"],"on_limit":"challenge"}`)
			s.node.Kill()
			s.expect("a browser", s.get("/", browserAccepts), d.down)
		})
	}
}

// challengePass is where the page of a captcha sends its answer, and captchaName is what the answer is for.
var (
	challengePass = regexp.MustCompile(`/\.well-known/stint/pass\?c=[A-Za-z0-9_-]+`)
	captchaName   = regexp.MustCompile(`"data":"([0-9a-f]{32})"`)
)

var challengeLink = regexp.MustCompile(`<a id="pass" href="([^"]+)"`)

// A policy counts failed challenges, and those that nobody solved.
func TestPoliciesCountChallenges(t *testing.T) {
	s := start(t, gateways[1], 0, "--challenge-difficulty", "8")
	s.put("site", `{"match":["ip:*"],"rules":["0/1d"],"on_limit":"challenge"}`)
	s.put("failures", `{"match":["ip:*"],"outcome":"challenge_failed","rules":["3/1h"]}`)
	for range 3 {
		s.expect("a forged solution", s.get(challenge.Prefix+"pass?c=forged&n=1", browserAccepts), http.StatusForbidden)
		s.expect("a program", s.get("/"), http.StatusTooManyRequests)
	}
	refused := s.get("/", browserAccepts)
	if refused.status != http.StatusTooManyRequests || !strings.Contains(refused.body, "Too many requests") {
		t.Errorf("after three failures: got %d:\n%s", refused.status, refused.body)
	}
	s.remove("failures")
	s.put("abandoned", `{"match":["ip:*"],"evidence":["1 outcome challenge_shown","-1 outcome challenge_solved forgives challenge_shown"],"rules":["3 points/1h"]}`)
	person := visitor(t)
	person.open(s.url + "/a")
	person.shows("who solves it", "the application")
	for range 3 {
		s.expect("a page", s.get("/", browserAccepts), http.StatusTooManyRequests)
	}
	if refused = s.get("/", browserAccepts); !strings.Contains(refused.body, "Too many requests") {
		t.Errorf("after three that were abandoned: got %d:\n%s", refused.status, refused.body)
	}
}

// What one node asks is solved at another, and the pass holds at both, which count it together.
func TestTwoNodesShareChallengesAndPasses(t *testing.T) {
	flags := []string{"--trusted-proxies", "127.0.0.1", "--challenge-difficulty", "8", "--redis-url", servers.Redis(t).URL, "--database-url", servers.Postgres(t).URL}
	s := &site{T: t, node: testnode.Start(t, flags...)}
	other := testnode.StartBeside(t, flags...)
	nodes := []string{s.node.Check, other.Check}
	s.put("passes", `{"match":["pass:*"],"rules":["6/1d"],"on_failure":"deny"}`) // a busy machine must not look like an outage
	s.put("site", `{"match":["ip:*"],"rules":["0/1d"],"on_limit":"challenge"}`)  // who has this one has both
	at := func(node int, target string, more ...string) reply {
		t.Helper()
		s.url = nodes[node%2]
		return s.get("/v1/forward", append([]string{"X-Forwarded-Uri: " + target, "X-Forwarded-Method: GET", browserAccepts}, more...)...)
	}
	s.until("both nodes have the policies", func() bool {
		return strings.Contains(at(0, "/a?b").body, "One moment") && strings.Contains(at(1, "/a?b").body, "One moment")
	})
	solution := solutionOf(at(0, "/a?b").body)
	first, again := at(1, solution), at(0, solution)
	pass, _, _ := strings.Cut(first.header.Get("Set-Cookie"), ";")
	if first.status != http.StatusSeeOther || pass == "" {
		t.Fatalf("the other node answers a solution with %d, %v", first.status, first.header)
	}
	if same, _, _ := strings.Cut(again.header.Get("Set-Cookie"), ";"); same != pass {
		t.Errorf("sent again to the first node, it gives another pass: %q", same)
	}
	if led := at(0, first.header.Get("Location"), "Cookie: "+pass); led.header.Get("Location") != "/a?b" {
		t.Errorf("it leads to %v", led.header)
	}
	allowed := 0
	for i := range 20 {
		if at(i, "/a", "Cookie: "+pass).status == http.StatusOK {
			allowed++
		}
	}
	if allowed != 6 {
		t.Errorf("both nodes together allowed %d requests of a pass, want 6", allowed)
	}
}

// A browser whose requests, with those of its gateway, reach two nodes alternately comes through every door, and so does a probe.
func TestChallengesOfTwoNodesThroughEveryDoor(t *testing.T) {
	flags := []string{"--challenge-difficulty", "8", "--redis-url", servers.Redis(t).URL, "--database-url", servers.Postgres(t).URL}
	var first, second *testnode.Node
	for _, d := range doors() {
		if first == nil {
			flags = append(flags, d.flags...)
			first, second = testnode.Start(t, flags...), testnode.StartBeside(t, flags...)
		}
		t.Run(d.name, func(t *testing.T) {
			s := &site{T: t, node: first, other: second, app: new(application)}
			d.start(s, 0)
			s.challenging()
			s.until("both nodes challenge", func() bool {
				challenged := 0
				for range 2 { // each is asked of another node
					if s.get("/").status == http.StatusTooManyRequests {
						challenged++
					}
				}
				return challenged == 2
			})
			for _, target := range []string{"/a?b=c", "/d"} {
				person := visitor(t)
				person.open(s.url + target)
				person.shows("the browser", target+" the application")
			}
			probe := exec.Command(testnode.AdminProgram(t), "connect", d.page, "--probe", s.url+"/probed?a=b", "--url", s.node.Admin)
			probe.Env = append(os.Environ(), "STINT_ADMIN_TOKEN="+testnode.AdminToken)
			if text, err := probe.CombinedOutput(); err != nil || !strings.Contains(string(text), "open the page with the pass") {
				t.Errorf("the probe says %v:\n%s", err, text)
			}
		})
	}
}
