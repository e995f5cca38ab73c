package challenge

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// siteverify is a stand-in of the server that verifies the answers of Turnstile and hCaptcha. It takes each
// answer once, as theirs do.
type siteverify struct {
	*httptest.Server
	mu     sync.Mutex
	seen   map[string]bool
	forms  []string
	answer func(form map[string][]string) (status int, body string)
	// replays lets answers be taken again.
	replays bool
}

const siteSecret = "0x4AAA-secret"

func startSiteverify(t *testing.T, answer func(map[string][]string) (int, string)) *siteverify {
	s := &siteverify{seen: map[string]bool{}, answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
			t.Errorf("got %s %v, %v", r.Method, r.Header, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.forms = append(s.forms, r.PostForm.Encode())
		token := r.PostForm.Get("response")
		if s.seen[token] && !s.replays {
			_, _ = io.WriteString(w, `{"success":false,"error-codes":["timeout-or-duplicate"]}`)
			return
		}
		s.seen[token] = true
		status, body := s.answer(r.PostForm)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *siteverify) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.forms)
}

// withCaptcha makes challenges captchas of a provider, which s verifies.
func withCaptcha(p Provider, s *siteverify, change ...func(*Captcha)) func(*Options) {
	var mu sync.Mutex
	spent := map[string]bool{}
	return func(o *Options) {
		o.Captcha = Captcha{
			Provider: p, SiteKey: "site-key", Secret: siteSecret, Client: http.DefaultClient,
			IsOurs: func(host string) bool { return host == "shop.example" },
			Spend: func(_ context.Context, name string) bool {
				mu.Lock()
				defer mu.Unlock()
				is := !spent[name]
				spent[name] = true
				return is
			},
		}
		if s != nil {
			o.Captcha.VerifyURL = s.URL
		}
		for _, change := range change {
			change(&o.Captcha)
		}
	}
}

var captchaData = regexp.MustCompile(`var c = (\{.*\}), nonce`)

// captchaOf returns what the script of a page knows of its captcha.
func captchaOf(t *testing.T, a *Answer) *shownCaptcha {
	t.Helper()
	found := captchaData.FindSubmatch(a.Body)
	if found == nil {
		t.Fatalf("status %d, without a captcha:\n%s", a.Status, a.Body)
	}
	var c shownCaptcha
	if err := json.Unmarshal(found[1], &c); err != nil {
		t.Fatal(err)
	}
	return &c
}

func (s *Service) take(t *testing.T, pass, answer string, cookies ...string) (*Answer, Outcome) {
	t.Helper()
	return s.Visit(t.Context(), visit(pass+"&captcha="+answer, cookies...))
}

// said is what a provider says of an answer that it takes, for a challenge with a name.
func said(name string) string {
	return `{"success":true,"hostname":"shop.example","action":"stint","cdata":"` + name + `","error-codes":[]}`
}

func TestProvidersVerifyAnswers(t *testing.T) {
	for _, p := range []Provider{Turnstile, HCaptcha} {
		t.Run(string(p), func(t *testing.T) {
			name := ""
			verify := startSiteverify(t, func(map[string][]string) (int, string) { return http.StatusOK, said(name) })
			s, _ := service("secret", withCaptcha(p, verify))
			page := s.Show(visit("/a?b=c"), "R-1")
			shown := captchaOf(t, page)
			if name = shown.Data; shown.SiteKey != "site-key" || page.Status != http.StatusTooManyRequests || bytes.Contains(page.Body, []byte(siteSecret)) {
				t.Fatalf("got %d, %+v", page.Status, shown)
			}
			if verify.asked() != 0 {
				t.Error("the provider was asked about a page")
			}
			a, outcome := s.take(t, shown.Pass, "answer-1")
			if outcome != Solved || a.Status != http.StatusSeeOther || a.header("Set-Cookie") == "" {
				t.Fatalf("got %d %q:\n%s", a.Status, outcome, a.Body)
			}
			cookie, _, _ := strings.Cut(a.header("Set-Cookie"), ";")
			last, _ := s.Visit(t.Context(), visit(a.header("Location"), cookie))
			if last.header("Location") != "/a?b=c" {
				t.Errorf("it leads to %q", last.header("Location"))
			}
			want := "response=answer-1&secret=" + siteSecret
			if p == HCaptcha {
				want += "&sitekey=site-key"
			}
			if verify.forms[0] != want {
				t.Errorf("the provider was sent %s, want %s", verify.forms[0], want)
			}
			if a, outcome := s.take(t, shown.Pass, "answer-1", cookie); outcome != Nothing || a.Status != http.StatusSeeOther || verify.asked() != 1 {
				t.Errorf("sent again with the pass: got %d %q, and the provider was asked %d times", a.Status, outcome, verify.asked())
			}
			if a, outcome := s.take(t, shown.Pass, "answer-1"); outcome != Failed || a.header("Set-Cookie") != "" {
				t.Errorf("replayed: got %d %q", a.Status, outcome)
			}
			verify.replays = true
			if a, outcome := s.take(t, shown.Pass, "answer-1"); outcome != Failed || a.header("Set-Cookie") != "" {
				t.Errorf("replayed, and the provider does not mind: got %d %q", a.Status, outcome)
			}
			other := captchaOf(t, s.Show(visit("/"), ""))
			if p == Turnstile {
				if a, outcome := s.take(t, other.Pass, "answer-2"); outcome != Failed || a.header("Set-Cookie") != "" {
					t.Errorf("an answer for another challenge: got %d %q", a.Status, outcome)
				}
			}
			// The ways of work do not solve it, however long the client waits.
			for what, link := range map[string]string{"a counter": shown.Pass + "&n=1", "waiting": shown.Pass, "an empty answer": shown.Pass + "&captcha=", "spaces": shown.Pass + "&captcha=a%20b", "a long one": shown.Pass + "&captcha=" + strings.Repeat("x", providersOf[p].maxAnswer+1), "other characters": shown.Pass + "&captcha=a%25", "those of base64": shown.Pass + "&captcha=a%2Fb%3D"} {
				asked := verify.asked()
				if a, outcome := s.Visit(t.Context(), visit(link)); outcome != Failed || a.header("Set-Cookie") != "" || verify.asked() != asked {
					t.Errorf("%s: got %d %q", what, a.Status, outcome)
				}
			}
		})
	}
}

func TestAnswersOfOthersAreRejected(t *testing.T) {
	for what, c := range map[string]struct {
		of   Provider
		body string
	}{
		"a failure":         {Turnstile, `{"success":false,"error-codes":["invalid-input-response"]}`},
		"a late answer":     {Turnstile, `{"success":false,"error-codes":["timeout-or-duplicate"]}`},
		"another action":    {Turnstile, strings.Replace(said("NAME"), `"stint"`, `"login"`, 1)},
		"no action":         {Turnstile, `{"success":true,"hostname":"shop.example"}`},
		"another challenge": {Turnstile, said(strings.Repeat("0", 32))},
		"another site key":  {HCaptcha, `{"success":false,"error-codes":["sitekey-secret-mismatch"]}`},
	} {
		name := ""
		verify := startSiteverify(t, func(map[string][]string) (int, string) {
			return http.StatusOK, strings.Replace(c.body, "NAME", name, 1)
		})
		s, _ := service("secret", withCaptcha(c.of, verify))
		shown := captchaOf(t, s.Show(visit("/a"), ""))
		name = shown.Data
		a, outcome := s.take(t, shown.Pass, "answer")
		if outcome != Failed || a.Status != http.StatusTooManyRequests || a.header("Set-Cookie") != "" || !bytes.Contains(a.Body, []byte("was not accepted")) {
			t.Errorf("%s: got %d %q:\n%s", what, a.Status, outcome, a.Body)
		}
		if again := captchaOf(t, a); again.Pass == shown.Pass || verify.asked() != 1 {
			t.Errorf("%s: the page has no other captcha", what)
		}
	}
}

// The doing of a provider that is down, or of settings that are wrong, is no pass, and locks nobody out.
func TestProvidersThatAreDown(t *testing.T) {
	silent := errors.New("the receiver did not answer in time")
	for what, c := range map[string]struct {
		status int
		body   string
		err    error
	}{
		"an error":            {err: silent},
		"503":                 {503, "", nil},
		"a wrong secret, 401": {401, `{"success":false,"error-codes":["missing-input-secret"]}`, nil},
		"a redirect":          {302, said("x"), nil},
		"no JSON":             {200, "<html>", nil},
		"nothing":             {200, "", nil},
		"an empty object":     {200, "{}", nil},
		"a long answer":       {200, said("x") + strings.Repeat(" ", maxVerified), nil},
		"a wrong secret":      {200, `{"success":false,"error-codes":["invalid-input-secret"]}`, nil},
		"an error of theirs":  {200, `{"success":false,"error-codes":["internal-error"]}`, nil},
	} {
		for _, outage := range []string{"work", RefuseInOutage} {
			verify := startSiteverify(t, func(map[string][]string) (int, string) { return c.status, c.body })
			verify.replays = true
			var logged bytes.Buffer
			s, clock := service("secret", withCaptcha(HCaptcha, verify, func(o *Captcha) {
				o.Outage, o.Log = outage, slog.New(slog.NewTextHandler(&logged, nil))
				if c.err != nil {
					o.Client = failing{c.err}
				} else {
					o.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
				}
			}))
			shown := captchaOf(t, s.Show(visit("/a"), ""))
			for range outageAfter - 1 { // who sent these chose what was sent
				a, outcome := s.take(t, shown.Pass, "answer")
				isBusy(t, a, outcome)
				captchaOf(t, s.Show(visit("/a"), ""))
			}
			a, outcome := s.take(t, shown.Pass, "answer")
			if outcome != Nothing || a.header("Set-Cookie") != "" {
				t.Errorf("%s, %s: got %d %q", what, outage, a.Status, outcome)
			}
			if text := logged.String(); !strings.Contains(text, "cannot be verified") || strings.Contains(text, siteSecret) || strings.Contains(text, "answer=") {
				t.Errorf("%s: logged %q", what, text)
			}
			if outage == RefuseInOutage {
				if a.Status != http.StatusServiceUnavailable || !bytes.Contains(a.Body, []byte(`href="/a"`)) || !bytes.Contains(a.Body, []byte("cannot be verified at the moment")) {
					t.Errorf("%s: got %d:\n%s", what, a.Status, a.Body)
				}
				captchaOf(t, s.Show(visit("/a"), ""))
				continue
			}
			if cookie := solve(t, s, a); cookie == "" {
				t.Errorf("%s: work gives no pass", what)
			}
			other := s.Show(visit("/a"), "") // others are not asked in vain
			waited, solved := linkOf(t, other)
			if bytes.Contains(other.Body, []byte("http-equiv")) {
				t.Errorf("%s: the page leads on those who wait", what)
			}
			clock.now = clock.now.Add(time.Minute)
			if a, outcome := s.Visit(t.Context(), visit(waited)); outcome != Failed || a.header("Set-Cookie") != "" {
				t.Errorf("%s: waiting: got %d %q", what, a.Status, outcome)
			}
			captchaOf(t, s.Show(visit("/a"), ""))
			clock.now = clock.now.Add(time.Minute + time.Millisecond)
			if a, outcome := s.Visit(t.Context(), visit(solved)); outcome != Nothing || a.header("Set-Cookie") != "" {
				t.Errorf("%s: work of an outage that has ended: got %d %q", what, a.Status, outcome)
			}
		}
	}
}

// isBusy expects another captcha of an answer that was not verified.
func isBusy(t *testing.T, a *Answer, outcome Outcome) {
	t.Helper()
	if captchaOf(t, a); a.Status != http.StatusServiceUnavailable || a.header("Retry-After") != "5" || outcome != Nothing || a.header("Set-Cookie") != "" || passLink.Match(a.Body) {
		t.Errorf("got %d %q, %v", a.Status, outcome, a.Headers)
	}
}

// What visitors can make a provider say begins no outage, however often.
func TestVisitorsBeginNoOutage(t *testing.T) {
	status, body := 0, ""
	verify := startSiteverify(t, func(map[string][]string) (int, string) { return status, body })
	verify.replays = true
	var logged bytes.Buffer
	s, _ := service("secret", withCaptcha(HCaptcha, verify, func(c *Captcha) { c.Log = slog.New(slog.NewTextHandler(&logged, nil)) }))
	shown := captchaOf(t, s.Show(visit("/a"), ""))
	for range 2 * outageAfter {
		status, body = http.StatusTooManyRequests, `{"success":false,"error-codes":["x"]}`
		a, outcome := s.take(t, shown.Pass, "answer")
		isBusy(t, a, outcome)
		for _, status = range []int{400, 403, 414} {
			body = "<html>"
			if a, outcome := s.take(t, shown.Pass, "answer"); outcome != Failed || a.Status != http.StatusTooManyRequests {
				t.Errorf("%d: got %d %q", status, a.Status, outcome)
			}
		}
		// A verdict between failures says that the provider is there.
		for _, status = range []int{500, 500, 200} {
			body = `{"success":false,"error-codes":["invalid-input-response"]}`
			s.take(t, shown.Pass, "answer")
		}
	}
	captchaOf(t, s.Show(visit("/a"), ""))
	if !strings.Contains(logged.String(), "looks at no answer") {
		t.Errorf("logged %q", logged.String())
	}
}

// A host that the setting lacks is said to the operator, and not held against its visitors.
func TestAnswersFromOtherHosts(t *testing.T) {
	for what, body := range map[string]string{"another site": strings.Replace(said("NAME"), "shop.example", `www.shop.example\"`, 1), "no site": strings.Replace(said("NAME"), "shop.example", "", 1)} {
		for _, provider := range []Provider{Turnstile, HCaptcha} {
			name := ""
			verify := startSiteverify(t, func(map[string][]string) (int, string) { return http.StatusOK, strings.Replace(body, "NAME", name, 1) })
			var logged bytes.Buffer
			s, clock := service("secret", withCaptcha(provider, verify, func(c *Captcha) { c.Log = slog.New(slog.NewJSONHandler(&logged, nil)) }))
			for i := range 3 {
				shown := captchaOf(t, s.Show(visit("/a"), ""))
				name = shown.Data
				a, outcome := s.take(t, shown.Pass, fmt.Sprint("answer-", i))
				if captchaOf(t, a); outcome != Nothing || a.Status != http.StatusTooManyRequests || a.header("Set-Cookie") != "" {
					t.Errorf("%s: got %d %q", what, a.Status, outcome)
				}
				if lines := strings.Count(logged.String(), "another host"); lines != 1+i/2 {
					t.Errorf("%s: %d warnings after %d answers: %s", what, lines, i+1, &logged)
				}
				clock.now = clock.now.Add(time.Duration(i) * time.Minute)
			}
			if text := logged.String(); !strings.Contains(text, `\"`) || strings.Contains(text, "answer-") {
				t.Errorf("%s: logged %s", what, text)
			}
		}
	}
}

type failing struct{ err error }

func (f failing) Do(*http.Request) (*http.Response, error) { return nil, f.err }

// Only so many answers are sent to the provider at a time, and fewer of one network: nobody keeps all others
// waiting. Who gets no place gets another captcha, never work, and waits for nobody.
func TestFewAnswersAreVerifiedAtATime(t *testing.T) {
	entered, release := make(chan bool, maxVerifying), make(chan bool)
	var logged bytes.Buffer
	s, _ := service("secret", withCaptcha(HCaptcha, nil, func(c *Captcha) {
		c.Log = slog.New(slog.NewJSONHandler(&logged, nil))
		c.Client = doing(func() (*http.Response, error) {
			entered <- true
			<-release
			return nil, errors.New("it has taken long")
		})
	}))
	shown := captchaOf(t, s.Show(visit("/a"), ""))
	from := func(address, answer string) (*Answer, Outcome) {
		v := visit(shown.Pass + "&captcha=" + answer)
		v.Address = netip.MustParseAddr(address)
		return s.Visit(t.Context(), v)
	}
	var group sync.WaitGroup
	takesPlace := func(address string) {
		group.Go(func() { from(address, "answer") })
		<-entered
	}
	isRefused := func(address string) {
		t.Helper()
		for range 100 {
			a, outcome := from(address, "answer")
			isBusy(t, a, outcome)
			if a, outcome := from(address, "gar%20bage"); outcome != Failed {
				t.Fatalf("garbage: got %d %q", a.Status, outcome)
			}
		}
	}
	for i := range maxOfNetwork {
		takesPlace(fmt.Sprint("198.51.100.", 1+i)) // one sender with many addresses
	}
	isRefused("198.51.100.200")
	if text := logged.String(); !strings.Contains(text, "one network sends too many answers") || !strings.Contains(text, "198.51.100.0/24") {
		t.Errorf("logged %s", text)
	}
	for i := range maxOfNetwork {
		takesPlace(fmt.Sprintf("2001:db8:1:%x::1", i)) // one /48
	}
	isRefused("2001:db8:1:ffff::1")
	for i := range maxVerifying - 2*maxOfNetwork {
		takesPlace(fmt.Sprintf("203.0.%d.1", i)) // others have places still
	}
	isRefused("192.0.2.1")               // until all are taken
	captchaOf(t, s.Show(visit("/"), "")) // a flood of answers does not change what others are asked
	close(release)
	group.Wait()
	if len(entered) != 0 {
		t.Errorf("%d more were asked", len(entered))
	}
	if p := &s.captcha.verifying; p.taken != 0 || len(p.of) != 0 {
		t.Errorf("%d places of %d networks are still taken", p.taken, len(p.of))
	}
	if a, _ := from("198.51.100.7", "answer"); a.Status == http.StatusOK || len(entered) != 1 {
		t.Errorf("with free places again: got %d, %d were asked", a.Status, len(entered))
	}
}

type doing func() (*http.Response, error)

func (d doing) Do(*http.Request) (*http.Response, error) { return d() }

// solveAltcha returns the payload of ALTCHA's widget for a challenge, by the protocol alone.
func solveAltcha(t *testing.T, a *altchaChallenge) string {
	t.Helper()
	nonce, err := hex.DecodeString(a.Parameters.Nonce)
	if err != nil {
		t.Fatal(err)
	}
	for counter := uint32(0); counter < 1<<20; counter++ {
		key := sha256.Sum256(append(nonce[:len(nonce):len(nonce)], byte(counter>>24), byte(counter>>16), byte(counter>>8), byte(counter)))
		if text := hex.EncodeToString(key[:]); strings.HasPrefix(text, a.Parameters.KeyPrefix) {
			return payloadOf(t, a, float64(counter), text)
		}
	}
	t.Fatal("no counter solves it")
	return ""
}

func payloadOf(t *testing.T, a *altchaChallenge, counter float64, key string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"challenge": a, "solution": map[string]any{"counter": counter, "derivedKey": key, "time": 12.5}})
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(base64.StdEncoding.EncodeToString(text), "+", "%2B")
}

func TestAltcha(t *testing.T) {
	s, c := service("secret", withCaptcha(Altcha, nil))
	page := s.Show(visit("/a?b=c"), "R-1")
	shown := captchaOf(t, page)
	if size := len(page.Body); size > 30_000 {
		t.Errorf("the page has %d bytes", size)
	}
	if p := shown.Altcha.Parameters; p.Algorithm != "SHA-256" || p.Cost != 1 || p.ExpiresAt != start.Add(lifetime).Unix() || p.KeyLength != 32 {
		t.Errorf("got %+v", p)
	}
	payload := solveAltcha(t, shown.Altcha)
	a, outcome := s.take(t, shown.Pass, payload)
	first := a.header("Set-Cookie")
	if outcome != Solved || first == "" {
		t.Fatalf("got %d %q:\n%s", a.Status, outcome, a.Body)
	}
	c.now = c.now.Add(time.Minute)
	again, _ := s.take(t, shown.Pass, payload)
	cut := func(cookie string) string { cookie, _, _ = strings.Cut(cookie, ";"); return cookie }
	if cut(again.header("Set-Cookie")) != cut(first) {
		t.Error("a replay gave another pass")
	}

	other := captchaOf(t, s.Show(visit("/"), ""))
	foreign, _ := service("another secret", withCaptcha(Altcha, nil))
	abroad := captchaOf(t, foreign.Show(visit("/"), ""))
	easy := *other.Altcha
	easy.Parameters.KeyPrefix = ""
	zero := sha256.Sum256(make([]byte, 20))
	for what, answer := range map[string]string{
		"the solution of another one": payload,
		"one of another secret":       solveAltcha(t, abroad.Altcha),
		"a prefix of its own":         payloadOf(t, &easy, 0, hex.EncodeToString(zero[:])),
		"counter 0 and its own key":   payloadOf(t, other.Altcha, 0, hex.EncodeToString(zero[:])),
		"no counter":                  payloadOf(t, other.Altcha, -1, ""),
		"a broken counter":            payloadOf(t, other.Altcha, 0.5, ""),
		"no base64":                   "%25%25",
		"no JSON":                     base64.StdEncoding.EncodeToString([]byte("[1,2]")),
		"nothing":                     "",
	} {
		if a, outcome := s.take(t, other.Pass, answer); outcome != Failed || a.header("Set-Cookie") != "" {
			t.Errorf("%s: got %d %q", what, a.Status, outcome)
		}
	}
	c.now = start.Add(lifetime + time.Millisecond)
	if a, outcome := s.take(t, shown.Pass, payload); outcome != Nothing || a.Status != http.StatusForbidden {
		t.Errorf("after its lifetime: got %d %q", a.Status, outcome)
	}
}

// What pages may load is what the provider chosen needs.
func TestPoliciesOfCaptchaPages(t *testing.T) {
	for provider, want := range map[Provider]string{
		NoCaptcha: "default-src 'none'; script-src 'nonce-N'; style-src 'nonce-N'; worker-src blob:; ",
		Altcha:    "default-src 'none'; script-src 'nonce-N'; style-src 'nonce-N'; worker-src blob:; connect-src 'self'; ",
		Turnstile: "default-src 'none'; script-src 'nonce-N' https://challenges.cloudflare.com; style-src 'nonce-N'; worker-src blob:; frame-src https://challenges.cloudflare.com; ",
		HCaptcha: "default-src 'none'; script-src 'nonce-N' " + hcaptchaHosts + "; style-src 'nonce-N' " + hcaptchaHosts + "; worker-src blob:; connect-src " + hcaptchaHosts +
			"; frame-src " + hcaptchaHosts + "; ",
	} {
		s, _ := service("secret", withCaptcha(provider, nil))
		page := s.Show(visit("/"), "")
		got := regexp.MustCompile(`'nonce-[A-Z0-9]+'`).ReplaceAllString(page.header("Content-Security-Policy"), "'nonce-N'")
		if want += "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"; got != want {
			t.Errorf("%s: got %s\nwant %s", provider, got, want)
		}
		refusal := s.Refuse(visit("/"), &Refusal{Outcome: "blocked", Status: 403})
		if policy := refusal.header("Content-Security-Policy"); strings.Contains(policy, "https:") || strings.Contains(policy, "connect-src") {
			t.Errorf("%s: the page of a block may load: %s", provider, policy)
		}
		if len(page.Body) > 30_000 {
			t.Errorf("%s: the page has %d bytes", provider, len(page.Body))
		}
		for _, language := range []string{"en", "de"} {
			v := visit("/")
			v.Languages = language
			text := string(s.Show(v, "").Body)
			if host := providersOf[provider]; host != nil && host.host() != "" && !strings.Contains(text, "from "+host.host()) && !strings.Contains(text, "von "+host.host()) {
				t.Errorf("%s, %s: the page does not say where the check is from", provider, language)
			}
		}
	}
}

func TestTheWidgetIsThePinnedOne(t *testing.T) {
	s, _ := service("secret", withCaptcha(Altcha, nil))
	shown := captchaOf(t, s.Show(visit("/"), ""))
	if got := hex.EncodeToString(sum(altchaScript)); got != "1d07680eee66c3b591c6638640f7bf763112bf88d7223a331f7d2b49f0ce4968" {
		t.Errorf("the file has SHA-256 %s", got)
	}
	v := visit(html.UnescapeString(shown.Script))
	plain, outcome := s.Visit(t.Context(), v)
	v.AcceptsGzip = true
	compressed, _ := s.Visit(t.Context(), v)
	r, err := gzip.NewReader(bytes.NewReader(compressed.Body))
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(unpacked, plain.Body) || compressed.header("Content-Encoding") != "gzip" || plain.header("Content-Encoding") != "" {
		t.Errorf("the compressed file differs: %v", err)
	}
	if outcome != Nothing || plain.Status != http.StatusOK || !strings.Contains(plain.header("Cache-Control"), "immutable") || !strings.HasPrefix(plain.ContentType, "text/javascript") {
		t.Errorf("got %d %q, %v", plain.Status, outcome, plain.Headers)
	}
	if !bytes.HasPrefix(plain.Body, []byte("/*! ALTCHA 3.2.2\n\nMIT License")) || !bytes.HasSuffix(plain.Body, altchaScript) {
		t.Errorf("it begins with %q", plain.Body[:100])
	}
	if page, _ := s.Visit(t.Context(), visit(Path+"?file=other.js")); page.Status != http.StatusTooManyRequests {
		t.Errorf("another file: got %d", page.Status)
	}
}

func sum(b []byte) []byte { s := sha256.Sum256(b); return s[:] }

// Nodes with different settings take each other's challenges, or ask another one; none gives a pass for nothing.
func TestNodesWithOtherCaptchas(t *testing.T) {
	verify := startSiteverify(t, func(map[string][]string) (int, string) { return http.StatusOK, said("x") })
	plain, _ := service("secret", nil)
	altcha, _ := service("secret", withCaptcha(Altcha, nil))
	remote, _ := service("secret", withCaptcha(HCaptcha, verify, func(c *Captcha) { c.Outage = RefuseInOutage }))
	shown := captchaOf(t, altcha.Show(visit("/"), ""))
	for what, s := range map[string]*Service{"plain": plain, "remote": remote} {
		if a, outcome := s.take(t, shown.Pass, solveAltcha(t, shown.Altcha)); outcome != Solved {
			t.Errorf("%s took no solution of ALTCHA: %d %q", what, a.Status, outcome)
		}
	}
	shown = captchaOf(t, remote.Show(visit("/"), ""))
	a, outcome := plain.take(t, shown.Pass, "answer")
	if linkOf(t, a); outcome != Nothing {
		t.Errorf("a node without captchas: %q", outcome)
	}
	a, outcome = altcha.take(t, shown.Pass, "answer")
	if captchaOf(t, a); outcome != Nothing || verify.asked() != 0 {
		t.Errorf("a node with another one: %q", outcome)
	}
	if solve(t, remote, plain.Show(visit("/"), "")) == "" {
		t.Error("work is not taken")
	}
}
