package api

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/doors/forwardauth"
	"github.com/stint-dev/stint/internal/httpserver"
)

// withChallenges adds the door of gateways with challenges to a node that trusts this machine's proxies.
func withChallenges(p *nodeParts) { withOptions(nil)(p) }

// withCaptchas is withChallenges, and each is a captcha.
func withCaptchas(p *nodeParts) {
	withOptions(func(o *challenge.Options) { o.Captcha.Provider = challenge.Altcha })(p)
}

func withOptions(change func(*challenge.Options)) func(*nodeParts) {
	return func(p *nodeParts) { addChallenges(p, change) }
}

func addChallenges(p *nodeParts, change func(*challenge.Options)) {
	p.Server.Clients = func() httpserver.ClientAddresses { return httpserver.ClientAddresses{Proxies: gateways} }
	g, view := p.Gate, p.Catalog
	options := challenge.Options{
		Secret: func() []byte { return []byte("secret") }, Now: p.Server.Now, Difficulty: 1, Wait: time.Second, PassFor: time.Hour,
		Earn: func(ctx context.Context, address netip.Addr, name string) (string, bool) {
			earned := g.Earn(ctx, view.Parser().AddressKey(address), name, 2)
			return earned.Shared, earned.IsFirst
		},
	}
	if change != nil {
		change(&options)
	}
	service := challenge.New(options)
	door := forwardauth.New(forwardauth.Options{Gate: g, View: view, Challenges: service, Logger: p.Server.Logger, Now: p.Server.Now})
	for _, r := range door.Routes() {
		p.Extra = append(p.Extra, r.Route)
	}
}

// visits are the ways in which the paths of challenges are asked: by a browser itself, and by a gateway.
var visits = map[string]func(n *testNode, target string, headers ...string) answer{
	"directly": func(n *testNode, target string, headers ...string) answer {
		return n.send("GET", n.check+target, "", headers...)
	},
	"by a gateway": func(n *testNode, target string, headers ...string) answer {
		return n.send("GET", n.check+forwardauth.Path, "", append(headers, "X-Forwarded-Uri: "+target, "X-Forwarded-For: 198.51.100.7")...)
	},
}

// Whatever is asked of the paths of challenges, and with whichever token, the answer is a page or leads
// on within the site, is stored nowhere, and gives no pass.
func TestBadInputOfChallenges(t *testing.T) {
	n := startNode(t, withChallenges, func(p *nodeParts) { p.Server.CheckAuth = false })
	long := strings.Repeat("x", 3000)
	for way, ask := range visits {
		for _, target := range []string{
			challenge.Path, challenge.Path + "?to=https://evil.example", challenge.Path + "?to=//evil.example", challenge.Path + "?to=%0d%0aSet-Cookie:a=b",
			challenge.Path + "?to=" + long, challenge.Path + "?to=%ff%fe", challenge.Path + "?%zz", challenge.Path + "?to=/a&to=/b",
			challenge.PathPass, challenge.PathPass + "?c=", challenge.PathPass + "?c=" + long + "&n=1", challenge.PathPass + "?c=AWMAAA&n=-1", challenge.PathPass + "?n=1;c=2",
			challenge.PathPass + "?c=AWMAAA&captcha=" + long, challenge.PathPass + "?captcha=%00%0d%0a", challenge.PathPass + "?c=AWMAAA&captcha=e30=&n=1", challenge.Path + "?file=../../etc/passwd", challenge.Path + "?file=",
			challenge.PathContinue, challenge.PathContinue + "?c=" + long,
		} {
			for _, headers := range [][]string{
				{"Accept: text/html"}, {"Accept: */*", "Cookie: " + challenge.Cookie + "=" + long}, {"Cookie: " + strings.Repeat(";", 3000) + challenge.Cookie},
				{"Accept-Language: " + strings.Repeat(",", 1000), "X-Stint-Decision: blocked", "Retry-After: 99999999999999999999"},
			} {
				a := ask(n, target, headers...)
				if a.status < 300 || a.status >= 500 || a.header.Get("Cache-Control") != "no-store" || a.header.Get("Set-Cookie") != "" {
					t.Errorf("%s, %.60s with %.60s: got %d, %v", way, target, headers, a.status, a.header)
				}
				if to := a.header.Get("Location"); to != "" {
					t.Errorf("%s, %.60s leads to %s", way, target, to)
				}
				if strings.Contains(a.body, "evil.example") || strings.Contains(a.body, "<html") && a.header.Get("Content-Security-Policy") == "" {
					t.Errorf("%s, %.60s: got %v\n%s", way, target, a.header, a.body)
				}
			}
		}
	}
}

// Whatever is sent as the answer of a captcha, the page asks again, and there is no pass.
func TestBadAnswersOfCaptchas(t *testing.T) {
	n := startNode(t, withCaptchas, func(p *nodeParts) { p.Server.CheckAuth = false })
	for way, ask := range visits {
		page := ask(n, challenge.Path+"?to=/a", "Accept: text/html")
		pass := regexp.MustCompile(`/\.well-known/stint/pass\?c=[\w-]+`).FindString(page.body)
		n.clock.Add(time.Second) // as long as who waits
		for _, answer := range []string{
			"", "&captcha=", "&captcha=x", "&captcha=e30=", "&captcha=bnVsbA==", "&captcha=W10=", "&captcha=" + strings.Repeat("A", 5000), "&captcha=%00", "&captcha=%0d%0aSet-Cookie:a=b",
			"&n=0", "&n=1&captcha=1", "&captcha=" + base64.StdEncoding.EncodeToString([]byte(`{"challenge":null,"solution":{"counter":1e400}}`)),
			"&captcha=" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("[", 3000))),
		} {
			if a := ask(n, pass+answer, "Accept: text/html"); pass == "" || a.status != http.StatusTooManyRequests || a.header.Get("Set-Cookie") != "" || a.header.Get("Cache-Control") != "no-store" || !strings.Contains(a.body, "was not accepted") {
				t.Errorf("%s, %.60q: got %d, %v\n%s", way, answer, a.status, a.header, a.body)
			}
		}
	}
	// The widget is the same for everybody, and the only answer that may be stored. A gateway hands no answer on that lets the request through.
	for way, want := range map[string]int{"directly": http.StatusOK, "by a gateway": http.StatusTooManyRequests} {
		a := visits[way](n, challenge.Path+"?file=altcha-3.2.2.js", "Cookie: "+challenge.Cookie+"=x", "Accept: */*")
		if a.status != want || !strings.Contains(a.header.Get("Cache-Control"), "immutable") || a.header.Get("Set-Cookie") != "" || !strings.HasPrefix(a.body, "/*! ALTCHA") {
			t.Errorf("the widget, %s: got %d, %v", way, a.status, a.header)
		}
	}
}

// The paths of challenges are open to everybody, whatever tokens are sent: browsers have none.
func TestChallengesNeedNoToken(t *testing.T) {
	n := startNode(t, withChallenges, func(p *nodeParts) { p.Server.CheckAuth = true })
	all := credentials(n)
	for _, path := range []string{challenge.Path, challenge.PathPass, challenge.PathContinue} {
		want := n.send("GET", n.check+path, "").status
		for _, who := range all {
			if a := n.send("GET", n.check+path, "", "Authorization: "+who.header); a.status != want {
				t.Errorf("%s with %s: got %d, want %d", path, who.name, a.status, want)
			}
		}
		if a := n.send("POST", n.check+path, "a=b"); a.status != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: got %d", path, a.status)
		}
	}
}

func TestFramingOfChallenges(t *testing.T) {
	n := startNode(t, withChallenges)
	hidden := "GET " + challenge.Path + " HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, headers := range map[string]string{
		"two lengths":         "Content-Length: 0\r\nContent-Length: 50\r\n\r\n",
		"a length and chunks": "Content-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"a NUL in a cookie":   "Cookie: " + challenge.Cookie + "=\x00\r\n\r\n",
		"two hosts":           "Host: y\r\n\r\n",
	} {
		answers := raw(t, n.check, "GET "+challenge.Path+" HTTP/1.1\r\nHost: x\r\n"+headers+hidden)
		if len(answers) != 1 || answers[0].status != http.StatusBadRequest {
			t.Errorf("%s: got %d answers, the first %v", name, len(answers), answers)
		}
	}
}

// Who asks for one pass after another from one address gets no more than it may earn, and then one that
// all share who come from there: many people may.
func TestAnAddressEarnsFewPasses(t *testing.T) {
	n := startNode(t, withChallenges)
	browser := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var ids []string
	for i, address := range []string{"198.51.100.7", "198.51.100.7", "198.51.100.7", "198.51.100.7", "2001:db8::7", "2001:db8::8", "2001:db8::9", "2001:db8::a"} {
		page := n.send("GET", n.check+challenge.Path+"?to=/a", "", "X-Forwarded-For: "+address)
		_, rest, _ := strings.Cut(page.body, `<a id="pass" href="`)
		link, _, _ := strings.Cut(rest, `"`)
		n.clock.Add(time.Second)
		r, err := http.NewRequest(http.MethodGet, n.check+strings.ReplaceAll(link, "&amp;", "&"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Forwarded-For", address)
		a, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != http.StatusSeeOther || len(a.Cookies()) != 1 {
			t.Fatalf("pass %d: got %d, %v", i, a.StatusCode, a.Header)
		}
		raw, err := base64.RawURLEncoding.DecodeString(a.Cookies()[0].Value)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, string(raw[18:34])) // behind the version, the kind and two times
	}
	if ids[2] != ids[3] || ids[6] != ids[7] { // the last four are one network
		t.Error("the surplus of an address shares no pass")
	}
	if different := slices.Compact(slices.Sorted(slices.Values(ids))); len(different) != 6 {
		t.Errorf("%d passes, not two and a shared one each", len(different))
	}
}
