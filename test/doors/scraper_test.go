package doors

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"html"
	"io"
	"math/bits"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// guest is a client with an address of its own, among those of the loopback interface.
type guest struct {
	site   *site
	client *http.Client
	cookie string // the pass
	solved int    // challenges
}

func (s *site) guest(address string) *guest {
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &guest{site: s, client: &http.Client{CheckRedirect: keepAlive.CheckRedirect, Transport: &http.Transport{DialContext: from.DialContext}}}
}

func (g *guest) leave() { g.client.CloseIdleConnections() }

// get asks for a page as a browser does.
func (g *guest) get(target string) (reply, error) {
	q, err := http.NewRequestWithContext(context.Background(), http.MethodGet, g.site.url+target, http.NoBody)
	if err != nil {
		return reply{}, err
	}
	q.Header.Set("Accept", strings.TrimPrefix(browserAccepts, "Accept: "))
	if g.cookie != "" {
		q.Header.Set("Cookie", g.cookie)
	}
	answer, err := g.client.Do(q)
	if err != nil {
		return reply{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return reply{answer.StatusCode, answer.Header, string(text)}, err
}

var challengePage = regexp.MustCompile(`<a id="pass" href="([^"]+)" data-prefix="([^"]+)" data-difficulty="(\d{1,2})"`)

// visit asks for a page, and solves the challenge that it may get instead, as the page's script does.
func (g *guest) visit(target string) error {
	page, err := g.get(target)
	if err != nil {
		return err
	}
	if found := challengePage.FindStringSubmatch(page.body); found != nil {
		g.solved++
		difficulty, _ := strconv.Atoi(found[3])
		n := 0
		for ; ; n++ {
			if sum := sha256.Sum256([]byte(found[2] + strconv.Itoa(n))); bits.LeadingZeros32(binary.BigEndian.Uint32(sum[:])) >= difficulty {
				break
			}
		}
		next := html.UnescapeString(found[1]) + "&n=" + strconv.Itoa(n)
		for next != target {
			if page, err = g.get(next); err != nil {
				return err
			}
			if pass, _, _ := strings.Cut(page.header.Get("Set-Cookie"), ";"); pass != "" {
				g.cookie = pass
			}
			if next = page.header.Get("Location"); page.status != http.StatusSeeOther {
				break
			}
		}
		if page, err = g.get(target); err != nil {
			return err
		}
	}
	if page.status != http.StatusOK {
		return fmt.Errorf("%s is answered %d", target, page.status)
	}
	return nil
}

// Scrapers from 2,000 addresses of 40 networks, each asking for few pages, get less than a hundredth of
// what they ask for. At the same time 500 people behind the four addresses of carriers read what they
// want: each solves one challenge at most, three of them in a real browser. docs/CHALLENGE.md has the
// policies and the figures.
func TestScraperOfManyAddressesAndPeopleBehindCarriers(t *testing.T) {
	const networks, hosts, pages, carriers, people = 40, 50, 25, 4, 125
	s := start(t, gateways[0], 0, "--challenge-difficulty", "8")
	s.put("site", `{"match":["ip:*"],"rules":["100000/1h"]}`)
	s.put("products", `{"match":["ip:*"],"when":{"path":["/products/*"]},"rules":["10/1h distinct path"],"also":["net:/24 10/1h distinct path"],"on_limit":"challenge"}`)
	s.put("passes", `{"match":["pass:*"],"rules":["100/1s","1500/1m","20000/1h"]}`)

	var asked, got atomic.Int64
	var scraping, visiting sync.WaitGroup
	each := make(chan int)
	for range 16 {
		scraping.Go(func() {
			for i := range each {
				g := s.guest(fmt.Sprintf("127.1.%d.%d", i%networks, 1+i/networks))
				for n := range pages {
					answer, err := g.get(fmt.Sprintf("/products/%d", i*pages+n))
					if err != nil {
						t.Errorf("a scraper: %v", err)
						break
					}
					asked.Add(1)
					if answer.status == http.StatusOK {
						got.Add(1)
					}
				}
				g.leave()
			}
		})
	}
	scraping.Go(func() {
		defer close(each)
		for i := range networks * hosts {
			each <- i
		}
	})

	var read, solved atomic.Int64
	arriving := make(chan int)
	for range 16 {
		visiting.Go(func() {
			for i := range arriving {
				g := s.guest(fmt.Sprintf("127.%d.0.1", []int{0, 2, 3, 4}[i%carriers]))
				for _, target := range []string{"/", fmt.Sprintf("/products/%d", i), "/about", fmt.Sprintf("/products/%d", 7*i), fmt.Sprintf("/products/%d?colour=blue", 7*i)} {
					if err := g.visit(target); err != nil {
						t.Errorf("a person: %v", err)
						break
					}
					read.Add(1)
				}
				if g.solved > 1 {
					t.Errorf("a person solved %d challenges", g.solved)
				}
				solved.Add(int64(g.solved))
				g.leave()
			}
		})
	}
	visiting.Go(func() {
		defer close(arriving)
		for i := range carriers * people {
			arriving <- i
		}
	})
	visiting.Wait()
	for i := range 3 { // at 127.0.0.1, the address of the first carrier
		b := visitor(t)
		b.open(s.url + fmt.Sprintf("/products/browser-%d", i))
		b.shows("the browser", "the application")
	}
	scraping.Wait()
	share := float64(got.Load()) / float64(asked.Load())
	t.Logf("the scraper got %d of %d pages (%.2f %%); %d people read %d pages and solved %d challenges", got.Load(), asked.Load(), 100*share, carriers*people, read.Load(), solved.Load())
	if share >= 0.01 {
		t.Errorf("the scraper got %.2f %% of what it asked for, want less than 1 %%", 100*share)
	}
	if solved.Load() < carriers*people/2 {
		t.Errorf("only %d people were challenged: the test does not show what a challenge costs them", solved.Load())
	}
}
