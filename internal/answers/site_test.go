package answers

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/keys"
)

// answered is a site under test: how it answers a path.
type answered struct {
	t    *testing.T
	all  Outcomes
	gets func(path string) int
}

func newAnswered(t *testing.T, gets func(path string) int, own ...string) *answered {
	site, err := NewSite(own)
	if err != nil {
		t.Fatal(err)
	}
	return &answered{t, DefaultOutcomes(site), gets}
}

// ask has a client ask for paths, and returns those that were probes.
func (a *answered) ask(client int, paths ...string) (probes []string) {
	a.t.Helper()
	key := (keys.Parser{}).AddressKey(netip.AddrFrom4([4]byte{192, 0, 2, byte(client)}))
	for _, p := range paths {
		r := Answer{Key: key, Method: "GET", Path: p, Status: a.gets(p)}
		a.all.Learn(&r)
		if slices.Contains(a.all.Append(nil, &r), Probe) {
			probes = append(probes, p)
		}
	}
	return probes
}

// scan has two clients ask for what no site has.
func (a *answered) scan() {
	a.t.Helper()
	a.ask(200, "/.env", "/.git/config", "/.aws/credentials", "/backup.sql")
	a.ask(201, "/.env", "/.ssh/id_rsa", "/.git/HEAD")
}

var (
	browses  = []string{"/", "/app.css", "/app.js", "/logo.png"}
	programs = []string{"/phpmyadmin/index.php", "/manager/html", "/wp-login.php", "/shell.php"}
)

func always(status int) func(string) int { return func(string) int { return status } }

// A site that answers everything alike is recognized by what no site has, and then what asks for a
// program that it does not run is a probe. Visitors are none.
func TestSiteThatAnswersEverythingAlike(t *testing.T) {
	for _, status := range []int{200, 301, 302, 500} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			a := newAnswered(t, always(status))
			if probes := a.ask(1, programs...); probes != nil {
				t.Errorf("before anything is known: got %v", probes)
			}
			a.scan()
			if probes := a.ask(2, programs...); !slices.Equal(probes, programs) {
				t.Errorf("got the probes %v, want %v", probes, programs)
			}
			if probes := a.ask(3, append(browses, "/about", "/wp-content/a.css", "/robots.txt", "/favicon.ico")...); probes != nil {
				t.Errorf("a visitor: got the probes %v", probes)
			}
			if report := a.all.Site().Report(); !slices.Equal(report.Missing, []int{status}) || report.String() == "" {
				t.Errorf("got the report %+v", report)
			}
		})
	}
}

// What says by itself that something is missing, or is the answer of a limiter, is never a probe.
func TestStatusesThatSayThemselves(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 410, 429, 502, 503, 304} {
		a := newAnswered(t, always(status))
		a.scan()
		if probes := a.ask(2, programs...); probes != nil {
			t.Errorf("%d: got the probes %v", status, probes)
		}
	}
}

// Of a site that shows one page for everything and runs WordPress, PHP or a console, those are its own,
// also for an editor whom nobody else resembles.
func TestProgramsOfTheSiteAreItsOwn(t *testing.T) {
	a := newAnswered(t, always(200))
	a.scan()
	a.ask(10, append(browses, "/wp-content/themes/a/style.css", "/wp-content/themes/a/a.js", "/wp-includes/js/jquery.js")...)
	editor := []string{"/wp-login.php", "/wp-admin/", "/wp-admin/edit.php", "/wp-admin/post.php", "/wp-admin/plugins.php", "/wp-json/wp/v2/posts", "/index.php"}
	if probes := a.ask(11, editor...); probes != nil {
		t.Errorf("an editor of WordPress: got the probes %v", probes)
	}
	a.ask(12, append(browses, "/phpMyAdmin/themes/a.css", "/phpMyAdmin/js/b.js", "/phpMyAdmin/js/c.js")...)
	if probes := a.ask(12, "/phpmyadmin/index.php", "/phpMyAdmin/sql.php"); probes != nil {
		t.Errorf("the site's phpMyAdmin: got the probes %v", probes)
	}
	if probes := a.ask(13, "/manager/html", "/solr/admin/cores"); len(probes) != 2 {
		t.Errorf("consoles that it does not run: got the probes %v", probes)
	}

	a = newAnswered(t, always(200))
	a.scan()
	for client := range 3 {
		if client < 2 {
			if probes := a.ask(20, "/page.php"); len(probes) != 1 {
				t.Errorf("PHP after %d visitors: got the probes %v", client, probes)
			}
		}
		a.ask(30+client, append(browses, "/list.php")...)
	}
	if probes := a.ask(20, "/other.php"); probes != nil {
		t.Errorf("the site's PHP: got the probes %v", probes)
	}
	if own := a.all.Site().Report().Own; !slices.Equal(own, []string{"PHP"}) {
		t.Errorf("got the own programs %v", own)
	}
}

// A scanner teaches nothing of what is the site's own, whatever it loads, and one client alone does not
// make a site one that answers everything.
func TestScannersTeachNothing(t *testing.T) {
	a := newAnswered(t, always(200))
	a.scan()
	for _, client := range []int{200, 201} {
		a.ask(client, append(browses, "/wp-content/a.css", "/wp-content/b.css", "/wp-content/c.css", "/a.php", "/b.php")...)
	}
	if probes := a.ask(2, "/wp-login.php", "/a.php"); len(probes) != 2 {
		t.Errorf("got the probes %v", probes)
	}
	a = newAnswered(t, always(200))
	a.ask(200, "/.env", "/.git/config", "/.aws/credentials", "/backup.sql", "/.ssh/id_rsa", "/.git/HEAD")
	a.ask(1, "/phpmyadmin/")
	if probes := a.ask(2, "/wp-login.php", "/blog/index.php", "/manager/html"); probes != nil {
		t.Errorf("after one client: got the probes %v", probes)
	}
}

// What an operator names is the site's own.
func TestOwnPaths(t *testing.T) {
	a := newAnswered(t, always(200), "/manager/*")
	a.scan()
	if probes := a.ask(2, "/manager/html", "/host-manager/html"); !slices.Equal(probes, []string{"/host-manager/html"}) {
		t.Errorf("got the probes %v", probes)
	}
	if _, err := NewSite([]string{"@nolist"}); err == nil {
		t.Error("an unknown list was accepted")
	}
}

// Each twentieth file of pages that a client has loaded, and each eighth different page, is a sign that it
// browses, of which a scanner has none.
func TestClientsThatLoadFilesBrowse(t *testing.T) {
	a := newAnswered(t, always(200))
	count := func(client, n int, path string) (browsed int) {
		for i := range n {
			r := Answer{Key: (keys.Parser{}).AddressKey(netip.AddrFrom4([4]byte{192, 0, 2, byte(client)})), Method: "GET", Path: fmt.Sprintf(path, i), Status: 200}
			a.all.Learn(&r)
			if slices.Contains(a.all.Append(nil, &r), Browsed) {
				browsed++
			}
		}
		return browsed
	}
	if n := count(1, 100, "/a%d.css"); n != 5 {
		t.Errorf("a browser: got %d, want 5", n)
	}
	if n := count(3, 100, "/page-%d"); n < 5 || n > 12 {
		t.Errorf("a crawler of different pages: got %d, want one for each %d", n, pagesOfACrawl)
	}
	if n := count(4, 100, "/?%d"); n != 0 {
		t.Errorf("one page again and again: got %d, want none", n)
	}
	a.ask(2, "/.env")
	if n := count(2, 100, "/a%d.css") + count(2, 100, "/page-%d"); n != 0 {
		t.Errorf("a scanner: got %d, want none", n)
	}
	a.scan() // what the site does not have is answered with 200 too
	if n := count(5, 100, "/page-%d"); n != 0 {
		t.Errorf("made-up names where everything is answered: got %d, want none", n)
	}
}

// However many clients and paths there are, a Site stays small, and it forgets what no longer holds.
func TestSiteStaysSmallAndForgets(t *testing.T) {
	status := 200
	a := newAnswered(t, func(string) int { return status })
	a.scan()
	for i := range 3 * maxClients {
		r := Answer{Key: (keys.Parser{}).AddressKey(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})), Path: fmt.Sprintf("/phpmyadmin%d/a.css", i), Status: 200}
		a.all.Learn(&r)
	}
	s := a.all.Site()
	if len(s.clients) > s.maxClients || len(s.programs) > maxPrograms || len(s.canaries) > maxCanaries {
		t.Errorf("%d clients, %d programs, %d canaries", len(s.clients), len(s.programs), len(s.canaries))
	}
	status = 404 // the site was repaired
	for i := range maxCanaries {
		a.ask(i, "/.env")
	}
	if missing := s.Report().Missing; len(missing) != 0 {
		t.Errorf("it still answers what it does not have with %v", missing)
	}
}

// What a site has shown is known after a restart, and forgotten a month after a program was shown last.
func TestSiteIsKnownAgain(t *testing.T) {
	a := newAnswered(t, always(200))
	a.scan()
	a.ask(10, append(browses, "/wp-content/a.css", "/wp-content/a.js", "/wp-includes/jquery.js")...)
	now := time.UnixMilli(0)
	text, err := json.Marshal(a.all.Site().State(now))
	if err != nil {
		t.Fatal(err)
	}
	known := &SiteState{}
	if err := json.Unmarshal(text, known); err != nil {
		t.Fatal(err)
	}
	later := newAnswered(t, always(200))
	site := later.all.Site()
	if err := site.Restore(known); err != nil {
		t.Fatal(err)
	}
	if got, want := site.Report(), a.all.Site().Report(); !slices.Equal(got.Missing, want.Missing) || !slices.Equal(got.Own, []string{"WordPress"}) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if probes := later.ask(11, "/wp-login.php", "/manager/html"); !slices.Equal(probes, []string{"/manager/html"}) {
		t.Errorf("got the probes %v", probes)
	}
	site.State(now.Add(programAge))
	if own := site.Report().Own; len(own) != 1 {
		t.Errorf("after a month the site runs %v", own)
	}
	site.State(now.Add(programAge + time.Millisecond))
	if own := site.Report().Own; len(own) != 0 {
		t.Errorf("later the site runs %v", own)
	}
	for _, text := range []string{
		`{"canaries":[{"what":"/.env","client":"ip:192.0.2.1","status":7}]}`,
		`{"canaries":[{"what":"","client":"ip:192.0.2.1","status":200}]}`,
		`{"canaries":[{"what":"` + strings.Repeat("a", maxKnownText+1) + `","client":"ip:192.0.2.1","status":200}]}`,
		`{"canaries":[` + strings.Repeat(`{"what":"/.env","client":"ip:192.0.2.1","status":200},`, maxCanaries) + `{"what":"/.env","client":"ip:192.0.2.1","status":200}]}`,
		`{"programs":{"PHP":null}}`,
		`{"logged_in":{"":1}}`,
		`{"programs":{"PHP":{"by":{"a":true,"b":true,"c":true,"d":true},"last":1}}}`,
	} {
		wrong := &SiteState{}
		if err := json.Unmarshal([]byte(text), wrong); err != nil {
			t.Fatal(err)
		}
		if newAnswered(t, always(200)).all.Site().Restore(wrong) == nil {
			t.Errorf("%.80s is restored", text)
		}
	}
	none := &SiteState{Programs: map[string]*program{"PHP": {Last: 1}}}
	if err := site.Restore(none); err != nil {
		t.Fatal(err)
	}
	later.ask(12, append(browses, "/a.php")...)
}

// phpMyAdmin has one path for its form and for all that follows it. What the query says is what a client writes: a
// guesser who knows that is counted, and those who are logged in are not, also after a restart.
func TestTheQueryAloneIsNotInside(t *testing.T) {
	const sql = "/phpmyadmin/index.php?route=/sql&db=shop&ajax_request=1"
	a := newAnswered(t, always(200))
	at := int64(0)
	post := func(a *answered, client, status int, target string) bool {
		key := (keys.Parser{}).AddressKey(netip.AddrFrom4([4]byte{192, 0, 2, byte(client)}))
		r := Answer{Key: key, Method: "POST", Path: target, Status: status, Time: at}
		a.all.Learn(&r)
		return slices.Contains(a.all.Append(nil, &r), LoginFailed)
	}
	if !post(a, 66, 200, sql) {
		t.Error("a guess with the query of somebody who is logged in is not counted")
	}
	// The program has its user from its configuration: nobody logs in.
	a.ask(1, browses...)
	if post(a, 1, 200, sql) {
		t.Error("a browser is counted where nobody has logged in yet")
	}
	if post(a, 2, 200, "/phpmyadmin/index.php?route=/"); post(a, 2, 302, "/phpmyadmin/index.php?route=/") || post(a, 2, 200, sql) {
		t.Error("somebody who has logged in is counted")
	}
	if !post(a, 66, 200, sql) || !post(a, 1, 200, sql) {
		t.Error("once somebody has logged in, others are not counted")
	}
	if !post(a, 2, 200, "/wp-login.php?db=1") {
		t.Error("WordPress is taken for phpMyAdmin")
	}
	at = (loginAge - time.Hour).Milliseconds()
	if post(a, 2, 200, sql) {
		t.Error("somebody at work is counted")
	}
	at += (loginAge - time.Hour).Milliseconds()
	state := a.all.Site().State(time.UnixMilli(at))
	text, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	later, known := newAnswered(t, always(200)), &SiteState{}
	if err := json.Unmarshal(text, known); err != nil {
		t.Fatal(err)
	}
	if err := later.all.Site().Restore(known); err != nil {
		t.Fatal(err)
	}
	if post(later, 2, 200, sql) || !post(later, 66, 200, sql) {
		t.Error("a restart forgets who is logged in")
	}
	at += 2 * loginAge.Milliseconds()
	if !post(a, 2, 200, sql) || len(a.all.Site().State(time.UnixMilli(at)).LoggedIn) > 0 {
		t.Error("a login is never forgotten")
	}
	for i := range 2 * maxLoggedIn {
		a.all.Site().logIn(fmt.Sprint("/phpmyadmin ", i), at)
	}
	if n := len(a.all.Site().loggedIn); n != maxLoggedIn {
		t.Errorf("%d logins are kept, want %d", n, maxLoggedIn)
	}
}

// A site that redirects everything lets nobody in by that.
func TestARedirectOfEverythingIsNoLogin(t *testing.T) {
	a := newAnswered(t, always(302))
	a.scan()
	key := (keys.Parser{}).AddressKey(netip.AddrFrom4([4]byte{192, 0, 2, 1}))
	r := Answer{Key: key, Method: "POST", Path: "/phpmyadmin/index.php", Status: 302}
	if a.all.Learn(&r); len(a.all.Site().loggedIn) > 0 {
		t.Error("a redirect of everything is taken for a login")
	}
}
