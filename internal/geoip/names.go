package geoip

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/supervise"
)

// Bounds of what Names remembers and does at a time. Beyond them names are not looked up.
const (
	maxKnown   = 10_000
	maxWaiting = 1000
	workers    = 4
)

// How long an answer is believed, and how long one may take.
const (
	nameFor    = 6 * time.Hour
	failureFor = 10 * time.Minute
	lookupTime = 5 * time.Second
	pollTime   = 20 * time.Millisecond
)

// Resolver is what Names asks; *net.Resolver implements it.
type Resolver interface {
	LookupAddr(ctx context.Context, address string) (names []string, err error)
}

// Names looks up the names of addresses that people look at, and remembers them. Checks
// never ask it. It is safe for concurrent use; a nil one knows none.
type Names struct {
	resolver Resolver
	now      func() time.Time
	waiting  chan netip.Addr

	mu    sync.Mutex
	known map[netip.Addr]named
}

// named is the name of an address, "" for none.
type named struct {
	name    string
	until   time.Time
	waiting bool // in the queue or being looked up
}

// NewNames returns Names that ask a resolver, nil for the system's.
func NewNames(resolver Resolver, now func() time.Time) *Names {
	if resolver == nil {
		resolver = &net.Resolver{PreferGo: true}
	}
	return &Names{resolver: resolver, now: now, waiting: make(chan netip.Addr, maxWaiting), known: map[netip.Addr]named{}}
}

// Known returns the name of an address as its network claims it, "" where it has none or
// where it is not known yet: then Run looks it up. It returns at once.
func (n *Names) Known(a netip.Addr) string {
	name, _ := n.ask(a)
	return name
}

// ask is Known, and reports whether a look-up is under way.
func (n *Names) ask(a netip.Addr) (name string, waiting bool) {
	// The names of private addresses are not for a resolver outside of their network.
	if n == nil || !a.IsGlobalUnicast() || a.IsPrivate() {
		return "", false
	}
	now := n.now()
	n.mu.Lock()
	defer n.mu.Unlock()
	known, found := n.known[a]
	if known.waiting || found && now.Before(known.until) {
		return known.name, known.waiting
	}
	if len(n.known) >= maxKnown {
		maps.DeleteFunc(n.known, func(_ netip.Addr, known named) bool { return !known.waiting && !now.Before(known.until) })
	}
	if len(n.known) >= maxKnown { // some of them, and these are asked for again
		maps.DeleteFunc(n.known, func(_ netip.Addr, known named) bool { return !known.waiting && len(n.known) > maxKnown/2 })
	}
	if len(n.known) >= maxKnown {
		return known.name, false
	}
	select {
	case n.waiting <- a:
		n.known[a] = named{name: known.name, waiting: true}
		return known.name, true
	default:
		return known.name, false
	}
}

// Await is Known that waits for a look-up until ctx is done.
func (n *Names) Await(ctx context.Context, a netip.Addr) string {
	for {
		name, waiting := n.ask(a)
		if !waiting {
			return name
		}
		select {
		case <-ctx.Done():
			return name
		case <-time.After(pollTime):
		}
	}
}

// Run looks up what was asked for until ctx is done.
func (n *Names) Run(ctx context.Context) {
	if n == nil {
		return
	}
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			supervise.Run(ctx, "reverse DNS", func(ctx context.Context) {
				for {
					select {
					case <-ctx.Done():
						return
					case a := <-n.waiting:
						n.lookUp(ctx, a)
					}
				}
			})
		})
	}
	running.Wait()
}

func (n *Names) lookUp(ctx context.Context, a netip.Addr) {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	names, err := n.resolver.LookupAddr(ctx, a.String())
	found := named{until: n.now().Add(nameFor)}
	var dns *net.DNSError
	switch {
	case len(names) > 0:
		found.name = hostName(names[0])
	case err != nil && (!errors.As(err, &dns) || !dns.IsNotFound):
		found.until = n.now().Add(failureFor)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known[a] = found
}

// hostName returns a name of DNS without its last dot, "" for what is no name of a host:
// the owner of an address chooses its name.
func hostName(name string) string {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	isHost := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_'
	}
	if len(name) > 253 || strings.ContainsFunc(name, func(r rune) bool { return !isHost(r) }) {
		return ""
	}
	return name
}
