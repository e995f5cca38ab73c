package adminui_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/challenge"
)

// The editor of a policy leads to the pages that refused visitors see. They are complete, do nothing,
// and everybody can read them.
func TestEditorShowsWhatAVisitorSees(t *testing.T) {
	n := newNode(t)
	vic := n.as(t, "vic")
	vic.get("/policies/default").is(http.StatusOK).holds(`href="/visitor-page?decision=challenged"`)
	for decision, title := range map[string]string{"challenged": "One moment", "limited": "Too many requests", "blocked": "Access is blocked"} {
		got := vic.get("/visitor-page?decision=" + decision).is(http.StatusOK).holds("<h1>" + title + "</h1>").lacks("<script").lacks("http-equiv")
		if policy := got.header.Get("Content-Security-Policy"); !strings.Contains(policy, "style-src 'nonce-") {
			t.Errorf("%s: the policy is %q", decision, policy)
		}
	}
	if german := vic.do(http.MethodGet, "/visitor-page", nil, http.Header{"Accept-Language": {"de"}}); !strings.Contains(german.body, "Einen Moment") {
		t.Errorf("in German: got\n%s", german.body)
	}
	captchas := newNode(t, func(d *adminui.Deps) {
		d.Challenges = challenge.New(challenge.Options{Now: time.Now, Captcha: challenge.Captcha{Provider: challenge.Turnstile}})
	})
	captchas.as(t, "vic").get("/visitor-page?decision=challenged").is(http.StatusOK).holds("Here visitors solve the captcha of Cloudflare Turnstile.").lacks("<script")
	b := newBrowser(t, n)
	b.withAxe()
	b.logIn("vic")
	for _, decision := range []string{"challenged", "limited", "blocked"} {
		b.screens("visitor-"+decision, "/visitor-page?decision="+decision)
	}
}

// The pages of work and of a captcha, with the widget of ALTCHA in it, are ones that everybody can read, in both languages, and so
// is the page of a challenge that has expired; nothing is loaded but from Stint.
func TestChallengePagesAreAccessible(t *testing.T) {
	for _, page := range []struct {
		name, language string
		provider       challenge.Provider
	}{{"work-en", "en", ""}, {"work-de", "de", ""}, {"captcha-en", "en", challenge.Altcha}, {"captcha-de", "de", challenge.Altcha}} {
		language := page.language
		options := challenge.Options{
			Secret: func() []byte { return []byte("secret") }, Difficulty: challenge.MaxDifficulty, Wait: time.Hour, PassFor: time.Hour, Contact: "help@example.org",
			Captcha: challenge.Captcha{Provider: page.provider},
		}
		service := challenge.New(options)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			v := &challenge.Visit{Target: r.RequestURI, Address: netip.MustParseAddr("127.0.0.1"), Languages: language, IsInsecure: true}
			a := service.Show(v, "019ab21f")
			if challenge.IsOwn(v.Target) {
				a, _ = service.Visit(r.Context(), v)
			}
			for _, h := range a.Headers {
				w.Header().Set(h[0], h[1])
			}
			w.Header().Set("Content-Type", a.ContentType)
			w.WriteHeader(a.Status)
			_, _ = w.Write(a.Body)
		}))
		t.Cleanup(server.Close)
		b := newBrowser(t, &node{url: server.URL})
		b.withAxe()
		b.screens("visitor-"+page.name, "/a")
		if page.provider == "" {
			b.screens("visitor-expired-"+language, challenge.PathContinue)
			continue
		}
		b.waitFor(`document.querySelector("altcha-widget input")`)
		b.audit("the page with its widget, in " + language)
		if language == "de" && !run(b, chromedp.Evaluate[bool](`document.body.innerText.includes("Ich bin kein Roboter")`)) {
			t.Error("the widget is not in German")
		}
	}
}
