package cli

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"html"
	"io"
	"math/bits"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
)

// probeStep is one step of the way of a browser that is challenged.
type probeStep struct {
	Step   string `json:"step"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"` // what was answered, or what is wrong and where to look
}

var probeColumns = []output.Column[probeStep]{
	{Name: "step", Head: "Step", Cell: func(s probeStep) output.Cell { return output.Text(s.Step) }},
	{Name: "ok", Head: "Result", Cell: func(s probeStep) output.Cell {
		if s.OK {
			return output.Words("ok", "ok")
		}
		return output.Words("failed", "failed")
	}},
	{Name: "detail", Head: "Detail", Cell: func(s probeStep) output.Cell { return output.Text(s.Detail) }},
}

// The paths and the cookie of challenges.
const (
	probedPrefix = "/.well-known/stint/"
	probedCookie = "stint_pass"
	maxProbed    = 1 << 20 // bytes of a page
	maxBits      = 28      // of a challenge
)

// probe goes the way of a challenged browser through a gateway, and says which step fails.
type probe struct {
	site   *url.URL
	client *http.Client
	steps  []probeStep
}

// errProbe ends a probe; the last step says why.
var errProbe = errors.New("a step failed")

func newProbe(site string) (*probe, error) {
	u, err := url.Parse(site)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, console.Usagef("--probe must be a URL of the site behind the gateway, for example https://shop.example/")
	}
	if u.Path == "" {
		u.Path = "/"
	}
	return &probe{site: u, client: &http.Client{
		Timeout:       30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// run probes, and returns errProbe if a step fails.
func (p *probe) run(ctx context.Context) error {
	target := p.site.RequestURI()
	page, body, err := p.get(ctx, "ask for a challenge", probedPrefix+"challenge?to="+url.QueryEscape(target), "") //nolint:bodyclose // get closes it
	if err != nil {
		return err
	}
	switch {
	case isRedirect(page.StatusCode):
		return p.fail("Got %s to %s: probe the URL that the site leads to.", page.Status, output.Escape(page.Header.Get("Location")))
	case page.StatusCode == http.StatusUnauthorized || page.StatusCode == http.StatusForbidden:
		return p.fail("Got %s and not the page: the gateway does not hand on what Stint answers, or asks for a login before it asks Stint. nginx needs refuse=401, error_page 401 = @page and the location @page.", page.Status)
	case page.StatusCode != http.StatusTooManyRequests:
		return p.fail("Got %s, not 429: the gateway does not ask Stint about %s, or does not name the path of its client's request to Stint.", page.Status, probedPrefix)
	}
	p.pass("429, as a challenged request")
	p.begin("hand on the page")
	found, isCaptcha := probedLink.FindStringSubmatch(body), strings.Contains(body, `<div id="captcha">`)
	switch {
	case found == nil && !isCaptcha:
		return p.fail("The body is not Stint's page but %d bytes of %q: the gateway replaces the bodies of errors.", len(body), page.Header.Get("Content-Type"))
	case !strings.Contains(page.Header.Get("Cache-Control"), "no-store"):
		return p.fail("The page came without Cache-Control: no-store, so a cache may show it to others: hand on the headers of Stint's answer.")
	case len(page.Header.Values("Content-Security-Policy")) != 1:
		return p.fail("The page came with %d headers Content-Security-Policy, not with its own one alone: its script will not run.", len(page.Header.Values("Content-Security-Policy")))
	}
	p.pass(fmt.Sprintf("%d bytes", len(body)))
	if isCaptcha {
		return p.captcha(ctx, body)
	}
	difficulty, _ := strconv.Atoi(found[3])
	if difficulty > maxBits {
		return p.fail("The page asks for %d bits, and Stint for %d at most: it is not Stint's.", difficulty, maxBits)
	}
	solution, err := solve(ctx, found[2], difficulty)
	if err != nil {
		return p.fail("It is not solved in time: %s", err)
	}
	passed, _, err := p.get(ctx, "solve it", html.UnescapeString(found[1])+"&n="+strconv.Itoa(solution), "") //nolint:bodyclose // get closes it
	if err != nil {
		return err
	}
	if passed.StatusCode != http.StatusSeeOther {
		return p.fail("Got %s, not 303: the gateway loses the query of the request, or another secret signed the challenge.", passed.Status)
	}
	p.pass("303")
	p.begin("set the cookie")
	cookie := ""
	for _, c := range passed.Cookies() {
		if c.Name == probedCookie {
			cookie = c.Name + "=" + c.Value
			if c.Secure && p.site.Scheme == "http" {
				return p.fail("The cookie is for https only, and the site is asked by http: browsers do not keep it.")
			}
		}
	}
	if cookie == "" {
		return p.fail("The answer has no cookie %s: the gateway does not hand on Set-Cookie.", probedCookie)
	}
	p.pass(probedCookie)
	last, _, err := p.get(ctx, "send the cookie back", passed.Header.Get("Location"), cookie) //nolint:bodyclose // get closes it
	if err != nil {
		return err
	}
	if last.StatusCode != http.StatusSeeOther {
		return p.fail("Got %s, not 303: the gateway does not hand the header Cookie on to Stint.", last.Status)
	}
	if to := last.Header.Get("Location"); to != target {
		return p.fail("It leads to %s, not to %s.", output.Escape(to), target)
	}
	p.pass("leads to " + target)
	page, _, err = p.get(ctx, "open the page with the pass", target, cookie) //nolint:bodyclose // get closes it
	if err != nil {
		return err
	}
	to := page.Header.Get("Location")
	switch {
	case page.Header.Get("X-Stint-Challenge") != "" || page.StatusCode == http.StatusTooManyRequests:
		return p.fail("It is still refused: the gateway does not send the cookie with its check, or another limit refuses the address.")
	case isRedirect(page.StatusCode) && strings.Contains(to, probedPrefix):
		return p.fail("It is challenged again, without end: the gateway does not send the cookie with its check.")
	case page.StatusCode == http.StatusUnauthorized || page.StatusCode == http.StatusForbidden:
		return p.fail("Got %s: a block or the gateway refuses the address, or the site lets nobody in without a login. Probe a page that everybody may open.", page.Status)
	case isRedirect(page.StatusCode):
		p.pass(page.Status + " to " + output.Escape(to) + ", which is not probed")
	default:
		p.pass(page.Status)
	}
	return nil
}

// probedWidget is the widget of a captcha that Stint serves itself.
var probedWidget = regexp.MustCompile(`"script":"(/\.well-known/stint/challenge\?file=[a-z0-9.-]{1,64})"`)

// captcha ends a probe whose challenge only a person can solve.
func (p *probe) captcha(ctx context.Context, body string) error {
	if found := probedWidget.FindStringSubmatch(body); found != nil {
		answer, script, err := p.get(ctx, "hand on the widget of the captcha", found[1], "") //nolint:bodyclose // get closes it
		if err != nil {
			return err
		}
		if !strings.HasPrefix(script, "/*! ALTCHA") {
			return p.fail("Got %s and %d bytes of %q: the gateway needs a route of its own for %s, as HAProxy does.", answer.Status, len(script), answer.Header.Get("Content-Type"), probedPrefix+"challenge")
		}
		p.pass(fmt.Sprintf("%d bytes", len(script)))
	}
	p.begin("solve it")
	p.pass("The challenge is a captcha, so the rest is for a person: open " + p.site.String())
	return nil
}

func isRedirect(status int) bool { return status >= 300 && status < 400 }

// probedLink is where a page sends a solution, and what is to be solved.
var probedLink = regexp.MustCompile(`<a id="pass" href="([^"]+)" data-prefix="([^"]+)" data-difficulty="(\d{1,2})"`)

// solve returns a counter whose SHA-256 behind a prefix begins with as many zero bits as asked for. The error
// is that of ctx.
func solve(ctx context.Context, prefix string, difficulty int) (int, error) {
	for n := 0; ; n++ {
		if sum := sha256.Sum256([]byte(prefix + strconv.Itoa(n))); bits.LeadingZeros32(binary.BigEndian.Uint32(sum[:])) >= difficulty {
			return n, nil
		}
		if n%(1<<16) == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
}

// get begins a step and sends its request to the site, as a browser that opens a page. A failure of
// the server fails the step.
func (p *probe) get(ctx context.Context, step, target, cookie string) (*http.Response, string, error) {
	p.begin(step)
	address, err := p.site.Parse(target)
	if err != nil {
		return nil, "", p.fail("It leads to what is no URL.")
	}
	if address.Host != p.site.Host || address.Scheme != p.site.Scheme {
		return nil, "", p.fail("It leads to %s, which is another site: the gateway rewrites Location or the page.", output.Escape(address.Redacted()))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, "", p.fail("%s", err)
	}
	r.Header.Set("Accept", "text/html,application/xhtml+xml")
	r.Header.Set("Sec-Fetch-Mode", "navigate")
	r.Header.Set("Sec-Fetch-Dest", "document")
	r.Header.Set("User-Agent", "Mozilla/5.0 (compatible; stint-admin connect --probe)")
	if cookie != "" {
		r.Header.Set("Cookie", cookie)
	}
	answer, err := p.client.Do(r)
	if err != nil {
		return nil, "", p.fail("The gateway does not answer: %s", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxProbed))
	if err != nil {
		return nil, "", p.fail("The answer breaks off: %s", err)
	}
	if answer.StatusCode >= 500 {
		return nil, "", p.fail("Got %s: the gateway, Stint or the site behind it does not answer.", answer.Status)
	}
	return answer, string(body), nil
}

func (p *probe) begin(step string) { p.steps = append(p.steps, probeStep{Step: step}) }

func (p *probe) pass(detail string) {
	last := &p.steps[len(p.steps)-1]
	last.OK, last.Detail = true, detail
}

func (p *probe) fail(format string, args ...any) error {
	last := &p.steps[len(p.steps)-1]
	last.OK, last.Detail = false, fmt.Sprintf(format, args...)
	return errProbe
}
