package proxies

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

// Crowds finds the internal addresses that many people share: a proxy that nobody named as trusted, or the
// gateway of a container network. Such an address shows crowdBrowsers different browsers within crowdWindow
// (a person has one to three), or asks as the health check of a load balancer. Addresses of the internet are
// never found, because an attacker may send another agent with each request. The zero value is ready for use, by several goroutines.
type Crowds struct {
	// OnFound is called with each address that is found, by the call of Note; nil for nothing.
	OnFound func(keys.Key)

	mu   sync.RWMutex
	seen map[keys.Key]*crowd
}

const (
	crowdBrowsers = 4
	crowdWindow   = 24 * time.Hour
	// maxCrowds bounds the addresses that are watched.
	maxCrowds = 1024
	// maxBrowser bounds an agent that is taken for a browser, in bytes.
	maxBrowser = 400
)

// crowd is what one address has shown.
type crowd struct {
	since    time.Time // when the window of browsers began
	browsers [crowdBrowsers]uint64
	n        int       // of browsers
	until    time.Time // when it stops being a crowd; zero for an address that was none
}

var agentSeed = maphash.MakeSeed()

// Note counts the agent of a request of k.
func (c *Crowds) Note(k keys.Key, agent string, now time.Time) {
	if !isInternal(k) {
		return
	}
	isCheck := slices.ContainsFunc(healthChecks, func(prefix string) bool { return hasPrefix(agent, prefix) })
	if (isCheck || isBrowser(agent)) && c.add(k, maphash.String(agentSeed, agent), isCheck, now) && c.OnFound != nil {
		c.OnFound(k)
	}
}

// add reports whether k becomes a crowd by an agent.
func (c *Crowds) add(k keys.Key, agent uint64, isCheck bool, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.seen[k]
	if of == nil {
		c.makeRoom(now)
		of = &crowd{since: now}
		c.seen[k] = of
	}
	if now.Sub(of.since) >= crowdWindow {
		of.since, of.n = now, 0
	}
	if of.n == crowdBrowsers || slices.Contains(of.browsers[:of.n], agent) {
		return false
	}
	of.browsers[of.n] = agent
	if of.n++; isCheck {
		of.n = crowdBrowsers
	}
	if of.n < crowdBrowsers {
		return false
	}
	isNew := !now.Before(of.until)
	of.until = of.since.Add(2 * crowdWindow) // so that the next window can confirm it
	return isNew
}

func isInternal(k keys.Key) bool {
	network, isAddress := k.Network()
	return isAddress && keys.IsInternal(network.Addr())
}

// makeRoom forgets addresses until there is room for one more, those that are no crowd first.
func (c *Crowds) makeRoom(now time.Time) {
	if c.seen == nil {
		c.seen = map[keys.Key]*crowd{}
	}
	for _, mayForget := range []func(*crowd) bool{
		func(of *crowd) bool { return !now.Before(of.until) },
		func(*crowd) bool { return true },
	} {
		for k, of := range c.seen {
			if len(c.seen) < maxCrowds {
				return
			}
			if mayForget(of) {
				delete(c.seen, k)
			}
		}
	}
}

// Has reports whether k is an internal address that many people share.
func (c *Crowds) Has(k keys.Key, now time.Time) bool {
	if !isInternal(k) {
		return false
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	of := c.seen[k]
	return of != nil && now.Before(of.until)
}

// isBrowser reports whether an agent reads like that of a browser. Scanners also try attacks in the agent,
// a different one with each request.
func isBrowser(agent string) bool {
	return len(agent) <= maxBrowser && hasPrefix(agent, "mozilla/5.0 (") && strings.IndexFunc(agent, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(" ;:./,()_+-", r))
	}) < 0
}

// healthChecks are how the agents of health checks begin, in small letters: of AWS's and Google's load
// balancers, and of the nodes of Kubernetes.
var healthChecks = []string{"elb-healthchecker/", "googlehc/", "kube-probe/"}

func hasPrefix(agent, prefix string) bool {
	return len(agent) >= len(prefix) && strings.EqualFold(agent[:len(prefix)], prefix)
}

const aboutCrowd = "This internal address has shown four different browsers within a day, or the health check of a load balancer, so that it is probably a proxy with many people behind it: it gets no points of evidence and no automatic blocks. Trust it as a proxy, so that the visitors' own addresses are counted; see --trusted-proxies."

// AboutShared says of an address that many people share why it gets no points, for people.
func AboutShared(k keys.Key) string {
	if network, isAddress := k.Network(); isAddress && CDN(network.Addr()) != "" {
		return aboutEdge(CDN(network.Addr()))
	}
	return aboutCrowd
}
