package doors

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/testnode"
)

// press clicks on the first element that a selector names, once it is there.
func (b *tab) press(selector string) {
	b.t.Helper()
	b.holds(fmt.Sprintf(`(e => !!e && (e.click(), true))(document.querySelector(%q))`, selector))
}

// holds waits until an expression is true in the page.
func (b *tab) holds(expression string) {
	b.t.Helper()
	servers.Await(b.t, expression, func() bool {
		ctx, cancel := context.WithTimeout(b.ctx, maxWait)
		defer cancel()
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		return err == nil && is
	})
}

const altchaBox = "altcha-widget input[type=checkbox]"

// challenging lets a node challenge everybody, and passes go on.
func (s *site) challenging() {
	s.Helper()
	s.put("site", `{"match":["ip:*"],"rules":["0/1d"],"on_limit":"challenge"}`)
	s.put("passes", `{"match":["pass:*"],"rules":["9/1d"]}`)
}

// The widget of ALTCHA, in a browser, solves the captcha through every door and comes from Stint itself.
func TestAltchaThroughEveryDoor(t *testing.T) {
	for _, d := range doors() {
		t.Run(d.name, func(t *testing.T) {
			s := &site{T: t, node: testnode.Start(t, append(d.flags, "--challenge-captcha", "altcha", "--challenge-difficulty", "10")...), app: new(application)}
			d.start(s, d.widget)
			s.challenging()
			person := visitor(t)
			person.open(s.url + "/a?b=c")
			person.shows("the browser", "you are a person")
			person.press(altchaBox)
			person.shows("the browser", "/a?b=c the application")

			page := s.get(challenge.Path+"?to=/a", browserAccepts, "X-Forwarded-Uri: /elsewhere", "X-Stint-Decision: blocked")
			s.expect("the page, whatever the client says of it", page, http.StatusTooManyRequests)
			link := challengePass.FindString(page.body)
			for what, more := range map[string]string{"waiting": "", "a counter": "&n=1", "a forged answer": "&captcha=e30%3D"} {
				if got := s.get(link+more, browserAccepts); got.status < 400 || got.header.Get("Set-Cookie") != "" {
					t.Errorf("%s: got %d, %v", what, got.status, got.header)
				}
			}
		})
	}
}

// Visitors whose clocks are wrong solve the captcha too: how long it can be solved is Stint's to say.
func TestAltchaInABrowserWithAWrongClock(t *testing.T) {
	s := start(t, gateways[0], 0, "--challenge-captcha", "altcha", "--challenge-difficulty", "8")
	s.challenging()
	for _, off := range []string{"-86400000", "86400000"} {
		person := visitor(t)
		person.open("about:blank")
		if err := chromedp.Do(person.ctx, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
				Source: "{ const now = Date.now; Date.now = () => now() + " + off + "; }",
			})
			return err
		})); err != nil {
			t.Fatal(err)
		}
		person.open(s.url + "/a?b=c")
		person.holds("Math.abs(Date.now() - new Date().getTime()) > 80000000")
		person.press(altchaBox)
		person.shows("the browser whose clock is off by "+off+" ms", "/a?b=c the application")
	}
}

// provider is a stand-in of Turnstile: its script, and the server that verifies answers.
type provider struct {
	mu         sync.Mutex
	seen       map[string]bool
	verified   int
	hostname   string
	isDown     bool
	script, at string // the URLs of the script's server, and of the one that verifies
}

const turnstileScript = `window.turnstile = { render: (box, o) => {
	box.innerHTML = "<button type=button>I am a person</button>";
	box.firstChild.onclick = () => o.callback([o.sitekey, o.action, o.cData].join("."));
} };
window[new URL(document.currentScript.src).searchParams.get("onload")]();`

func startProvider(t *testing.T) *provider {
	p := &provider{seen: map[string]bool{}, hostname: "shop.example"}
	script := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/turnstile/v0/api.js" {
			t.Errorf("the browser asked for %s", r.URL)
		}
		w.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(w, turnstileScript)
	}))
	t.Cleanup(script.Close)
	verify := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		answer := r.FormValue("response")
		parts := strings.Split(answer, ".")
		p.verified++
		switch {
		case p.isDown:
			w.WriteHeader(http.StatusBadGateway)
		case r.FormValue("secret") != "the-secret":
			fmt.Fprint(w, `{"success":false,"error-codes":["invalid-input-secret"]}`)
		case len(parts) != 3 || parts[0] != "the-site-key":
			fmt.Fprint(w, `{"success":false,"error-codes":["invalid-input-response"]}`)
		case p.seen[answer]:
			fmt.Fprint(w, `{"success":false,"error-codes":["timeout-or-duplicate"]}`)
		default:
			p.seen[answer] = true
			fmt.Fprintf(w, `{"success":true,"error-codes":[],"hostname":%q,"action":%q,"cdata":%q}`, p.hostname, parts[1], parts[2])
		}
	}))
	t.Cleanup(verify.Close)
	p.script, p.at = strings.TrimPrefix(script.URL, "https://"), verify.URL
	return p
}

func (p *provider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.verified
}

// A browser solves Turnstile's captcha through nginx; what it loads is by the policy of the page.
func TestTurnstileThroughNginx(t *testing.T) {
	p := startProvider(t)
	node := testnode.Start(t, "--trusted-proxies", "127.0.0.1", "--challenge-difficulty", "10", "--challenge-captcha", "turnstile", "--challenge-captcha-site-key", "the-site-key",
		"--challenge-captcha-secret-file", write(t, "secret", "the-secret\n"), "--site-hosts", "shop.example", "--challenge-captcha-verify-url", p.at,
		"--notify-allow-private", "true")
	s := &site{T: t, node: node, app: new(application)}
	s.behind(gateways[0], 0)
	s.challenging()
	resolve := chromedp.Flag("host-resolver-rules", "MAP challenges.cloudflare.com "+p.script)
	person := newTab(t, newChromium(t, resolve, chromedp.Flag("ignore-certificate-errors", true)))
	for range 5 {
		s.expect("a program", s.get("/"), http.StatusTooManyRequests)
	}
	person.open(s.url + "/a?b=c")
	person.shows("the browser", "The check comes from challenges.cloudflare.com")
	if p.count() != 0 {
		t.Error("the provider was asked before there was an answer")
	}
	person.press("#captcha button")
	person.shows("the browser", "/a?b=c the application")
	if p.count() != 1 {
		t.Errorf("the provider was asked %d times", p.count())
	}

	// Nothing but an answer that the provider takes for this site and this challenge is a pass.
	link := func() (pass, name string) {
		body := s.get("/a", browserAccepts).body
		return challengePass.FindString(body), captchaName.FindStringSubmatch(body)[1]
	}
	fails := func(what, target string) {
		t.Helper()
		if got := s.get(target, browserAccepts); got.status != http.StatusTooManyRequests || !strings.Contains(got.body, "was not accepted") || got.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: got %d, %v\n%s", what, got.status, got.header, got.body)
		}
	}
	pass, name := link()
	fails("no answer", pass)
	fails("a forged answer", pass+"&captcha=x")
	_, other := link()
	fails("an answer for another challenge", pass+"&captcha=the-site-key.stint."+other)
	fails("an answer for another action", pass+"&captcha=the-site-key.login."+name)
	p.set(func() { p.hostname = "evil.example" })
	fails("an answer from another site", pass+"&captcha=the-site-key.stint."+name)
	node.AwaitOutput(t, "evil.example")
	p.set(func() { p.hostname = "shop.example" })
	pass, name = link()
	if got := s.get(pass+"&captcha=the-site-key.stint."+name, browserAccepts); got.status != http.StatusSeeOther || got.header.Get("Set-Cookie") == "" {
		t.Errorf("a good answer: got %d\n%s", got.status, got.body)
	}
	fails("a replay", pass+"&captcha=the-site-key.stint."+name)

	// While the provider is down, browsers work instead, and nobody is let pass for nothing.
	p.set(func() { p.isDown = true })
	pass, name = link()
	for range 2 {
		if got := s.get(pass+"&captcha=the-site-key.stint."+name, browserAccepts); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "5" || challengePass.FindString(got.body) == "" {
			t.Errorf("a failure that is no outage: got %d, %v\n%s", got.status, got.header, got.body)
		}
	}
	down := s.get(pass+"&captcha=the-site-key.stint."+name, browserAccepts)
	if !strings.Contains(down.body, "Checking your browser") || down.header.Get("Set-Cookie") != "" {
		t.Errorf("without the provider: got %d\n%s", down.status, down.body)
	}
	worker := visitor(t)
	worker.open(s.url + "/worked?a")
	worker.shows("a browser while the provider is down", "/worked?a the application")
	node.AwaitOutput(t, "answers of captchas cannot be verified")
	if log := node.Output(); strings.Contains(log, "the-secret") {
		t.Errorf("the log has the secret:\n%s", log)
	}
}
