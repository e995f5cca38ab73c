package answers

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

// shared is a store in memory, of two nodes in one process.
type shared struct{ rows map[string]StoredSite }

func (s *shared) Sites(context.Context) (all []StoredSite, err error) {
	for _, row := range s.rows {
		all = append(all, row)
	}
	return all, nil
}

func (s *shared) PutSites(_ context.Context, all []StoredSite) error {
	for _, row := range all {
		stored := s.rows[row.Host]
		stored.Host, stored.Known = row.Host, row.Known
		s.rows[row.Host] = stored
	}
	return nil
}

func sitesOn(s SiteStore, now *time.Time, lists func(string) bool) *Sites {
	return NewSites(SitesOptions{Lists: lists, Secret: func() []byte { return []byte("secret") }, Now: func() time.Time { return *now }, Store: s})
}

func (s *Sites) ask(host string, client byte, at time.Time, paths ...string) (probes int) {
	for _, p := range paths {
		a := Answer{Key: (keys.Parser{}).AddressKey(netip.AddrFrom4([4]byte{192, 0, 2, client})), Method: "GET", Path: p, Status: 200, Time: at.UnixMilli()}
		if slices.Contains(s.Learn(host, a), Probe) {
			probes++
		}
	}
	return probes
}

func (s *Sites) scan(host string, at time.Time) {
	s.ask(host, 200, at, "/.env", "/.git/config", "/.aws/credentials", "/backup.sql")
	s.ask(host, 201, at, "/.env", "/.ssh/id_rsa", "/.git/HEAD")
}

// What one node learns of a site the others know after an exchange, and what an operator says holds on all.
func TestNodesShareWhatSitesAnswer(t *testing.T) {
	store, now := &shared{map[string]StoredSite{}}, time.UnixMilli(1_000_000)
	exchange := func(all ...*Sites) {
		t.Helper()
		for _, s := range all {
			if err := s.Exchange(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	first, second := sitesOn(store, &now, nil), sitesOn(store, &now, nil)
	first.scan("shop.example", now)
	exchange(first, second)
	if n := second.ask("shop.example", 3, now, "/phpmyadmin/", "/manager/html"); n != 2 {
		t.Errorf("another node knows of %d probes, want 2", n)
	}
	if n := second.ask("blog.example", 3, now, "/phpmyadmin/", "/manager/html"); n != 0 {
		t.Errorf("of another site %d probes are known, want none", n)
	}
	for _, row := range store.rows {
		for _, c := range row.Known.Canaries {
			if len(c.Client) > 13 {
				t.Errorf("the client %s is kept", c.Client)
			}
		}
	}
	row := store.rows["shop.example"]
	row.Own = []string{"/phpmyadmin/*"}
	store.rows["shop.example"] = row
	exchange(first, second)
	if n := second.ask("shop.example", 3, now, "/phpmyadmin/", "/manager/html"); n != 1 {
		t.Errorf("with a path of its own there are %d probes, want 1", n)
	}
	now = now.Add(time.Hour)
	row = store.rows["shop.example"]
	row.Forgotten = now
	store.rows["shop.example"] = row
	exchange(second, first, second)
	for i, s := range []*Sites{first, second} {
		if n := s.ask("shop.example", 4, now, "/manager/html"); n != 0 {
			t.Errorf("node %d knows what was forgotten", i)
		}
	}
	if third := sitesOn(store, &now, nil); true {
		second.scan("shop.example", now)
		exchange(second, third)
		if all := third.Heard(); len(all) != 2 || !slices.Equal(all[1].Missing, []int{200}) || !slices.Equal(all[1].PathsOwn, row.Own) {
			t.Errorf("a new node knows %+v", all)
		}
	}
}

// Whoever invents hosts takes no room from sites of which something is known.
func TestInventedHostsForgetNoSite(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	s := sitesOn(&shared{map[string]StoredSite{}}, &now, nil)
	s.scan("shop.example", now)
	for i := range 10 * maxHosts {
		s.ask(fmt.Sprintf("%d.example", i), 9, now, "/")
	}
	if n := len(s.Heard()); n > maxHosts {
		t.Errorf("%d sites are known, want at most %d", n, maxHosts)
	}
	if n := s.ask("shop.example", 3, now, "/manager/html"); n != 1 {
		t.Errorf("%d probes are known of the site, want 1", n)
	}
	listed := sitesOn(&shared{map[string]StoredSite{}}, &now, func(host string) bool { return host == "shop.example" })
	listed.ask("other.example", 9, now, "/")
	listed.ask("shop.example", 9, now, "/")
	if all := listed.Heard(); len(all) != 2 || all[0].Host != "" || all[1].Host != "shop.example" {
		t.Errorf("got %+v, want the listed site and one for all others", all)
	}
	var none *Sites
	if got := none.Learn("", Answer{Path: "/a", Status: 404}); !slices.Equal(got, []string{"not_found"}) || none.Heard() != nil {
		t.Errorf("without learning: got the outcomes %v", got)
	}
}
