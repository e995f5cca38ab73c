package detection

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// dayOf returns a day of the given kinds of traffic. The names of attacks begin with "attack".
func dayOf(seed uint64, parts map[string]func(g *generator)) *Traffic {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 3)), share: 1, t: &Traffic{Label: map[netip.Addr]string{}, Attack: map[netip.Addr]time.Time{}}}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		g.kind = Kind{Name: name, IsAttack: strings.HasPrefix(name, "attack")}
		parts[name](g)
	}
	slices.SortStableFunc(g.t.Requests, func(a, b Request) int { return a.At.Compare(b.At) })
	return g.t
}

// refusedOf returns, by the name of a kind, how many clients it has, how many of them were refused
// something, and the part of its requests that was refused.
func refusedOf(t *testing.T, day *Traffic, names ...string) map[string]struct {
	clients, caught int
	ratio           float64
} {
	t.Helper()
	refused, _, err := stint(names...)(t.Context(), day)
	if err != nil {
		t.Fatal(err)
	}
	type count struct {
		clients, caught map[netip.Addr]bool
		all, refused    int
	}
	by := map[string]*count{}
	for i, r := range day.Requests {
		label := day.Label[r.Address]
		if by[label] == nil {
			by[label] = &count{map[netip.Addr]bool{}, map[netip.Addr]bool{}, 0, 0}
		}
		c := by[label]
		c.clients[r.Address] = true
		if c.all++; refused[i] {
			c.refused++
			c.caught[r.Address] = true
		}
	}
	result := map[string]struct {
		clients, caught int
		ratio           float64
	}{}
	for label, c := range by {
		result[label] = struct {
			clients, caught int
			ratio           float64
		}{len(c.clients), len(c.caught), float64(c.refused) / float64(c.all)}
	}
	return result
}

// Scanners are caught on sites that show one page for everything, redirect or forbid everything, and
// their visitors are not.
func TestScannersAreCaughtWhateverASiteAnswers(t *testing.T) {
	for _, status := range []int{404, 200, 302, 403, 500} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			for seed := range uint64(3) {
				day := dayOf(seed+1, map[string]func(*generator){
					"attack: scanners": func(g *generator) {
						for range 20 {
							a, at := g.client(), g.between(0, 20)
							for _, p := range g.Perm(len(probes))[:15] {
								g.add(at, a, "GET", probes[p], status, scanner)
								at = at.Add(3*time.Second + g.upTo(time.Second))
							}
						}
					},
					"visitors": func(g *generator) {
						for range 200 {
							g.reads(g.between(0, 23), g.client(), 2+g.IntN(10))
						}
					},
				})
				result := refusedOf(t, day, "website")
				if s := result["attack: scanners"]; s.caught < 19 {
					t.Errorf("seed %d: %d of %d scanners are caught", seed+1, s.caught, s.clients)
				}
				if v := result["visitors"]; v.ratio > 0.002 {
					t.Errorf("seed %d: %.2f %% of what visitors ask for is refused", seed+1, 100*v.ratio)
				}
			}
		})
	}
}

// probes are what scanners ask for, as they are sent: programs that the site does not run, secrets, and
// traversals in several encodings.
var probes = []string{
	"/wp-login.php", "/xmlrpc.php", "/wp-admin/setup-config.php", "/phpmyadmin/index.php", "/pma/", "/manager/html", "/solr/admin/cores", "/shell.php", "/alfa.php", "/wso.php",
	"/vendor/phpunit/phpunit/src/Util/PHP/eval-stdin.php", "/.env", "/.git/config", "/cgi-bin/.%2e/.%2e/.%2e/bin/sh", "/%2e%2e/%2e%2e/etc/passwd", "/index.php?lang=../../../tmp/x",
	"/boaform/admin/formLogin", "/actuator/env", "/login.action", "/autodiscover/autodiscover.json?a=b@c/mapi/nspi", "/old/index.php", "/admin.php", "/config.php", "/adminer.php",
}

// Clients that ask much or are often refused by the site, and attack nobody, are served: a monitor of 50 requests a
// second, an application whose token has expired, the edges of a network with a scanner behind one of
// them, and offices of any size.
func TestBusyAndUnluckyClientsAreServed(t *testing.T) {
	day := dayOf(5, map[string]func(*generator){
		"monitor": func(g *generator) {
			a := g.client()
			for i := range 50 * 600 {
				g.add(day.Add(time.Duration(i)*20*time.Millisecond), a, "GET", "/health", 200, "monitor/1")
			}
		},
		"expired token": func(g *generator) {
			for range 5 {
				a, at := g.client(), g.between(1, 20)
				for range 300 {
					g.add(at, a, "POST", "/api/collect", 403, "App/3")
					at = at.Add(2 * time.Second)
				}
			}
		},
		"edges": func(g *generator) {
			for edge := range 4 {
				a := g.named(netip.AddrFrom4([4]byte{172, 71, 10, byte(edge)}))
				for range 200 {
					g.reads(g.between(0, 23), a, 3)
				}
				for i, p := range probes {
					g.add(day.Add(time.Duration(5+i)*time.Minute), a, "GET", p, 404, browser)
				}
			}
		},
		"offices": func(g *generator) {
			for _, people := range []int{20, 80, 200, 500} {
				a := g.client()
				for range people {
					g.reads(g.between(8, 18), a, 1+g.IntN(5))
				}
			}
		},
	})
	for name, c := range refusedOf(t, day, "website") {
		if c.ratio > 0 {
			t.Errorf("%s: %.3f %% is refused, of %d of %d clients", name, 100*c.ratio, c.caught, c.clients)
		}
	}
}

// Scrapers of a code forge with a few requests of each address are refused by their networks, and the
// people who read it are not.
func TestScrapersWithManyAddressesAreRefused(t *testing.T) {
	deep := func(g *generator) string {
		return fmt.Sprintf("/team/project/%s/%x", []string{"commit", "blame/main/file", "compare", "raw/branch/main"}[g.IntN(4)], g.Uint32())
	}
	day := dayOf(9, map[string]func(*generator){
		"attack: clouds": func(g *generator) { // 720 addresses in 12 networks of clouds
			for i := range 720 {
				a := g.named(netip.AddrFrom4([4]byte{45, byte(60 + i%12), 7, byte(i / 12)}))
				for range 40 {
					g.add(g.between(0, 24), a, "GET", deep(g), 200, browser)
				}
			}
		},
		"attack: wide": func(g *generator) { // 3,000 addresses of one /16, a few requests each
			for i := range 3000 {
				a := g.named(netip.AddrFrom4([4]byte{47, 82, byte(i % 250), byte(i / 250)}))
				for range 3 {
					g.add(g.between(6, 18), a, "GET", deep(g), 200, browser)
				}
			}
		},
		"people": func(g *generator) {
			for i := range 300 {
				a, at := g.named(netip.AddrFrom4([4]byte{byte(80 + i%20), byte(i % 37), byte(i), 9})), g.between(7, 20)
				for range 5 + g.IntN(40) {
					g.add(at, a, "GET", deep(g), 200, browser)
					at = at.Add(20*time.Second + g.upTo(2*time.Minute))
				}
			}
		},
	})
	result := refusedOf(t, day, "website", "scraping")
	for _, name := range []string{"attack: clouds", "attack: wide"} {
		if c := result[name]; c.ratio < 0.7 {
			t.Errorf("%s: %.1f %% is refused", name, 100*c.ratio)
		}
	}
	if c := result["people"]; c.ratio > 0.005 {
		t.Errorf("people: %.2f %% is refused", 100*c.ratio)
	}
}
