package proxies

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

const chrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.0.0 Safari/537.36"

func browser(i int) string { return fmt.Sprintf(chrome, 100+i) }

func crowdKey(t *testing.T, text string) keys.Key {
	t.Helper()
	k, err := keys.Parser{}.Key(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestCrowds(t *testing.T) {
	start := time.Unix(1_780_000_000, 0)
	browsers := func(n int) (agents []string) {
		for i := range n {
			agents = append(agents, browser(i))
		}
		return agents
	}
	attacks := func(suffix string) (agents []string) {
		for i := range 50 {
			agents = append(agents, browser(i)+suffix)
		}
		return agents
	}
	for _, test := range []struct {
		name, key string
		agents    []string
		want      bool
	}{
		{"a proxy", "ip:10.213.10.16", browsers(crowdBrowsers), true},
		{"the gateway of a container network", "ip:172.17.0.1", browsers(crowdBrowsers), true},
		{"loopback", "ip:127.0.0.1", browsers(crowdBrowsers), true},
		{"a private network of IPv6", "ip:fd12::1", browsers(crowdBrowsers), true},
		{"small letters, as conditions know agents", "ip:10.0.0.1", strings.Split(strings.ToLower(strings.Join(browsers(crowdBrowsers), "\n")), "\n"), true},
		{"a person with some browsers", "ip:10.0.0.1", append(browsers(crowdBrowsers-1), browsers(crowdBrowsers-1)...), false},
		{"an address of the internet", "ip:203.0.113.9", browsers(50), false},
		{"no address", "user:10.0.0.1", browsers(50), false},
		{"attacks in the agent", "ip:10.0.0.1", slices.Concat(attacks("'"), attacks("<script>"), attacks("${jndi}"), attacks(strings.Repeat("a", maxBrowser))), false},
		{"programs", "ip:10.0.0.1", []string{"curl/8", "curl/7", "wget", "Go-http-client/1.1", "python-requests/2", "", "Mozilla"}, false},
		{"a health check", "ip:172.31.0.112", []string{"ELB-HealthChecker/2.0"}, true},
		{"a health check from the internet", "ip:203.0.113.9", []string{"ELB-HealthChecker/2.0"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var found []string
			c := &Crowds{OnFound: func(k keys.Key) { found = append(found, k.String()) }}
			k := crowdKey(t, test.key)
			for range 2 {
				for _, agent := range test.agents {
					c.Note(k, agent, start)
				}
			}
			if got := c.Has(k, start); got != test.want {
				t.Errorf("Has = %t, want %t", got, test.want)
			}
			if want := map[bool]int{true: 1}[test.want]; len(found) != want {
				t.Errorf("found %v, want %d times", found, want)
			}
		})
	}
}

func TestCrowdsLastWhileTheirBrowsersGoOn(t *testing.T) {
	found := 0
	c := &Crowds{OnFound: func(keys.Key) { found++ }}
	k := crowdKey(t, "ip:10.0.0.1")
	now := time.Unix(1_780_000_000, 0)
	for range 24 * 5 {
		now = now.Add(time.Hour)
		for i := range crowdBrowsers {
			c.Note(k, browser(i), now)
		}
		if !c.Has(k, now) {
			t.Fatal("a busy proxy is no longer a crowd")
		}
	}
	if found != 1 {
		t.Errorf("found %d times, want once", found)
	}
	for range 24 * 3 { // one person is left
		now = now.Add(time.Hour)
		c.Note(k, browser(0), now)
	}
	if c.Has(k, now) {
		t.Error("an address with one browser is still a crowd after three days")
	}
}

func TestCrowdsAreBounded(t *testing.T) {
	c := &Crowds{}
	now := time.Unix(1_780_000_000, 0)
	proxy := crowdKey(t, "ip:192.168.0.1")
	for i := range crowdBrowsers {
		c.Note(proxy, browser(i), now)
	}
	for i := range 3 * maxCrowds {
		c.Note(crowdKey(t, fmt.Sprintf("ip:10.0.%d.%d", i/256, i%256)), browser(0), now)
	}
	if len(c.seen) > maxCrowds {
		t.Errorf("%d addresses are watched, want at most %d", len(c.seen), maxCrowds)
	}
	if !c.Has(proxy, now) {
		t.Error("a crowd was forgotten for addresses that are none")
	}
}
