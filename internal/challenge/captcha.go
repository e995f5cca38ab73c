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
	"net/url"
	"slices"
	"strings"
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
)

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
	// namesAction says that answers name the action and the challenge that they are for.
	namesAction bool
}

var providersOf = map[Provider]*provider{
	Altcha: {way: byAltcha, name: "ALTCHA", sources: map[string]string{"connect-src": "'self'"}},
	Turnstile: {
		way: byTurnstile, name: "Cloudflare Turnstile", script: "https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit&onload=stintCaptcha",
		sources: map[string]string{"script-src": turnstileHost, "frame-src": turnstileHost}, verify: turnstileHost + "/turnstile/v0/siteverify", namesAction: true,
	},
	HCaptcha: {
		way: byHCaptcha, name: "hCaptcha", script: "https://js.hcaptcha.com/1/api.js?render=explicit&recaptchacompat=off&onload=stintCaptcha",
		sources: map[string]string{"script-src": hcaptchaHosts, "frame-src": hcaptchaHosts, "style-src": hcaptchaHosts, "connect-src": hcaptchaHosts}, verify: "https://api.hcaptcha.com/siteverify",
	},
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
	maxAnswer = 4096 // bytes of an answer, in a URL; Turnstile's have 2,048 at most
	// maxVerifying is how many answers are verified at a time, and maxVerified how many bytes are read of what
	// a provider says.
	maxVerifying = 64
	maxVerified  = 16 << 10
	// outageFor is how long browsers are let work after a provider could not be asked.
	outageFor = 10 * time.Second
)

// verdict is what came of an answer.
type verdict int

const (
	rejected verdict = iota
	accepted
	unverified // the provider cannot be asked
)

// captcha verifies the answers of one provider.
type captcha struct {
	Captcha
	*provider
	verifying chan struct{} // a place for each answer that is verified
	outage    atomic.Int64  // until when it lasts, in Unix milliseconds
	warned    atomic.Int64  // the minute of the last warning
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
	return &captcha{Captcha: c, provider: p, verifying: make(chan struct{}, maxVerifying)}
}

// way returns how challenges that are issued now are solved.
func (s *Service) way() way {
	if c := s.captcha; c != nil && (c.Outage == RefuseInOutage || s.o.Now().UnixMilli() >= c.outage.Load()) {
		return c.provider.way
	}
	return byWork
}

// verify says what comes of the answer to a challenge. It is called for answers only, never for checks.
func (s *Service) verify(ctx context.Context, c *challenge, answer string) verdict {
	switch {
	case answer == "" || len(answer) > maxAnswer || strings.ContainsFunc(answer, func(r rune) bool { return r <= ' ' || r > '~' }):
		return rejected
	case c.way == byAltcha:
		if c.isAltchaSolvedBy(s.o.Secret(), answer) {
			return accepted
		}
		return rejected
	case s.captcha == nil || s.captcha.provider.way != c.way: // a node with other settings issued it
		return unverified
	}
	return s.captcha.verifyRemotely(ctx, c, answer, s.o.Now())
}

func (p *captcha) verifyRemotely(ctx context.Context, c *challenge, answer string, now time.Time) verdict {
	select {
	case p.verifying <- struct{}{}:
		defer func() { <-p.verifying }()
	default: // this is no outage that others should notice: only so many answers are sent at a time
		p.warn(now, "too many answers of captchas are sent at a time", fmt.Errorf("%d are being verified", maxVerifying))
		return unverified
	}
	said, err := p.ask(ctx, answer)
	if err == nil {
		err = said.ownFault()
	}
	if err != nil {
		p.outage.Store(now.Add(outageFor).UnixMilli())
		p.warn(now, "answers of captchas cannot be verified", err)
		return unverified
	}
	p.outage.Store(0)
	switch {
	case !said.Success:
		if at := slices.IndexFunc(said.ErrorCodes, isOfSettings); at >= 0 {
			p.warn(now, "the provider of captchas rejects answers by the settings", errors.New(said.ErrorCodes[at]))
		}
		return rejected
	case said.Hostname == "" || p.IsOurs == nil || !p.IsOurs(said.Hostname),
		p.namesAction && (said.Action != action || said.CData != c.name()):
		return rejected
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

func (p *captcha) ask(ctx context.Context, answer string) (said siteVerified, err error) {
	form := url.Values{"secret": {p.Secret}, "response": {answer}}
	if p.Provider == HCaptcha {
		form.Set("sitekey", p.SiteKey)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.VerifyURL, strings.NewReader(form.Encode()))
	if err != nil {
		return said, errors.New("the URL is not one that can be called")
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("User-Agent", "Stint")
	response, err := p.Client.Do(r)
	if err != nil {
		return said, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxVerified+1))
	switch {
	case err != nil:
		return said, errors.New("the provider's answer breaks off")
	case response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests || response.StatusCode >= 300 && response.StatusCode < 400:
		return said, fmt.Errorf("the provider answered %d", response.StatusCode)
	case len(body) > maxVerified:
		return said, errors.New("the provider's answer is too long")
	case json.Unmarshal(body, &said) != nil || !said.Success && len(said.ErrorCodes) == 0:
		return said, fmt.Errorf("the provider answered %d with what is no verdict", response.StatusCode)
	}
	return said, nil
}

// warn logs an error at most once a minute. err has neither the secret nor an answer.
func (p *captcha) warn(now time.Time, text string, err error) {
	minute := now.Unix() / 60
	if last := p.warned.Load(); last == minute || !p.warned.CompareAndSwap(last, minute) {
		return
	}
	instead := "browsers work instead"
	if p.Outage == RefuseInOutage {
		instead = "challenged visitors are refused"
	}
	p.Log.Warn(text, "provider", string(p.Provider), "error", err.Error(), "instead", instead)
}
