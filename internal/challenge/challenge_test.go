package challenge

import (
	"bytes"
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

var start = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func service(secret string, change func(*Options)) (*Service, *clock) {
	c := &clock{start}
	o := Options{Secret: func() []byte { return []byte(secret) }, Now: c.Now, Difficulty: 8, Wait: 10 * time.Second, PassFor: time.Hour}
	if change != nil {
		change(&o)
	}
	return New(o), c
}

func visit(target string, cookies ...string) *Visit {
	v := &Visit{Target: target, Address: netip.MustParseAddr("198.51.100.7")}
	for _, c := range cookies {
		v.Cookies = append(v.Cookies, []byte(c))
	}
	return v
}

func (a *Answer) header(name string) string {
	for _, h := range a.Headers {
		if h[0] == name {
			return h[1]
		}
	}
	return ""
}

var passLink = regexp.MustCompile(`<a id="pass" href="([^"]+)" data-prefix="([^"]+)" data-difficulty="(\d+)"`)

// linkOf returns the link of a page for those who wait, and for those who solve it.
func linkOf(t *testing.T, a *Answer) (waited, solved string) {
	t.Helper()
	found := passLink.FindSubmatch(a.Body)
	if found == nil {
		t.Fatalf("status %d, without a challenge:\n%s", a.Status, a.Body)
	}
	waited = strings.ReplaceAll(string(found[1]), "&amp;", "&")
	difficulty, _ := strconv.Atoi(string(found[3]))
	for n := 0; ; n++ {
		c := challenge{difficulty: difficulty}
		if copy(c.nonce[:], unhex(string(found[2][:2*nonceSize]))); c.isSolvedBy(strconv.Itoa(n)) {
			return waited, waited + "&n=" + strconv.Itoa(n)
		}
	}
}

func unhex(text string) []byte {
	b := make([]byte, len(text)/2)
	for i := range b {
		n, _ := strconv.ParseUint(text[2*i:2*i+2], 16, 8)
		b[i] = byte(n)
	}
	return b
}

// solve solves the challenge of a page and returns the cookie.
func solve(t *testing.T, s *Service, a *Answer) (cookie string) {
	t.Helper()
	_, link := linkOf(t, a)
	answer, outcome := s.Visit(t.Context(), visit(link))
	if outcome != Solved || answer.Status != http.StatusSeeOther {
		t.Fatalf("got %d %q", answer.Status, outcome)
	}
	cookie, _, _ = strings.Cut(answer.header("Set-Cookie"), ";")
	return cookie
}

func TestASolvedChallengeLeadsToItsTarget(t *testing.T) {
	s, _ := service("secret", nil)
	const target = "/search?q=a%20b&page=2"
	a := s.Show(visit(target), "R-1")
	if a.Status != http.StatusTooManyRequests || !bytes.Contains(a.Body, []byte("R-1")) {
		t.Errorf("got %d:\n%s", a.Status, a.Body)
	}
	_, link := linkOf(t, a)
	answer, _ := s.Visit(t.Context(), visit(link))
	text := answer.header("Set-Cookie")
	if !strings.Contains(text, "; HttpOnly; SameSite=Lax; Secure") {
		t.Errorf("the cookie is %q", text)
	}
	cookie, _, _ := strings.Cut(text, ";")
	last, _ := s.Visit(t.Context(), visit(answer.header("Location"), "a=b; "+cookie))
	if last.Status != http.StatusSeeOther || last.header("Location") != target {
		t.Errorf("got %d to %q, want 303 to %q", last.Status, last.header("Location"), target)
	}
	if key, ok := s.PassOf([][]byte{[]byte("x=y; " + cookie)}, visit("").Address); !ok || !strings.HasPrefix(key.String(), "pass:") {
		t.Errorf("the pass is %q, %t", key, ok)
	}
	if none, _ := s.Visit(t.Context(), visit(answer.header("Location"))); none.Status != http.StatusForbidden || !bytes.Contains(none.Body, []byte("Cookies are needed")) {
		t.Errorf("without cookies: got %d:\n%s", none.Status, none.Body)
	}
}

func TestWaitingIsExact(t *testing.T) {
	s, c := service("secret", nil)
	link, _ := linkOf(t, s.Show(visit("/"), ""))
	c.now = start.Add(10*time.Second - time.Millisecond)
	if a, outcome := s.Visit(t.Context(), visit(link)); outcome != Nothing || a.Status != http.StatusTooManyRequests || !bytes.Contains(a.Body, []byte(`content="1;url=`)) {
		t.Errorf("a millisecond early: got %d %q:\n%s", a.Status, outcome, a.Body)
	}
	c.now = start.Add(10 * time.Second)
	if a, outcome := s.Visit(t.Context(), visit(link)); outcome != Solved {
		t.Errorf("in time: got %d %q", a.Status, outcome)
	}
}

// The clock of the node that takes the solution is 5 minutes behind or ahead.
func TestNodesWithDifferentClocksTakeEachOthersChallenges(t *testing.T) {
	for _, apart := range []time.Duration{-5 * time.Minute, 5 * time.Minute} {
		s, _ := service("secret", nil)
		other, c := service("secret", nil)
		c.now = start.Add(apart)
		page := s.Show(visit("/a"), "")
		if cookie := solve(t, other, page); cookie == "" {
			t.Errorf("%v apart: no pass", apart)
		} else if _, ok := s.PassOf([][]byte{[]byte(cookie)}, visit("").Address); !ok {
			t.Errorf("%v apart: the pass does not hold", apart)
		}
		link, _ := linkOf(t, page)
		a, outcome := other.Visit(t.Context(), visit(link))
		if outcome == Solved {
			continue // it has waited long enough by the other's clock
		}
		if link, _ = linkOf(t, a); !bytes.Contains(a.Body, []byte(`content="10;url=`)) {
			t.Errorf("%v apart: it does not wait 10 seconds more:\n%s", apart, a.Body)
		}
		c.now = c.now.Add(10 * time.Second)
		if _, outcome := other.Visit(t.Context(), visit(link)); outcome != Solved {
			t.Errorf("%v apart: after the wait got %q", apart, outcome)
		}
	}
}

// A solution that is sent again, by anybody, gives the same pass until the same time.
func TestAReplayGivesNothingNew(t *testing.T) {
	s, c := service("secret", nil)
	page := s.Show(visit("/"), "")
	first := solve(t, s, page)
	c.now = c.now.Add(time.Minute)
	again := solve(t, s, page)
	if first != again {
		t.Errorf("got another pass:\n%s\n%s", first, again)
	}
	if other := solve(t, s, s.Show(visit("/"), "")); other == first {
		t.Error("another challenge gave the same pass")
	}
	_, link := linkOf(t, page)
	c.now = start.Add(lifetime + time.Millisecond)
	if a, outcome := s.Visit(t.Context(), visit(link)); outcome != Nothing || a.Status != http.StatusForbidden {
		t.Errorf("after its lifetime: got %d %q", a.Status, outcome)
	}
	if _, ok := s.PassOf([][]byte{[]byte(first)}, visit("").Address); !ok {
		t.Error("the pass ended with its challenge")
	}
	c.now = start.Add(time.Hour)
	if _, ok := s.PassOf([][]byte{[]byte(first)}, visit("").Address); ok {
		t.Error("the pass did not end")
	}
}

// Work cannot be done before it is asked for, nor once for many challenges: each has a nonce of its own under the
// signature.
func TestWorkIsForOneChallenge(t *testing.T) {
	s, _ := service("secret", func(o *Options) { o.Difficulty = 16 })
	_, solved := linkOf(t, s.Show(visit("/a"), ""))
	counter := solved[strings.Index(solved, "&n="):]
	nonces := map[string]bool{}
	for range 1000 {
		page := s.Show(visit("/a"), "")
		found := regexp.MustCompile(`data-prefix="([0-9a-f]{32}):"`).FindSubmatch(page.Body)
		link := passLink.FindSubmatch(page.Body)
		if found == nil || link == nil || nonces[string(found[1])] {
			t.Fatalf("a nonce is missing or comes again: %s", page.Body)
		}
		nonces[string(found[1])] = true
		if len(nonces) > 3 { // one of 65,536 counters solves another challenge by chance
			continue
		}
		target := strings.ReplaceAll(string(link[1]), "&amp;", "&") + counter
		if a, outcome := s.Visit(t.Context(), visit(target)); outcome != Failed || a.header("Set-Cookie") != "" {
			t.Errorf("the counter of one challenge solves another: %d %q", a.Status, outcome)
		}
	}
}

func TestForgedSolutionsAndPasses(t *testing.T) {
	s, _ := service("secret", nil)
	foreign, _ := service("another secret", nil)
	page := s.Show(visit("/"), "")
	waited, solved := linkOf(t, page)
	_, abroad := linkOf(t, foreign.Show(visit("/"), ""))
	_, hard := linkOf(t, s.Show(visit("/"), ""))
	hard = hard[:strings.Index(hard, "&n=")]
	token, _ := url.Parse(waited)
	for what, link := range map[string]string{
		"a challenge of another secret":  abroad,
		"no challenge":                   PathPass,
		"an empty solution":              waited + "&n=",
		"a solution of another one":      hard + "&n=0x1",
		"a negative counter":             waited + "&n=-1",
		"a counter with zeros":           waited + "&n=00" + solved[strings.Index(solved, "&n=")+3:],
		"a long counter":                 waited + "&n=" + strings.Repeat("1", 50),
		"a cut challenge":                PathPass + "?c=" + token.Query().Get("c")[1:] + "&n=1",
		"another spelling of the base64": PathPass + "?c=" + token.Query().Get("c") + "%3D&n=1",
		"a long one":                     PathPass + "?c=" + strings.Repeat("A", 100_000),
		"a bad query":                    PathPass + "?c=%zz",
	} {
		if a, outcome := s.Visit(t.Context(), visit(link)); outcome != Failed || a.Status != http.StatusForbidden || a.header("Set-Cookie") != "" {
			t.Errorf("%s: got %d %q", what, a.Status, outcome)
		}
	}
	good := strings.TrimPrefix(solve(t, s, page), Cookie+"=")
	if _, ok := s.ReadPass(good, visit("").Address); !ok {
		t.Fatal("the pass does not hold")
	}
	for i := range good { // every character counts
		other := "A"
		if good[i] == 'A' {
			other = "B"
		}
		if _, ok := s.ReadPass(good[:i]+other+good[i+1:], visit("").Address); ok {
			t.Errorf("a pass with another character at %d holds", i)
		}
	}
	for _, pass := range []string{
		"", "x", good + "A", token.Query().Get("c"),
		strings.TrimPrefix(solve(t, foreign, foreign.Show(visit("/"), "")), Cookie+"="),
	} {
		if key, ok := s.ReadPass(pass, visit("").Address); ok {
			t.Errorf("%q holds as %s", pass, key)
		}
	}
}

func TestBoundPassesHoldInTheirNetworkOnly(t *testing.T) {
	s, _ := service("secret", func(o *Options) { o.Bind = true })
	for _, c := range []struct {
		earned, near, far string
	}{{"198.51.100.7", "198.51.100.200", "198.51.101.7"}, {"2001:db8:1::7", "2001:db8:1:ff::1", "2001:db8:2::7"}} {
		v := visit("/")
		v.Address = netip.MustParseAddr(c.earned)
		page := s.Show(v, "")
		_, link := linkOf(t, page)
		elsewhere := visit(link)
		if elsewhere.Address = netip.MustParseAddr(c.far); true {
			if _, outcome := s.Visit(t.Context(), elsewhere); outcome != Failed {
				t.Errorf("a solution from %s: got %q", c.far, outcome)
			}
		}
		v.Target = link
		answer, _ := s.Visit(t.Context(), v)
		cookie, _, _ := strings.Cut(strings.TrimPrefix(answer.header("Set-Cookie"), Cookie+"="), ";")
		for address, want := range map[string]bool{c.earned: true, c.near: true, c.far: false} {
			if _, ok := s.ReadPass(cookie, netip.MustParseAddr(address)); ok != want {
				t.Errorf("the pass of %s at %s: got %t", c.earned, address, ok)
			}
		}
	}
}

func TestTargetsStayOnTheSite(t *testing.T) {
	for target, want := range map[string]string{
		"/":                            "/",
		"/a?b=c&d":                     "/a?b=c&d",
		"/a%2fb?x=%0d%0a":              "/a%2fb?x=%0d%0a",
		"//evil.example/x":             "/evil.example/x",
		`/\evil.example`:               "/evil.example",
		`/\/evil.example`:              "/evil.example",
		"https://evil.example/":        "/",
		"evil":                         "/",
		"":                             "/",
		"/a\r\nSet-Cookie: b=c":        "/a%0D%0ASet-Cookie:%20b=c",
		"/ä":                           "/%C3%A4",
		"/a#b":                         "/a",
		`/"><script>`:                  "/%22%3E%3Cscript%3E",
		"/\t//evil.example":            "/%09//evil.example",
		Prefix + "pass":                "/",
		"/" + Prefix + "challenge":     "/",
		`/\` + Prefix[1:] + "pass?c=d": "/",
		"javascript:alert(1)":          "/",
		"/.well-known/../../evil?a=b":  "/",
		"/..//evil.example":            "/",
		"/a/%2E./%2e//evil.example":    "/",
		"/." + Prefix + "pass?c=d":     "/",
		"/a/.." + Prefix + "challenge": "/",
		"/a/.":                         "/",
		`/a/..\evil.example`:           "/",
		"/.../..a/.b?c=/../d":          "/.../..a/.b?c=/../d",
		Prefix[:len(Prefix)-1]:         Prefix[:len(Prefix)-1],
	} {
		if got := cleanTarget(target); got != want {
			t.Errorf("%q: got %q, want %q", target, got, want)
		}
	}
}

func TestPagesAreTheirOwn(t *testing.T) {
	s, _ := service("secret", func(o *Options) { o.Contact = "help@example.org" })
	v := visit("/a?b=</script>")
	v.Languages = "fr, de-AT;q=0.8, en"
	for what, a := range map[string]*Answer{
		"a challenge": s.Show(v, "R-1"),
		"a refusal":   s.Refuse(v, &Refusal{Outcome: "blocked", Status: 403, ID: "R-1", At: start, RetryAt: start.Add(90 * time.Minute)}),
	} {
		if size := len(a.Body); size > 30_000 {
			t.Errorf("%s has %d bytes", what, size)
		}
		if found := regexp.MustCompile(`(?i)(src|href)="?https?:|//[a-z]+\.`).Find(a.Body); found != nil {
			t.Errorf("%s names another host: %s", what, found)
		}
		for _, text := range []string{`<html lang="de">`, "R-1", `href="mailto:help@example.org"`, `name="color-scheme" content="light dark"`} {
			if !bytes.Contains(a.Body, []byte(text)) {
				t.Errorf("%s has no %s:\n%s", what, text, a.Body)
			}
		}
		if policy := a.header("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; script-src 'nonce-") || a.header("Vary") == "" {
			t.Errorf("%s: got the policy %q", what, policy)
		}
	}
	refusal := s.Refuse(v, &Refusal{Outcome: "blocked", Status: 403, At: start, RetryAt: start.Add(90 * time.Minute)})
	if want := "um 2026-11-28 13:30:00 UTC wieder versuchen, in 90 Minuten"; !bytes.Contains(refusal.Body, []byte(want)) {
		t.Errorf("got no %q:\n%s", want, refusal.Body)
	}
}

func TestOwnPathsAreExact(t *testing.T) {
	for target, want := range map[string]bool{
		Path: true, Path + "?to=/a": true, PathPass + "?": true, PathContinue: true, Prefix: false, Prefix + "../admin": false, Path + "/../../../admin": false,
		Prefix + "%2e%2e/admin": false, Prefix + "%63hallenge": false, Path + "/": false, Path + "s": false, "": false,
	} {
		if got := IsOwn(target); got != want {
			t.Errorf("%q: %t", target, got)
		}
	}
}

func TestOnlyNavigationsAreShownPages(t *testing.T) {
	const html = "text/html,application/xhtml+xml"
	for _, c := range []struct {
		method, target, accept, mode, dest string
		want                               bool
	}{
		{"GET", "/a?b", html, "navigate", "document", true},
		{"GET", "/", html, "", "", true},
		{"GET", Path, html, "", "", true},
		{"POST", "/", html, "navigate", "document", false},
		{"HEAD", "/", html, "", "", false},
		{"GET", "/", "*/*", "", "", false},
		{"GET", "/", "application/json", "", "", false},
		{"GET", "/", html, "cors", "empty", false},
		{"GET", "/", html, "no-cors", "image", false},
		{"GET", "/", html, "navigate", "iframe", false},
		{"GET", "/robots.txt", html, "navigate", "document", false},
		{"GET", "/.well-known/security.txt?a", html, "navigate", "document", false},
		{"GET", "", html, "navigate", "document", false},
		{"GET", "/" + strings.Repeat("a", MaxTarget), html, "navigate", "document", false},
	} {
		if got := IsNavigation(c.method, c.target, c.accept, c.mode, c.dest); got != c.want {
			t.Errorf("%s %.40s %s %s %s: got %t", c.method, c.target, c.accept, c.mode, c.dest, got)
		}
	}
}

// A page of another site cannot give its visitors a pass, which somebody else may have used up, nor
// failures, which policies count.
func TestOtherSitesSolveAndFailNothing(t *testing.T) {
	s, _ := service("secret", nil)
	_, solved := linkOf(t, s.Show(visit("/"), ""))
	for _, link := range []string{solved, PathPass + "?c=forged&n=1", Path + "?to=/"} {
		v := visit(link)
		v.IsForeign = true
		if a, outcome := s.Visit(t.Context(), v); outcome != Nothing || a.header("Set-Cookie") != "" {
			t.Errorf("%s: got %d %q", link, a.Status, outcome)
		}
	}
}

func TestForeignRequests(t *testing.T) {
	for _, c := range []struct {
		site, mode, dest string
		want             bool
	}{
		{"", "", "", false}, {"same-origin", "navigate", "document", false}, {"none", "navigate", "document", false}, {"same-site", "navigate", "document", false},
		{"cross-site", "navigate", "document", true}, {"cross-site", "", "", true},
		{"same-origin", "no-cors", "image", true}, {"same-origin", "navigate", "iframe", true}, {"same-origin", "cors", "empty", true}, {"", "no-cors", "", true},
	} {
		if got := IsForeign(c.site, c.mode, c.dest); got != c.want {
			t.Errorf("%q %q %q: %t", c.site, c.mode, c.dest, got)
		}
	}
}

func TestAGoodPassStays(t *testing.T) {
	s, _ := service("secret", nil)
	first := solve(t, s, s.Show(visit("/"), ""))
	_, link := linkOf(t, s.Show(visit("/b"), ""))
	a, outcome := s.Visit(t.Context(), visit(link, first))
	if outcome != Nothing || a.Status != http.StatusSeeOther || a.header("Set-Cookie") != "" {
		t.Errorf("got %d %q, cookie %q", a.Status, outcome, a.header("Set-Cookie"))
	}
	last, _ := s.Visit(t.Context(), visit(a.header("Location"), first))
	if last.header("Location") != "/b" {
		t.Errorf("it leads to %q", last.header("Location"))
	}
}

// What an address may not earn, or has earned before, is no solved challenge.
func TestPassesAreEarned(t *testing.T) {
	shared := ""
	s, c := service("secret", func(o *Options) {
		o.PassFor = 12 * time.Hour
		o.Earn = func(context.Context, netip.Addr, string) (string, bool) { return shared, false }
	})
	_, link := linkOf(t, s.Show(visit("/"), ""))
	if a, outcome := s.Visit(t.Context(), visit(link)); outcome != Nothing || a.header("Set-Cookie") == "" {
		t.Errorf("again: got %d %q", a.Status, outcome)
	}
	var keys []string
	for _, shared = range []string{"", "", "ip:198.51.100.7", "ip:198.51.100.7", "ip:198.51.100.8"} {
		_, link := linkOf(t, s.Show(visit("/"), ""))
		a, _ := s.Visit(t.Context(), visit(link))
		_, cookie, _ := strings.Cut(a.header("Set-Cookie"), "=")
		cookie, rest, _ := strings.Cut(cookie, ";")
		key, ok := s.ReadPass(cookie, netip.MustParseAddr("198.51.100.7"))
		if lasts := map[bool]string{false: " Max-Age=43200;", true: " Max-Age=3600;"}[shared != ""]; !ok || !strings.Contains(rest, lasts) {
			t.Errorf("%q: %t, %s", shared, ok, rest)
		}
		keys = append(keys, key.String())
	}
	if keys[0] == keys[1] || keys[1] == keys[2] || keys[2] != keys[3] || keys[3] == keys[4] {
		t.Errorf("shared, %s, are %q", c.Now(), keys)
	}
}

// The time for cookies follows their length, whatever a client writes.
func TestManyCookies(t *testing.T) {
	s, _ := service("secret", nil)
	good := solve(t, s, s.Show(visit("/"), ""))
	for what, c := range map[string]struct {
		line string
		want bool
	}{
		"behind others":       {strings.Repeat("a=b; ", 1000) + good, true},
		"behind a forged one": {Cookie + "=x; " + good, true},
		"no value":            {Cookie, false},
		"only separators":     {strings.Repeat(";", 1000) + Cookie + strings.Repeat(";=", 1000), false},
		"too many":            {strings.Repeat(Cookie+"=x;", maxPasses) + good, false},
		"another name":        {"x" + good, false},
	} {
		if _, ok := s.PassOf([][]byte{[]byte(c.line)}, visit("").Address); ok != c.want {
			t.Errorf("%s: got %t", what, ok)
		}
	}
}

// Challenges leave nothing behind, however many are asked for: nothing is stored for them.
func TestTenThousandChallengesLeaveNothing(t *testing.T) {
	s, _ := service("secret", nil)
	ask := func(n int) {
		for range n {
			s.Show(visit("/a"), "R-1")
			s.Visit(t.Context(), visit(PathPass+"?c=AWMAAAGTAAAAAAAA&n=1"))
		}
	}
	held := func() int64 {
		runtime.GC()
		runtime.GC() // what pools hold is freed by the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	ask(100)
	before := held()
	ask(10_000)
	if grown := held() - before; grown > 256<<10 {
		t.Errorf("the heap has %d bytes more", grown)
	}
}

func BenchmarkChallenge(b *testing.B) {
	s, _ := service("secret", nil)
	page := s.Show(visit("/a?b=c"), "")
	found := passLink.FindSubmatch(page.Body)
	link := strings.ReplaceAll(string(found[1]), "&amp;", "&") + "&n=1"
	b.Run("shown", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Show(visit("/a?b=c"), "R-1")
		}
	})
	b.Run("failed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Visit(b.Context(), visit(link))
		}
	})
	b.Run("a forged pass", func(b *testing.B) {
		b.ReportAllocs()
		forged := [][]byte{[]byte(Cookie + "=" + strings.Repeat("A", 120))}
		for b.Loop() {
			s.PassOf(forged, netip.Addr{})
		}
	})
}
