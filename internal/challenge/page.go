package challenge

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/wire"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"fill": func(text string, n any) string { return strings.Replace(text, "%s", fmt.Sprint(n), 1) },
}).Parse(pageText))

// page is what the template shows.
type page struct {
	*texts
	Texts *texts
	Nonce string
	Title string
	Lead  string
	More  []string
	ID    string
	Link  string // to try again, "" for none
	// ContactLink is where Contact leads, "" if it leads nowhere.
	Contact, ContactLink string
	Challenge            *shownChallenge
	Captcha              *shownCaptcha
	// IsPreview shows the page to an operator: its script does not run, and its links lead nowhere.
	IsPreview bool
	status    int
}

type shownChallenge struct {
	Prefix     string
	Difficulty int
	Seconds    int64
	Pass       string // where a solution is sent
	IsWorkOnly bool   // nobody passes by waiting
}

// shownCaptcha is what the page's script has to know of a captcha.
type shownCaptcha struct {
	Provider Provider `json:"provider"`
	Language string   `json:"language"`
	Pass     string   `json:"pass"` // where an answer is sent
	Script   string   `json:"script"`
	// SiteKey, Action and Data are for a remote provider, which names the latter two with the answer.
	SiteKey string `json:"sitekey,omitempty"`
	Action  string `json:"action,omitempty"`
	Data    string `json:"data,omitempty"`
	// Altcha is ALTCHA's challenge, and Words are its words where they are not English.
	Altcha *altchaChallenge  `json:"altcha,omitempty"`
	Words  map[string]string `json:"words,omitempty"`

	of *provider
}

// Name is the provider's.
func (c *shownCaptcha) Name() string { return c.of.name }

// Host is where the widget comes from, "" for Stint.
func (c *shownCaptcha) Host() string { return c.of.host() }

// showCaptcha lets a page ask for the captcha that c is.
func (s *Service) showCaptcha(p *page, c *challenge, pass string) {
	of := s.captcha
	shown := &shownCaptcha{Provider: of.Provider, Language: p.Language, Pass: pass, Script: of.script, of: of.provider}
	if of.Provider == Altcha {
		altcha, _ := c.altcha(s.o.Secret())
		shown.Altcha, shown.Script, shown.Words = &altcha, altchaURL, p.AltchaWords
	} else {
		shown.SiteKey, shown.Action, shown.Data = of.SiteKey, action, c.name()
		if of.Provider == HCaptcha {
			shown.Script += "&hl=" + p.Language
		}
	}
	p.Captcha, p.Lead = shown, p.CaptchaLead
}

func (s *Service) page(v *Visit, status int) *page {
	t := textsOf(v.Languages)
	p := &page{texts: t, Texts: t, Nonce: rand.Text(), status: status, Contact: s.o.Contact}
	switch {
	case strings.HasPrefix(p.Contact, "https://"):
		p.ContactLink = p.Contact
	case strings.Contains(p.Contact, "@") && !strings.ContainsAny(p.Contact, " \t"):
		p.ContactLink = "mailto:" + p.Contact
	}
	return p
}

func (p *page) answer() *Answer {
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		panic(err) // the template and its data are ours
	}
	return &Answer{Status: p.status, Body: b.Bytes(), ContentType: "text/html; charset=utf-8", Headers: [][2]string{
		{"Content-Security-Policy", p.policy()},
		{"Referrer-Policy", "no-referrer"},
		{"Vary", vary},
		{"X-Robots-Tag", "noindex"},
	}}
}

// policy returns the Content-Security-Policy of the page: what it needs, and what the widget of its captcha needs.
func (p *page) policy() string {
	more := func(string) string { return "" }
	if c := p.Captcha; c != nil && !p.IsPreview {
		more = func(directive string) string {
			if sources := c.of.sources[directive]; sources != "" {
				return " " + sources
			}
			return ""
		}
	}
	text := "default-src 'none'; script-src 'nonce-" + p.Nonce + "'" + more("script-src") + "; style-src 'nonce-" + p.Nonce + "'" + more("style-src") + "; worker-src blob:"
	for _, directive := range []string{"connect-src", "frame-src"} {
		if sources := more(directive); sources != "" {
			text += "; " + directive + sources
		}
	}
	return text + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// Refusal is what the page of a refused browser says.
type Refusal struct {
	Outcome string // limited, blocked, challenged or unavailable
	Status  int
	ID      string // "" for none
	// At is when it was refused, and RetryAt when it may be asked again; zero for never.
	At, RetryAt time.Time
}

// Refuse answers a navigation with the page of a refusal.
func (s *Service) Refuse(v *Visit, r *Refusal) *Answer {
	p := s.page(v, r.Status)
	s.refuse(p, r)
	return p.answer()
}

func (*Service) refuse(p *page, r *Refusal) {
	p.ID, p.Title, p.Lead = r.ID, p.UnavailableTitle, p.UnavailableLead
	switch r.Outcome {
	case wire.Limited, wire.Challenged:
		p.Title, p.Lead = p.LimitedTitle, p.LimitedLead
	case wire.Blocked:
		p.Title, p.Lead = p.BlockedTitle, p.BlockedLead
	}
	switch {
	case r.Outcome == wire.Challenged:
		p.More = append(p.More, p.NotByPage)
	case !r.RetryAt.IsZero():
		at := strings.Replace(p.Until, "%s", r.RetryAt.UTC().Format("2006-01-02 15:04:05")+" UTC", 1)
		p.More = append(p.More, strings.Replace(at, "%s", p.lengthOf(r.RetryAt.Sub(r.At)), 1))
	case r.Outcome == wire.Blocked:
		p.More = append(p.More, p.Forever)
	}
}

// Preview returns the page that a visitor sees who is challenged, limited or blocked. It does nothing.
func (s *Service) Preview(languages, outcome string) *Answer {
	v, id := &Visit{Languages: languages}, strings.Repeat("0", 8)
	p := s.page(v, http.StatusOK)
	p.ID, p.IsPreview = id, true
	now := s.o.Now()
	switch outcome {
	case wire.Limited, wire.Blocked:
		s.refuse(p, &Refusal{Outcome: outcome, ID: id, At: now, RetryAt: now.Add(15 * time.Minute)})
	default:
		p.Title, p.Lead = p.ChallengeTitle, p.ChallengeLead
		if s.captcha != nil {
			p.Captcha, p.Lead = &shownCaptcha{of: s.captcha.provider}, p.CaptchaLead
		} else {
			p.Challenge = &shownChallenge{Difficulty: s.o.Difficulty, Seconds: int64(s.o.Wait / time.Second), Pass: "#"}
		}
	}
	return p.answer()
}

// lengthOf says a length in words, rounded up.
func (t *texts) lengthOf(d time.Duration) string {
	count := func(unit time.Duration) string { return strconv.FormatInt(int64((d+unit-1)/unit), 10) }
	switch {
	case d <= time.Second:
		return t.Second
	case d <= 2*time.Minute:
		return strings.Replace(t.Seconds, "%s", count(time.Second), 1)
	case d <= 2*time.Hour:
		return strings.Replace(t.Minutes, "%s", count(time.Minute), 1)
	}
	return strings.Replace(t.Hours, "%s", count(time.Hour), 1)
}
