package cli

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/challenge"
)

// gatewayOf is a site behind a gateway that hands challenges on, with a fault of its own.
func gatewayOf(t *testing.T, fault func(w http.ResponseWriter, r *http.Request, a *challenge.Answer) bool, provider ...challenge.Provider) string {
	options := challenge.Options{Secret: func() []byte { return []byte("secret") }, Difficulty: 6, Wait: time.Minute, PassFor: time.Hour}
	for _, options.Captcha.Provider = range provider {
	}
	service := challenge.New(options)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &challenge.Visit{Target: r.URL.RequestURI(), Address: netip.MustParseAddr("198.51.100.7"), IsInsecure: true}
		for _, line := range r.Header.Values("Cookie") {
			v.Cookies = append(v.Cookies, []byte(line))
		}
		var a *challenge.Answer
		if challenge.IsOwn(v.Target) {
			a, _ = service.Visit(r.Context(), v)
		} else if _, has := service.PassOf(v.Cookies, v.Address); !has {
			a = service.Show(v, "")
		}
		if fault != nil && fault(w, r, a) {
			return
		}
		if a == nil {
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", a.ContentType)
		for _, h := range a.Headers {
			w.Header().Set(h[0], h[1])
		}
		w.WriteHeader(a.Status)
		_, _ = w.Write(a.Body)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/a?b=c"
}

// A probe names the step at which a gateway breaks the way of a challenged browser.
func TestProbeNamesTheStepThatFails(t *testing.T) {
	without := func(headers ...string) func(http.ResponseWriter, *http.Request, *challenge.Answer) bool {
		return func(_ http.ResponseWriter, _ *http.Request, a *challenge.Answer) bool {
			if a == nil {
				return false
			}
			kept := a.Headers[:0]
			for _, h := range a.Headers {
				if !strings.Contains(strings.Join(headers, " "), h[0]) {
					kept = append(kept, h)
				}
			}
			a.Headers = kept
			return false
		}
	}
	status := func(code int, own bool) func(http.ResponseWriter, *http.Request, *challenge.Answer) bool {
		return func(w http.ResponseWriter, r *http.Request, _ *challenge.Answer) bool {
			if challenge.IsOwn(r.URL.Path) == own {
				w.WriteHeader(code)
				return true
			}
			return false
		}
	}
	leads := func(to string, own bool) func(http.ResponseWriter, *http.Request, *challenge.Answer) bool {
		return func(w http.ResponseWriter, r *http.Request, a *challenge.Answer) bool {
			w.Header().Set("Location", to)
			return status(http.StatusFound, own)(w, r, a)
		}
	}
	page := func(link string) func(http.ResponseWriter, *http.Request, *challenge.Answer) bool {
		return func(_ http.ResponseWriter, r *http.Request, a *challenge.Answer) bool {
			if r.URL.Path == challenge.Path {
				a.Body = []byte(link)
			}
			return false
		}
	}
	for _, c := range []struct {
		name  string
		fault func(http.ResponseWriter, *http.Request, *challenge.Answer) bool
		step  string // that fails, "" for none
		says  string
	}{
		{"all is well", nil, "", ""},
		{"the application answers", status(http.StatusNotFound, true), "ask for a challenge", "does not ask Stint"},
		{"a gateway that hands on no body", status(http.StatusUnauthorized, true), "ask for a challenge", "error_page"},
		{"a page of the gateway's own", status(http.StatusTooManyRequests, true), "hand on the page", "replaces the bodies"},
		{"no policy for its script", without("Content-Security-Policy"), "hand on the page", "Content-Security-Policy"},
		{"no cookie", without("Set-Cookie"), "set the cookie", "Set-Cookie"},
		{"the cookie is not sent back", func(_ http.ResponseWriter, r *http.Request, a *challenge.Answer) bool {
			if r.URL.Path == challenge.PathContinue {
				a.Status, a.Headers = http.StatusForbidden, nil
			}
			return false
		}, "send the cookie back", "Cookie"},
		{"checks without the cookie", status(http.StatusTooManyRequests, false), "open the page with the pass", "still refused"},
		{"the site needs a login", status(http.StatusUnauthorized, false), "open the page with the pass", "without a login"},
		{"the site refuses", status(http.StatusForbidden, false), "open the page with the pass", "refuses the address"},
		{"the site is gone", status(http.StatusBadGateway, false), "open the page with the pass", "does not answer"},
		{"Stint is gone", status(http.StatusServiceUnavailable, true), "ask for a challenge", "does not answer"},
		{"it is challenged again", leads(challenge.Path+"?to=%2Fa", false), "open the page with the pass", "without end"},
		{"the site leads on", leads("https://www.shop.example/", false), "", ""},
		{"the site has another name", leads("https://www.shop.example/", true), "ask for a challenge", "probe the URL"},
		{"a page that leads elsewhere", page(`<a id="pass" href="https://evil.example/" data-prefix="a" data-difficulty="1"`), "solve it", "another site"},
		{"a page that leads to another host", page(`<a id="pass" href="//evil.example/" data-prefix="a" data-difficulty="1"`), "solve it", "another site"},
		{"a page that cannot be solved", page(`<a id="pass" href="/" data-prefix="a" data-difficulty="99"`), "hand on the page", "99 bits"},
		{"a redirect to another host", func(_ http.ResponseWriter, r *http.Request, a *challenge.Answer) bool {
			if r.URL.Path == challenge.PathPass {
				for i := range a.Headers {
					if a.Headers[i][0] == "Location" {
						a.Headers[i][1] = "//evil.example/"
					}
				}
			}
			return false
		}, "send the cookie back", "another site"},
	} {
		p, err := newProbe(gatewayOf(t, c.fault))
		if err != nil {
			t.Fatal(err)
		}
		err = p.run(t.Context())
		last := p.steps[len(p.steps)-1]
		if (err == nil) != (c.step == "") || err == nil != last.OK || c.step != "" && (last.Step != c.step || !strings.Contains(last.Detail, c.says)) {
			t.Errorf("%s: got %v, %+v", c.name, err, p.steps)
		}
		for _, s := range p.steps[:len(p.steps)-1] {
			if !s.OK {
				t.Errorf("%s: got %+v", c.name, p.steps)
			}
		}
	}
	for _, site := range []string{"", "shop.example", "ftp://shop.example", "http://"} {
		if _, err := newProbe(site); err == nil {
			t.Errorf("%q is taken", site)
		}
	}
}

// A probe cannot solve a captcha, and says so; it sees whether a gateway hands the widget on.
func TestProbeOfCaptchas(t *testing.T) {
	cut := func(w http.ResponseWriter, r *http.Request, _ *challenge.Answer) bool {
		is := strings.Contains(r.URL.RawQuery, "file=")
		if is {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		return is
	}
	for _, c := range []struct {
		provider challenge.Provider
		fault    func(http.ResponseWriter, *http.Request, *challenge.Answer) bool
		steps    int
		says     string
	}{
		{challenge.Altcha, nil, 4, "for a person"}, {challenge.Turnstile, nil, 3, "for a person"}, {challenge.Altcha, cut, 3, "a route of its own"},
	} {
		p, err := newProbe(gatewayOf(t, c.fault, c.provider))
		if err != nil {
			t.Fatal(err)
		}
		err = p.run(t.Context())
		last := p.steps[len(p.steps)-1]
		if (err == nil) != (c.fault == nil) || len(p.steps) != c.steps || last.OK != (err == nil) || !strings.Contains(last.Detail, c.says) {
			t.Errorf("%s: got %v, %+v", c.provider, err, p.steps)
		}
	}
}
