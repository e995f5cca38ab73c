package answers

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/keys"
)

// Probe is the outcome of a request for a program that the site does not have, where the answer does
// not say so: sites that show one page for everything, and sites that redirect everything, answer a
// scanner as they answer a visitor.
const Probe = "probe"

// Browsed is the outcome of each filesOfAVisit-th file of pages that a client has loaded, as browsers do
// and scanners do not, and of each pagesOfACrawl-th different page that was there, as for a crawler. It can take
// back the points of dead links: an office of five hundred people meets as many of them in a day as a scanner
// tries. What a client says to be does not matter.
const Browsed = "browsed"

// Site is what its answers show of a site: with which statuses it answers what it does not have, and which
// of the programs that scanners look for it runs. It is small and forgets: of what clients choose, only
// the newest is kept. It is safe for concurrent use.
//
// What a site does not have is learned from canaries, the paths of the lists secrets and exploits, which
// no site shows, and from the consoles of different products, since hardly a site has several. A
// program is the site's own once visitors who load the files of pages have loaded those of the program
// too, or, of PHP, its pages. A client that has asked for a canary teaches nothing of that.
type Site struct {
	name       func(keys.Key) string // how a client is named in what is kept
	maxClients int
	asked      *targets

	mu       sync.Mutex
	own      conditions.When // paths that an operator has named, zero for none
	canaries []canary        // the newest last
	missing  []int           // statuses that canaries were answered with alike
	clients  map[string]*siteClient
	programs map[string]*program
	// loggedIn is when those who have logged in were last inside, Unix milliseconds, by form and client.
	loggedIn map[string]int64
}

// canary is the answer to a request for something that no site has.
type canary struct {
	What   string `json:"what"`
	Client string `json:"client"`
	Status int    `json:"status"`
	At     int64  `json:"at,omitzero"` // Unix milliseconds, 0 if it is not known
}

// program is one that scanners look for.
type program struct {
	By   map[string]bool `json:"by"`   // what showed it: different files, or for PHP clients
	Last int64           `json:"last"` // when it was last shown, Unix milliseconds
}

// siteClient is what one client has shown: whether it loads pages as browsers do.
type siteClient struct {
	files     [enoughFiles]uint64 // hashes of different ones that were there
	different int                 // how many of files
	loaded    int                 // how many were there
	pages     uint64              // a bit for each different page that was there, by its hash; none once half of them are set
	crawled   int                 // how many different pages were there
	isCrawled bool                // the last request was for another page that was there
	isSuspect bool
}

// Bounds of a Site, and what is enough.
const (
	maxCanaries    = 64
	maxClients     = 4096
	maxPrograms    = 256
	maxLoggedIn    = 256
	maxAsked       = 8192
	maxTarget      = 512 // bytes of a target that is remembered
	enoughCanaries = 5   // different ones that were answered alike
	enoughSenders  = 2   // different clients, each of which has asked for two of them
	enoughFiles    = 3   // that a client has to have loaded to be taken for a browser
	enoughAnswers  = 3   // that show a program
	filesOfAVisit  = 20
	pagesOfACrawl  = 8
	maxKnownText   = 512                 // bytes of what a SiteState keeps
	programAge     = 30 * 24 * time.Hour // after which a program that was not shown again is forgotten
	loginAge       = 24 * time.Hour      // after which a login is forgotten whose client was not inside again
)

// NewSite returns a Site that knows nothing. own are patterns of paths that are the site's, as in
// conditions.
func NewSite(own []string) (*Site, error) {
	if err := CheckOwn(own); err != nil {
		return nil, err
	}
	s := newSite(&targets{}, maxClients, keys.Key.String)
	s.setOwn(own)
	return s, nil
}

func newSite(asked *targets, maxClients int, name func(keys.Key) string) *Site {
	return &Site{asked: asked, maxClients: maxClients, name: name, clients: map[string]*siteClient{}, programs: map[string]*program{}, loggedIn: map[string]int64{}}
}

// setOwn replaces the paths that are the site's own. They must be valid.
func (s *Site) setOwn(own []string) {
	when := conditions.When{}
	if len(own) > 0 {
		when = pathsOf(own...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own = when
}

// The programs besides consoles, which are named by the beginning of their path.
const (
	programWordPress = "WordPress"
	programPHP       = "PHP"
)

// The kinds of path that a Site distinguishes, by their lists.
const (
	noSite = iota // shows such a path
	consoles
	wordPress
	php
	form
)

var kindsOfPath = sync.OnceValue(func() *conditions.Index {
	return conditions.NewIndex([]conditions.When{noSite: pathsOf("@secrets", "@exploits"), consoles: pathsOf("@consoles"), wordPress: pathsOf("@wordpress"), php: pathsOf("@php"), form: pathsOf("@login-forms", "not @wordpress")})
})

// asked is what a request asked for.
type asked struct {
	path    string // normalized
	isFile  bool   // that pages load by themselves
	isShown bool   // by some site
	program string // that it belongs to, "" for none
	form    string // whose login and whose pages have one path, by the beginning of that, "" for none
}

// targets are what was asked for lately, so that it is not looked up for each request. The zero value has
// none. It is safe for concurrent use.
type targets struct {
	mu  sync.Mutex
	all map[string]asked // by target without its query, at most maxAsked
}

// of returns what a target asks for.
func (t *targets) of(target string) asked {
	target, _, _ = strings.Cut(target, "?")
	t.mu.Lock()
	defer t.mu.Unlock()
	a, isKnown := t.all[target]
	if isKnown {
		return a
	}
	a = classify(target)
	if len(target) > maxTarget {
		return a
	}
	if t.all == nil || len(t.all) >= maxAsked {
		t.all = map[string]asked{}
	}
	t.all[strings.Clone(target)] = a
	return a
}

func classify(target string) asked {
	p := conditions.NormalizePath(target)
	a := asked{path: p, isFile: isAsset(target) && p != "/robots.txt" && p != "/favicon.ico", isShown: true}
	kindsOfPath().Find(conditions.NewRequest(p, "", "", ""), func(kind int) {
		switch {
		case kind == noSite:
			a.isShown = false
		case kind == form:
			a.form = firstSegment(p)
		case a.program != "": // the first of several
		case kind == consoles:
			a.program = firstSegment(p)
		case kind == wordPress:
			a.program = programWordPress
		case kind == php:
			a.program = programPHP
		}
	})
	return a
}

// firstSegment returns the beginning of a path, in lower case.
func firstSegment(p string) string {
	first, _, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(p, "/")), "/")
	return "/" + first
}

// CheckOwn returns an error unless patterns are of paths that may be named a site's own.
func CheckOwn(patterns []string) error {
	for _, pattern := range patterns {
		if _, err := ParsePaths(pattern); err != nil {
			return fmt.Errorf("%q %w", clip(pattern), err)
		}
	}
	return nil
}

// isServed reports whether a status says that something was there.
func isServed(status int) bool { return status >= 200 && status < 300 || status == 304 }

// isTelling reports whether a status may be how a site answers what it does not have, and does not say so
// by itself: not an answer of a limiter or of a gateway in trouble.
func isTelling(status int) bool {
	return status >= 200 && status < 400 && status != 304 || status == 500
}

// Learn takes the answer to a request into account.
func (s *Site) Learn(r *Answer) {
	if r.Status == 0 || r.Path == "" {
		return
	}
	a, key := s.asked.of(r.Path), s.name(r.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.form != "" && strings.EqualFold(r.Method, post) && (r.Status == 302 || r.Status == 303) && !slices.Contains(s.missing, r.Status) {
		s.logIn(a.form+" "+key, r.Time)
	}
	c := s.client(key)
	c.isCrawled = false
	switch {
	case !a.isShown:
		c.isSuspect = true
		s.addCanary(canary{clip(a.path), key, r.Status, r.Time})
		return
	case strings.HasPrefix(a.program, "/") && !a.isFile:
		s.addCanary(canary{a.program, key, r.Status, r.Time})
	}
	if !isServed(r.Status) || c.isSuspect {
		return
	}
	switch {
	case a.isFile:
		c.load(a.path)
	case a.program == "" && !slices.Contains(s.missing, r.Status):
		c.crawl(a.path)
	}
	switch {
	case a.program == "" || c.different < enoughFiles:
	case a.isFile:
		s.show(a.program, a.path, r.Time)
	case a.program == programPHP:
		s.show(a.program, key, r.Time)
	}
}

var seed = maphash.MakeSeed()

func (c *siteClient) load(file string) {
	c.loaded++
	hash := maphash.String(seed, file)
	if c.different < enoughFiles && !slices.Contains(c.files[:c.different], hash) {
		c.files[c.different] = hash
		c.different++
	}
}

func (c *siteClient) crawl(page string) {
	bit := uint64(1) << (maphash.String(seed, page) % 64)
	if c.isCrawled = c.pages&bit == 0; !c.isCrawled {
		return
	}
	c.crawled++
	if c.pages |= bit; bits.OnesCount64(c.pages) == 32 {
		c.pages = 0
	}
}

// client returns what is known of a client. One more than maxClients takes the place of any other.
func (s *Site) client(key string) *siteClient {
	c := s.clients[key]
	if c == nil {
		for other := range s.clients {
			if len(s.clients) < s.maxClients {
				break
			}
			delete(s.clients, other)
		}
		c = &siteClient{}
		s.clients[key] = c
	}
	return c
}

// logIn notes that a client has logged in, or was inside. One more than maxLoggedIn takes the place of any other.
func (s *Site) logIn(key string, at int64) {
	for other := range s.loggedIn {
		if _, isKnown := s.loggedIn[key]; isKnown || len(s.loggedIn) < maxLoggedIn {
			break
		}
		delete(s.loggedIn, other)
	}
	if len(key) <= maxKnownText {
		s.loggedIn[key] = max(s.loggedIn[key], at)
	}
}

// isInside reports whether r, whose query says so, is of a client that is logged in by a form. As long as
// nobody was seen to log in there, since the program may take its user from its configuration, those who load pages
// as browsers do are.
func (s *Site) isInside(form string, r *Answer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	client := s.name(r.Key)
	key := form + " " + client
	if last, isKnown := s.loggedIn[key]; isKnown && r.Time-last <= loginAge.Milliseconds() {
		s.logIn(key, r.Time)
		return true
	}
	for other := range s.loggedIn {
		if strings.HasPrefix(other, form+" ") {
			return false
		}
	}
	c := s.clients[client]
	return c != nil && !c.isSuspect && c.different == enoughFiles
}

func (s *Site) addCanary(c canary) {
	if !isTelling(c.Status) && c.Status != 404 && c.Status != 410 || len(c.What) > maxKnownText || len(c.Client) > maxKnownText {
		return
	}
	if len(s.canaries) == maxCanaries {
		s.canaries = append(s.canaries[:0], s.canaries[1:]...)
	}
	s.canaries = append(s.canaries, c)
	s.missing = s.findMissing()
}

// show notes one of the different things that show a program.
func (s *Site) show(name, by string, at int64) {
	if len(name) > maxKnownText || len(by) > maxKnownText {
		return
	}
	p := s.programs[name]
	if p == nil {
		for other := range s.programs {
			if len(s.programs) < maxPrograms {
				break
			}
			delete(s.programs, other)
		}
		p = &program{By: map[string]bool{}}
		s.programs[name] = p
	}
	if len(p.By) < enoughAnswers {
		p.By[by] = true
	}
	p.Last = max(p.Last, at)
}

// isOwn reports whether a program is the site's. PHP is also where WordPress is.
func (s *Site) isOwn(name string) bool {
	if p := s.programs[name]; p != nil && len(p.By) >= enoughAnswers {
		return true
	}
	return name == programPHP && s.isOwn(programWordPress)
}

// findMissing returns the statuses with which the site answers what it does not have, besides those that
// say so.
func (s *Site) findMissing() []int {
	type alike struct {
		what    map[string]bool
		clients map[string]map[string]bool // what each has asked for
	}
	by := map[int]*alike{}
	for _, c := range s.canaries {
		if !isTelling(c.Status) {
			continue
		}
		if by[c.Status] == nil {
			by[c.Status] = &alike{map[string]bool{}, map[string]map[string]bool{}}
		}
		a := by[c.Status]
		if a.what[c.What] = true; a.clients[c.Client] == nil {
			a.clients[c.Client] = map[string]bool{}
		}
		a.clients[c.Client][c.What] = true
	}
	maps.DeleteFunc(by, func(_ int, a *alike) bool {
		maps.DeleteFunc(a.clients, func(_ string, what map[string]bool) bool { return len(what) < 2 })
		return len(a.what) < enoughCanaries || len(a.clients) < enoughSenders
	})
	return slices.Sorted(maps.Keys(by))
}

// isProbe reports whether r asked for a program that the site does not have, and was answered as the
// site answers what it does not have.
func (s *Site) isProbe(r *Answer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Path == "" || !slices.Contains(s.missing, r.Status) {
		return false
	}
	a := s.asked.of(r.Path)
	if a.program == "" || a.isFile || !s.own.IsZero() && s.own.Meets(conditions.NewRequest(a.path, "", "", "")) {
		return false
	}
	return !s.isOwn(a.program)
}

// hasBrowsed reports whether r, the last request that was learned, completed a visit.
func (s *Site) hasBrowsed(r *Answer) bool {
	if !isServed(r.Status) || r.Path == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[s.name(r.Key)]
	switch {
	case c == nil || c.isSuspect:
		return false
	case s.asked.of(r.Path).isFile:
		return c.loaded > 0 && c.loaded%filesOfAVisit == 0
	}
	return c.isCrawled && c.crawled%pagesOfACrawl == 0
}

// SiteState is what a Site has learned, without the clients that it watches: what a restart must not forget.
type SiteState struct {
	Canaries []canary            `json:"canaries,omitempty"`
	Programs map[string]*program `json:"programs,omitempty"`
	// LoggedIn is when clients who have logged in at a form were last inside, Unix milliseconds.
	LoggedIn map[string]int64 `json:"logged_in,omitempty"`
}

// State returns what s has learned by a time. It forgets the programs that were not shown for long, and old logins.
func (s *Site) State(now time.Time) *SiteState {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := &SiteState{Canaries: slices.Clone(s.canaries), Programs: map[string]*program{}}
	for name, p := range s.programs {
		if p.Last < now.Add(-programAge).UnixMilli() {
			delete(s.programs, name)
			continue
		}
		state.Programs[name] = &program{maps.Clone(p.By), p.Last}
	}
	maps.DeleteFunc(s.loggedIn, func(_ string, last int64) bool { return last < now.Add(-loginAge).UnixMilli() })
	state.LoggedIn = maps.Clone(s.loggedIn)
	return state
}

// Restore has s know what was learned before, or elsewhere, too. It returns an error for what State never
// returns.
func (s *Site) Restore(known *SiteState) error {
	isLong := func(text string) bool { return text == "" || len(text) > maxKnownText }
	for _, c := range known.Canaries {
		if isLong(c.What) || isLong(c.Client) || c.Status < 100 || c.Status > 999 {
			return errors.New("an answer of the site is impossible")
		}
	}
	for name, p := range known.Programs {
		if isLong(name) || p == nil || len(p.By) > enoughAnswers {
			return errors.New("a program of the site is impossible")
		}
		for by := range p.By {
			if isLong(by) {
				return errors.New("a program of the site is impossible")
			}
		}
	}
	for key := range known.LoggedIn {
		if isLong(key) {
			return errors.New("a login at the site is impossible")
		}
	}
	if len(known.Canaries) > maxCanaries || len(known.Programs) > maxPrograms || len(known.LoggedIn) > maxLoggedIn {
		return errors.New("more is known of the site than is kept")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range known.Canaries {
		if !slices.Contains(s.canaries, c) {
			s.canaries = append(s.canaries, c)
		}
	}
	slices.SortStableFunc(s.canaries, func(a, b canary) int { return cmp.Compare(a.At, b.At) })
	s.canaries = slices.Delete(s.canaries, 0, max(0, len(s.canaries)-maxCanaries))
	for name, p := range known.Programs {
		for _, by := range slices.Sorted(maps.Keys(p.By)) {
			s.show(name, by, p.Last)
		}
	}
	for key, last := range known.LoggedIn {
		s.logIn(key, last)
	}
	s.missing = s.findMissing()
	return nil
}

// forget forgets what was learned before an instant.
func (s *Site) forget(before time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ms := before.UnixMilli()
	s.canaries = slices.DeleteFunc(s.canaries, func(c canary) bool { return c.At < ms })
	maps.DeleteFunc(s.programs, func(_ string, p *program) bool { return p.Last < ms })
	maps.DeleteFunc(s.loggedIn, func(_ string, last int64) bool { return last < ms })
	s.missing = s.findMissing()
}

// SiteReport is what a Site has learned.
type SiteReport struct {
	// Missing are the statuses with which the site answers what it does not have, besides 404 and 410.
	Missing []int `json:"missing_statuses"`
	// Own are the programs that the site runs, of those that scanners look for.
	Own []string `json:"own_programs"`
}

// Report returns what the site has shown so far.
func (s *Site) Report() SiteReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	report := SiteReport{Missing: append([]int{}, s.missing...), Own: []string{}}
	for program := range s.programs {
		if s.isOwn(program) {
			report.Own = append(report.Own, program)
		}
	}
	slices.SortFunc(report.Own, cmp.Compare)
	return report
}

// IsZero reports whether nothing is known.
func (r SiteReport) IsZero() bool { return len(r.Missing) == 0 && len(r.Own) == 0 }

// String says in a sentence or two what is known, "" if nothing is. It is safe to print.
func (r SiteReport) String() string {
	var parts []string
	if len(r.Missing) > 0 {
		statuses := make([]string, len(r.Missing))
		for i, status := range r.Missing {
			statuses[i] = fmt.Sprint(status)
		}
		parts = append(parts, fmt.Sprintf("The site answers %s to paths that no site has, so that requests for programs that it does not run are the outcome %s.", strings.Join(statuses, " and "), Probe))
	}
	if len(r.Own) > 0 {
		own := make([]string, len(r.Own))
		for i, name := range r.Own {
			own[i] = escape.Log(name)
		}
		parts = append(parts, "Of the programs that scanners look for it runs "+strings.Join(own, ", ")+".")
	}
	return strings.Join(parts, " ")
}
