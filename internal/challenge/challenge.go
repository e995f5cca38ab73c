package challenge

import (
	"bytes"
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

// Prefix begins the paths of challenges, on every site that a gateway serves.
const Prefix = "/.well-known/stint/"

// The paths below Prefix.
const (
	Path         = Prefix + "challenge" // shows a challenge; its parameter to is the target that it leads to
	PathPass     = Prefix + "pass"      // takes a solution and sets the pass
	PathContinue = Prefix + "continue"  // leads to the target once the pass is there
)

// Cookie is the name of the cookie with the pass.
const Cookie = "stint_pass"

// Header names the challenge in answers to requests that cannot show it.
const Header = "X-Stint-Challenge"

// Options make a Service.
type Options struct {
	// Secret returns the secret that all nodes share.
	Secret func() []byte
	Now    func() time.Time // nil means time.Now
	// Difficulty is the number of zero bits that a hash must begin with; each doubles the work.
	Difficulty int
	// Wait is how long a client without JavaScript waits, in whole seconds.
	Wait time.Duration
	// PassFor is how long a pass holds.
	PassFor time.Duration
	// Bind makes passes hold only in the network in which they were earned.
	Bind bool
	// Passes is how many passes an address may earn an hour; who solves more challenges there shares one.
	Passes int
	// Earn counts a solution for an address, whose challenge has a name. It returns what those share who
	// solve challenges once the address has earned its passes, "" until then, and whether the challenge
	// was not solved before. nil counts nothing.
	Earn func(ctx context.Context, address netip.Addr, challenge string) (shared string, isFirst bool)
	// Observe is called with the outcome of each challenge; nil for none.
	Observe func(Outcome)
	// Captcha is what browsers are asked in place of work; its zero value is none.
	Captcha Captcha
	// Contact is what pages name for questions: a mail address, a URL or a sentence; "" for none.
	Contact string
}

// The usual options.
const (
	DefaultDifficulty = 17 // about a second on a phone of 2018
	DefaultWait       = 10 * time.Second
	DefaultPass       = 12 * time.Hour
	DefaultPasses     = 300
)

// Service makes and answers challenges. It is safe for concurrent use.
type Service struct {
	o       Options
	captcha *captcha // nil for none
}

// New returns a service.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Earn == nil {
		o.Earn = func(context.Context, netip.Addr, string) (string, bool) { return "", true }
	}
	if o.Observe == nil {
		o.Observe = func(Outcome) {}
	}
	return &Service{o: o, captcha: newCaptcha(o.Captcha)}
}

// Visit is what a page has to know about a request.
type Visit struct {
	// Target is the path and query that the client asked for.
	Target    string
	Address   netip.Addr
	Languages string   // Accept-Language
	Cookies   [][]byte // the lines of Cookie
	// IsInsecure says that the client came by HTTP to this machine's own name, where no cookie is Secure.
	IsInsecure  bool
	AcceptsGzip bool // by Accept-Encoding
	// IsForeign says that something else than a page of challenges made the browser ask; see IsForeign.
	IsForeign bool
}

// IsForeign reports whether a page of another site made the browser ask, or a picture, a frame or a script in
// a page of this site, which somebody else may have written: it would give visitors passes and failures of its
// choice. site, mode and dest are Sec-Fetch-Site, Sec-Fetch-Mode and Sec-Fetch-Dest, "" where not sent.
func IsForeign(site, mode, dest string) bool { return site == "cross-site" || !isOpened(mode, dest) }

// isOpened reports whether a browser asks for a page that it shows by itself. Old browsers do not say.
func isOpened(mode, dest string) bool {
	return (mode == "" || mode == "navigate") && (dest == "" || dest == "document")
}

// Answer is the answer to a visit.
type Answer struct {
	Status  int
	Headers [][2]string
	Body    []byte // nil for none
	// ContentType is the type of Body.
	ContentType string
}

// IsOwn reports whether a target, as the client sent it, is one of the paths of challenges. Others below
// Prefix may lead out of it, as "/.well-known/stint/../admin" does.
func IsOwn(target string) bool {
	path, _, _ := strings.Cut(target, "?")
	return path == Path || path == PathPass || path == PathContinue
}

// maxPasses is how many cookies with passes are read of one request: each costs time.
const maxPasses = 8

// PassOf returns the key of the first valid pass among the cookies of a request.
func (s *Service) PassOf(lines [][]byte, address netip.Addr) (keys.Key, bool) {
	read := 0
	for _, line := range lines {
		if !bytes.Contains(line, []byte(Cookie)) {
			continue
		}
		for pair := range bytes.SplitSeq(line, []byte{';'}) {
			name, value, _ := bytes.Cut(bytes.TrimSpace(pair), []byte{'='})
			if string(name) != Cookie {
				continue
			}
			if read++; read > maxPasses {
				return keys.Key{}, false
			}
			if key, ok := s.ReadPass(string(value), address); ok {
				return key, true
			}
		}
	}
	return keys.Key{}, false
}

// ReadPass returns the key of a pass, false if it is not valid.
func (s *Service) ReadPass(cookie string, address netip.Addr) (keys.Key, bool) {
	return readPass(s.o.Secret(), cookie, address, s.o.Now())
}

// IsNavigation reports whether a request is that of a person who opens a page: only these are
// challenged by a page. mode and dest are Sec-Fetch-Mode and Sec-Fetch-Dest.
func IsNavigation(method, target, accept, mode, dest string) bool {
	path, _, _ := strings.Cut(target, "?")
	return method == http.MethodGet && strings.Contains(accept, "text/html") && isOpened(mode, dest) &&
		len(target) > 0 && target[0] == '/' && len(cleanTarget(target)) <= MaxTarget &&
		path != "/robots.txt" && path != "/favicon.ico" && (!strings.HasPrefix(path, "/.well-known/") || IsOwn(path))
}

// Show answers a navigation with a challenge. id is that of the refusal, "" for none.
func (s *Service) Show(v *Visit, id string) *Answer {
	s.o.Observe(Shown)
	c := s.issue(v, cleanTarget(v.Target), s.way())
	return s.show(v, &c, c.wait, id)
}

func (s *Service) issue(v *Visit, target string, by way) challenge {
	c := challenge{issued: s.o.Now(), nonce: newNonce(), difficulty: s.o.Difficulty, way: by, wait: s.o.Wait, target: target}
	if s.o.Bind {
		c.network = networkOf(v.Address)
	}
	return c
}

func (s *Service) show(v *Visit, c *challenge, wait time.Duration, id string, more ...string) *Answer {
	p := s.challengePage(v, c, wait, id)
	p.More = append(p.More, more...)
	return p.answer()
}

func (s *Service) challengePage(v *Visit, c *challenge, wait time.Duration, id string) *page {
	p := s.page(v, http.StatusTooManyRequests)
	p.Title, p.Lead, p.ID = p.ChallengeTitle, p.ChallengeLead, id
	pass := PathPass + "?c=" + c.token(s.o.Secret())
	if c.way.isWork() {
		p.Challenge = &shownChallenge{Prefix: c.prefix(), Difficulty: c.difficulty, Seconds: int64((wait + time.Second - 1) / time.Second), Pass: pass, IsWorkOnly: c.way == byWorkOnly}
	} else {
		s.showCaptcha(p, c, pass)
	}
	return p
}

// Outcome is what came of a visit of the paths of challenges.
type Outcome string

// The outcomes of challenges, which policies may count.
const (
	Nothing Outcome = ""
	Shown   Outcome = "challenge_shown" // abandoned, unless it is solved
	Solved  Outcome = "challenge_solved"
	Failed  Outcome = "challenge_failed"
)

// Visit answers a request for one of the paths of challenges; see IsOwn.
func (s *Service) Visit(ctx context.Context, v *Visit) (*Answer, Outcome) {
	path, query, _ := strings.Cut(v.Target, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		values = url.Values{}
	}
	switch path {
	case Path:
		if values.Get("file") == altchaFile {
			return altchaWidget(v), Nothing
		}
		shown := *v
		if shown.Target = values.Get("to"); len(cleanTarget(shown.Target)) > MaxTarget {
			shown.Target = "/"
		}
		if v.IsForeign {
			return s.Show(&shown, ""), Nothing
		}
		return s.Show(&shown, ""), Shown
	case PathPass:
		answer, outcome := s.takeSolution(ctx, v, values)
		if outcome != Nothing {
			s.o.Observe(outcome)
		}
		return answer, outcome
	}
	return s.goOn(v, values.Get("c")), Nothing // PathContinue
}

// expired answers a solution of a challenge that is not ours or no longer valid.
func (s *Service) expired(v *Visit) *Answer {
	p := s.page(v, http.StatusForbidden)
	p.Title, p.Lead, p.Link = p.Texts.ExpiredTitle, p.Texts.ExpiredLead, "/"
	return p.answer()
}

// takeSolution answers a solution by its parameters: c is the challenge, n the counter, and captcha the
// answer of a captcha; without either the client has waited.
func (s *Service) takeSolution(ctx context.Context, v *Visit, values url.Values) (*Answer, Outcome) {
	now := s.o.Now()
	c, state := readChallenge(s.o.Secret(), values.Get("c"), now)
	switch {
	case v.IsForeign, state == tooOld:
		return s.expired(v), Nothing
	case state != valid, c.network.IsValid() && c.network != networkOf(v.Address):
		return s.expired(v), Failed
	}
	if !c.way.isWork() {
		return s.takeAnswer(ctx, v, &c, values)
	}
	if values.Has("n") || c.way == byWorkOnly {
		if !c.isSolvedBy(values.Get("n")) {
			return s.expired(v), Failed
		}
	} else if left := c.wait - now.Sub(c.issued); left > 0 {
		if left > c.wait { // the clock of the node that issued it is ahead: wait by this one's
			c = s.issue(v, c.target, byWork)
			left = c.wait
		}
		return s.show(v, &c, left, ""), Nothing
	}
	if s.hasPass(v) {
		return redirect(nextOf(values)), Nothing
	}
	return s.givePass(ctx, v, &c, values)
}

// hasPass reports whether the client has a pass, since another tab was faster: a good pass stays.
func (s *Service) hasPass(v *Visit) bool {
	_, has := s.PassOf(v.Cookies, v.Address)
	return has
}

// nextOf returns where a solved challenge leads.
func nextOf(values url.Values) string { return PathContinue + "?c=" + values.Get("c") }

// takeAnswer takes the answer of a captcha.
func (s *Service) takeAnswer(ctx context.Context, v *Visit, c *challenge, values url.Values) (*Answer, Outcome) {
	if s.hasPass(v) { // an answer is taken once: one that is sent again is not verified again
		return redirect(nextOf(values)), Nothing
	}
	switch s.verify(ctx, c, values.Get("captcha"), v.Address) {
	case accepted:
		return s.givePass(ctx, v, c, values)
	case unverified:
		return s.unverified(v, c), Nothing
	case busy:
		return s.busy(v, c), Nothing
	case elsewhere:
		return s.again(v, c), Nothing
	}
	return s.again(v, c), Failed
}

// again answers a visitor whose answer is not taken with another challenge.
func (s *Service) again(v *Visit, c *challenge) *Answer {
	again := s.issue(v, c.target, s.way())
	return s.show(v, &again, again.wait, "", textsOf(v.Languages).CaptchaFailed)
}

// busy answers a visitor whose answer could not be verified now with another captcha.
func (s *Service) busy(v *Visit, c *challenge) *Answer {
	again := s.issue(v, c.target, c.way)
	p := s.challengePage(v, &again, again.wait, "")
	p.status, p.More = http.StatusServiceUnavailable, append(p.More, p.CaptchaUnverified)
	a := p.answer()
	a.Headers = append(a.Headers, [2]string{"Retry-After", strconv.Itoa(int(busyFor / time.Second))})
	return a
}

// unverified answers a visitor whose answer cannot be verified. It is never taken for solved: the browser
// works instead, or is refused if the settings say so.
func (s *Service) unverified(v *Visit, c *challenge) *Answer {
	by := s.way()
	if s.captcha != nil && s.captcha.provider.way == c.way {
		if by = byWorkOnly; s.captcha.Outage == RefuseInOutage {
			p := s.page(v, http.StatusServiceUnavailable)
			p.Title, p.Lead, p.Link = p.UnavailableTitle, p.CaptchaUnverified, c.target
			return p.answer()
		}
	}
	instead := s.issue(v, c.target, by)
	return s.show(v, &instead, instead.wait, "")
}

// givePass sets the pass of a solved challenge.
func (s *Service) givePass(ctx context.Context, v *Visit, c *challenge, values url.Values) (*Answer, Outcome) {
	now := s.o.Now()
	shared, isFirst := s.o.Earn(ctx, v.Address, c.prefix())
	cookie, expires := c.pass(s.o.Secret(), s.o.PassFor, shared)
	text := Cookie + "=" + cookie + "; Path=/; Max-Age=" + strconv.FormatInt(max(1, int64(expires.Sub(now)/time.Second)), 10) + "; HttpOnly; SameSite=Lax"
	if !v.IsInsecure {
		text += "; Secure"
	}
	outcome := Nothing
	if isFirst {
		outcome = Solved
	}
	return redirect(nextOf(values), [2]string{"Set-Cookie", text}), outcome
}

// goOn leads to the target of a challenge if the client has sent its pass back. Without this step a
// browser that refuses cookies would be challenged again and again.
func (s *Service) goOn(v *Visit, token string) *Answer {
	c, state := readChallenge(s.o.Secret(), token, s.o.Now())
	if state != valid {
		return s.expired(v)
	}
	if _, ok := s.PassOf(v.Cookies, v.Address); ok {
		return redirect(c.target)
	}
	p := s.page(v, http.StatusForbidden)
	p.Title, p.Lead, p.Link = p.Texts.CookiesTitle, p.Texts.CookiesLead, c.target
	return p.answer()
}

func redirect(to string, headers ...[2]string) *Answer {
	return &Answer{Status: http.StatusSeeOther, Headers: append(headers, [2]string{"Location", to}, [2]string{"Vary", vary})}
}

// vary are the headers that answers depend on.
const vary = "Accept, Accept-Language, Cookie, Sec-Fetch-Dest, Sec-Fetch-Mode"

// dotSegment is a part of a path that browsers leave out.
var dotSegment = regexp.MustCompile(`(?i)[/\\](\.|%2e){1,2}([/\\]|$)`)

// cleanTarget returns a target as a Location that stays on the site: a path that begins with one
// slash, with a query. Bytes that headers or URLs cannot have are escaped.
func cleanTarget(target string) string {
	target, _, _ = strings.Cut(target, "#")
	if target == "" || target[0] != '/' {
		return "/"
	}
	// Browsers read a backslash as a slash, and what follows two slashes as a host. They leave dot segments out
	// of what they ask for, and of a Location: what is behind them may have two slashes, or be a path of challenges.
	target = "/" + strings.TrimLeft(target, `/\`)
	if path, _, _ := strings.Cut(target, "?"); strings.HasPrefix(path, Prefix) || dotSegment.MatchString(path) {
		return "/"
	}
	b := make([]byte, 0, len(target))
	for i := range len(target) {
		if c := target[i]; c > ' ' && c < 0x7f && !slices.Contains([]byte("\"<>\\^`{|}"), c) {
			b = append(b, c)
		} else {
			b = append(b, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		}
	}
	return string(b)
}
