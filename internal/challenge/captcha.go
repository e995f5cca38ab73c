package challenge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
)

// way is how a challenge is solved. Its number is part of challenges and never changes.
type way byte

const (
	byWork way = iota // or by waiting
	byAltcha
	byTurnstile
	byHCaptcha
	byWorkOnly // in place of a captcha whose provider is down
)

// isWork reports whether a challenge is solved by work, and not by a captcha.
func (w way) isWork() bool { return w == byWork || w == byWorkOnly }

// lifetime is how long a challenge can be solved.
func (w way) lifetime() time.Duration {
	if w == byWorkOnly {
		return workOnlyFor
	}
	return lifetime
}

// Provider is whose captcha challenges are.
type Provider string

// The providers.
const (
	NoCaptcha Provider = "off" // challenges are work, or waiting
	Altcha    Provider = "altcha"
	Turnstile Provider = "turnstile"
	HCaptcha  Provider = "hcaptcha"
)

// RefuseInOutage refuses visitors whose answers cannot be verified.
const RefuseInOutage = "refuse"

// IsRemote reports whether answers are verified by the provider's servers.
func (p Provider) IsRemote() bool { return p == Turnstile || p == HCaptcha }

// Captcha says which captcha challenges are, and how its answers are verified.
type Captcha struct {
	Provider Provider
	// SiteKey and Secret are what a remote provider gave for the site.
	SiteKey, Secret string
	// IsOurs reports whether a remote provider's answer may be from a page of a host.
	IsOurs func(host string) bool
	// VerifyURL is asked in place of the remote provider, as a proxy of it; "" asks the provider.
	VerifyURL string
	// Outage is what becomes of answers that cannot be verified: RefuseInOutage, otherwise the browser works
	// instead.
	Outage string
	// Client asks a remote provider. It bounds the time.
	Client interface {
		Do(r *http.Request) (*http.Response, error)
	}
	// Spend reports whether an answer, by its name, was not taken before.
	Spend func(ctx context.Context, name string) bool
	Log   *slog.Logger // nil discards
}

// provider is what is known of a remote provider, and of ALTCHA, whose captcha Stint makes itself.
type provider struct {
	way  way
	name string // as visitors know it
	// script is the URL of the widget's script, and sources are what a page with it may load besides.
	script  string
	sources map[string]string // of directives of the page's policy
	verify  string
	// maxAnswer is how many bytes an answer has at most.
	maxAnswer int
	// namesAction says that answers name the action and the challenge that they are for.
	namesAction bool
}

var providersOf = map[Provider]*provider{
	Altcha: {way: byAltcha, name: "ALTCHA", maxAnswer: 4096, sources: map[string]string{"connect-src": "'self'"}},
	Turnstile: {
		way: byTurnstile, name: "Cloudflare Turnstile", script: "https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit&onload=stintCaptcha",
		sources: map[string]string{"script-src": turnstileHost, "frame-src": turnstileHost}, verify: turnstileHost + "/turnstile/v0/siteverify", namesAction: true,
		maxAnswer: 2048, // by Cloudflare's documentation
	},
	HCaptcha: {
		way: byHCaptcha, name: "hCaptcha", script: "https://js.hcaptcha.com/1/api.js?render=explicit&recaptchacompat=off&onload=stintCaptcha",
		sources: map[string]string{"script-src": hcaptchaHosts, "frame-src": hcaptchaHosts, "style-src": hcaptchaHosts, "connect-src": hcaptchaHosts}, verify: "https://api.hcaptcha.com/siteverify",
		maxAnswer: 6144, // hCaptcha documents none, and has sent more than 4,000; a URL with more than 8,192 comes through no gateway
	},
}

// providerOf returns the provider whose captcha challenges of a way are, nil for none.
func providerOf(w way) *provider {
	for _, p := range providersOf {
		if p.way == w {
			return p
		}
	}
	return nil
}

const (
	turnstileHost = "https://challenges.cloudflare.com"
	hcaptchaHosts = "https://hcaptcha.com https://*.hcaptcha.com"
)

// host is the host that the widget comes from, "" for Stint's own.
func (p *provider) host() string {
	host, _, _ := strings.Cut(strings.TrimPrefix(p.script, "https://"), "/")
	return host
}

// action names challenges at providers that know actions.
const action = "stint"

// The bounds of what is verified.
const (
	// maxVerifying is how many answers are verified at a time, and maxOfNetwork how many of them from one
	// network; see networkOf. maxVerified is how many bytes are read of what a provider says.
	maxVerifying = 64
	maxOfNetwork = maxVerifying / 4
	maxVerified  = 16 << 10
	// outageFor is how long browsers are let work after so many answers in a row could not be verified:
	// visitors choose what is sent, so that one alone is no outage.
	outageFor   = 10 * time.Second
	outageAfter = 3
	// busyFor is when a visitor may try again whose answer could not be verified.
	busyFor = 5 * time.Second
)

// verdict is what came of an answer.
type verdict int

const (
	rejected verdict = iota
	accepted
	unverified // the provider is down
	busy       // it could not be verified now; there is no outage
	elsewhere  // it is from a page of a host that is not ours
)

// captcha verifies the answers of one provider.
type captcha struct {
	Captcha
	*provider
	verifying places
	failures  atomic.Int64 // answers in a row that the provider did not verify
	outage    atomic.Int64 // until when it lasts, in Unix milliseconds
	warned    sync.Map     // the minutes of the last warnings, by their texts
}

// places are taken by the answers that are verified, so that nobody has them all.
type places struct {
	mu    sync.Mutex
	taken int
	of    map[netip.Prefix]int // by networks; zero for clients whose address is not known
}

// take takes a place for a network. It returns how many are taken in its way instead, 0 for none.
func (p *places) take(network netip.Prefix) (inTheWay int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.of[network] >= maxOfNetwork:
		return maxOfNetwork
	case p.taken >= maxVerifying:
		return maxVerifying
	}
	if p.of == nil {
		p.of = map[netip.Prefix]int{}
	}
	p.taken++
	p.of[network]++
	return 0
}

// leave gives a place back.
func (p *places) leave(network netip.Prefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.of[network]--; p.of[network] == 0 {
		delete(p.of, network)
	}
}

func newCaptcha(c Captcha) *captcha {
	p := providersOf[c.Provider]
	if p == nil {
		return nil
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Spend == nil {
		c.Spend = func(context.Context, string) bool { return true }
	}
	if c.VerifyURL == "" {
		c.VerifyURL = p.verify
	}
	return &captcha{Captcha: c, provider: p}
}

// way returns how challenges that are issued now are solved.
func (s *Service) way() way {
	switch c := s.captcha; {
	case c == nil:
		return byWork
	case c.Outage != RefuseInOutage && s.o.Now().UnixMilli() < c.outage.Load():
		return byWorkOnly
	default:
		return c.provider.way
	}
}

// isAnswer reports whether a text may be an answer. Those of remote providers are only of what their tokens
// are made of: nobody makes a provider, or what is before it, fail by what is sent to it.
func (p *provider) isAnswer(text string) bool {
	return text != "" && len(text) <= p.maxAnswer && !strings.ContainsFunc(text, func(r rune) bool {
		isPlain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
		return !isPlain && (p.way != byAltcha || !strings.ContainsRune("+/=", r))
	})
}

// verify says what comes of an address's answer to a challenge. It is called for answers only, never for checks.
func (s *Service) verify(ctx context.Context, c *challenge, answer string, address netip.Addr) verdict {
	of := providerOf(c.way)
	switch {
	case of == nil || !of.isAnswer(answer):
		return rejected
	case c.way == byAltcha:
		if c.isAltchaSolvedBy(s.o.Secret(), answer) {
			return accepted
		}
		return rejected
	case s.captcha == nil || s.captcha.provider.way != c.way: // a node with other settings issued it
		return unverified
	}
	return s.captcha.verifyRemotely(ctx, c, answer, networkOf(address), s.o.Now())
}

func (p *captcha) verifyRemotely(ctx context.Context, c *challenge, answer string, network netip.Prefix, now time.Time) verdict {
	if n := p.verifying.take(network); n > 0 { // this is no outage: many answers at a time get their sender nothing
		text := "too many answers of captchas are sent at a time"
		if n == maxOfNetwork {
			text = "one network sends too many answers of captchas at a time"
		}
		p.warn(now, text, fmt.Errorf("%d are being verified", n), "network", network.String())
		return busy
	}
	defer p.verifying.leave(network)
	said, is, err := p.ask(ctx, answer)
	if err == nil {
		if err = said.ownFault(); err != nil {
			is = unverified
		}
	}
	switch {
	case err == nil:
		p.failures.Store(0)
		p.outage.Store(0)
	case is != unverified:
		p.warn(now, "the provider of captchas looks at no answer", err)
		return is
	case p.failures.Add(1) < outageAfter:
		p.warn(now, "an answer of a captcha cannot be verified", err)
		return busy
	default:
		instead := "browsers work instead"
		if p.Outage == RefuseInOutage {
			instead = "challenged visitors are refused"
		}
		p.outage.Store(now.Add(outageFor).UnixMilli())
		p.warn(now, "answers of captchas cannot be verified", err, "instead", instead)
		return unverified
	}
	switch {
	case !said.Success:
		if at := slices.IndexFunc(said.ErrorCodes, isOfSettings); at >= 0 {
			p.warn(now, "the provider of captchas rejects answers by the settings", errors.New(said.ErrorCodes[at]))
		}
		return rejected
	case p.namesAction && (said.Action != action || said.CData != c.name()):
		return rejected
	case p.IsOurs == nil || !p.IsOurs(said.Hostname):
		// It may be a site of ours that the setting lacks, whose visitors cannot help it.
		p.warn(now, "an answer of a captcha is from a page of another host", fmt.Errorf("%.100q is not among --site-hosts", said.Hostname))
		return elsewhere
	}
	// A provider takes an answer once; that it does so is not relied on.
	if sum := sha256.Sum256([]byte(answer)); !p.Spend(ctx, hex.EncodeToString(sum[:nonceSize])) {
		return rejected
	}
	return accepted
}

// siteVerified is what providers say about an answer.
type siteVerified struct {
	Success    bool     `json:"success"`
	Hostname   string   `json:"hostname"`
	Action     string   `json:"action"`
	CData      string   `json:"cdata"`
	ErrorCodes []string `json:"error-codes"`
}

// ownFault returns an error if the answer was not looked at, for a reason that is not the visitor's.
func (v *siteVerified) ownFault() error {
	for _, code := range v.ErrorCodes {
		switch code {
		case "missing-input-secret", "invalid-input-secret", "internal-error":
			return errors.New("the provider says " + code)
		}
	}
	return nil
}

// isOfSettings reports whether a provider rejects an answer by settings that may be wrong, or because
// the answer is for another site: visitors choose which.
func isOfSettings(code string) bool {
	return code == "sitekey-secret-mismatch" || code == "invalid-sitekey" || code == "not-using-dummy-secret"
}

// ask asks the provider about an answer. An error says that there is no verdict, and is what becomes of
// the answer.
func (p *captcha) ask(ctx context.Context, answer string) (said siteVerified, is verdict, err error) {
	form := url.Values{"secret": {p.Secret}, "response": {answer}}
	if p.Provider == HCaptcha {
		form.Set("sitekey", p.SiteKey)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.VerifyURL, strings.NewReader(form.Encode()))
	if err != nil {
		return said, unverified, errors.New("the URL is not one that can be called")
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("User-Agent", "Stint")
	response, err := p.Client.Do(r)
	if err != nil {
		return said, unverified, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxVerified+1))
	switch {
	case err != nil:
		return said, unverified, errors.New("the provider's answer breaks off")
	case response.StatusCode == http.StatusTooManyRequests: // as many answers as visitors please make it so
		return said, busy, fmt.Errorf("the provider answered %d", response.StatusCode)
	case response.StatusCode >= 500 || response.StatusCode >= 300 && response.StatusCode < 400:
		return said, unverified, fmt.Errorf("the provider answered %d", response.StatusCode)
	case len(body) > maxVerified:
		return said, unverified, errors.New("the provider's answer is too long")
	case json.Unmarshal(body, &said) != nil || !said.Success && len(said.ErrorCodes) == 0:
		if is = unverified; response.StatusCode >= 400 { // it may be for what the visitor sent
			is = rejected
		}
		return said, is, fmt.Errorf("the provider answered %d with what is no verdict", response.StatusCode)
	}
	return said, rejected, nil
}

// warn logs an error, with one text at most once a minute. err has neither the secret nor an answer.
func (p *captcha) warn(now time.Time, text string, err error, more ...any) {
	minute := now.Unix() / 60
	if last, _ := p.warned.Swap(text, minute); last == minute {
		return
	}
	p.Log.Warn(text, append([]any{"provider", string(p.Provider), "error", err.Error()}, more...)...)
}
