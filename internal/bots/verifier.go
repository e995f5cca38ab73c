package bots

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/supervise"
)

// Bounds of what a Verifier remembers and does at a time. Attackers choose from how many
// addresses they come: beyond the bounds addresses are not looked up, and so not exempt.
const (
	maxKnown   = 20_000
	maxWaiting = 1000
	workers    = 4
	maxNames   = 4 // of one address that are looked up
	// maxOfNetwork is how many of maxWaiting may be of one IPv4 /24 or IPv6 /48. An
	// attacker with a network chooses how many of its addresses it uses, and its servers of
	// DNS may never answer: crawlers of other networks must not wait for all of them.
	maxOfNetwork = 8
)

// How long an answer is believed.
const (
	verifiedFor = 24 * time.Hour
	strangerFor = 6 * time.Hour
	failureFor  = 10 * time.Minute // of DNS
	lookupTime  = 5 * time.Second
	// believedAnew is how long a crawler is believed again whose answer is too old and for
	// whose look-up there is no room.
	believedAnew = time.Minute
)

// Resolver is what a Verifier asks; *net.Resolver implements it.
type Resolver interface {
	LookupAddr(ctx context.Context, address string) (names []string, err error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options make a Verifier.
type Options struct {
	Operators []Operator // whose crawlers are recognised; none if empty
	Resolver  Resolver   // nil means the system's
	Now       func() time.Time
	// File keeps the verified crawlers, so that a restart does not count their misses; ""
	// for none. Log receives what is wrong with it; nil for nobody.
	File string
	Log  *slog.Logger
	// Store shares the verified crawlers with the other nodes; nil for a node that shares
	// none.
	Store Store
	// AwaitStore returns when Store can be used, or ctx is done; nil for at once.
	AwaitStore func(ctx context.Context)
}

// Crawler is a verified address.
type Crawler struct {
	Address  netip.Addr
	Operator string
	Name     string    // of the address in DNS
	Verified time.Time // when
}

// Verifier looks addresses up and remembers the answers. It never keeps its caller
// waiting: what is not known yet is looked up by Run. It is safe for concurrent use; a nil
// one recognises nobody.
type Verifier struct {
	o       Options
	waiting chan netip.Addr

	mu    sync.RWMutex
	known map[netip.Addr]answer
	of    map[netip.Prefix]int   // how many of a network are in the queue or being looked up
	fresh map[netip.Addr]Crawler // verified here and not in the store yet; nil for none

	changed, broken atomic.Bool // since the file was written; it could not be written
	unshared        atomic.Bool // the store could not be read or written
	received        time.Time   // when the store was read, by the one goroutine that does
}

// answer is what is known of an address. Operator is "" for a stranger's, and while it is
// looked up for the first time.
type answer struct {
	Crawler
	until   time.Time
	failed  bool // DNS did not answer
	waiting bool // in the queue or being looked up, and believed until that is over
}

// isStranger reports whether DNS has said that the address belongs to no operator.
func (a answer) isStranger() bool { return a.Operator == "" && !a.failed && !a.until.IsZero() }

func (a answer) believed(now time.Time) bool { return a.waiting || now.Before(a.until) }

// New returns a Verifier that knows what the file says, nil without operators.
func New(o Options) *Verifier {
	if len(o.Operators) == 0 {
		return nil
	}
	if o.Resolver == nil {
		o.Resolver = &net.Resolver{PreferGo: true}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	v := &Verifier{o: o, waiting: make(chan netip.Addr, maxWaiting), known: map[netip.Addr]answer{}, of: map[netip.Prefix]int{}}
	if o.File != "" {
		v.load()
	}
	return v
}

// Operators returns those whose crawlers are recognised.
func (v *Verifier) Operators() []Operator {
	if v == nil {
		return nil
	}
	return v.o.Operators
}

// OperatorOf returns the name of the operator whose crawler a key is known to be, "" for
// none. It looks nothing up.
func (v *Verifier) OperatorOf(k keys.Key) string {
	if v == nil {
		return ""
	}
	address, isAddress := addressOf(k)
	if !isAddress {
		return ""
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	if known := v.known[address]; known.believed(v.o.Now()) {
		return known.Operator
	}
	return ""
}

// Notice has the address of a key looked up, unless its answer is known and recent. It
// returns at once.
func (v *Verifier) Notice(k keys.Key) {
	if v == nil {
		return
	}
	address, isAddress := addressOf(k)
	if !isAddress || !isPublic(address) {
		return
	}
	now := v.o.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	known, found := v.known[address]
	if found && known.believed(now) {
		return
	}
	if !found && len(v.known) >= maxKnown && !v.forget(now) {
		return
	}
	switch {
	case v.queue(address):
		// A verified crawler stays one while it is looked up again, however long the queue.
		known.waiting = true
		v.known[address] = known
	case known.Operator != "":
		// Strangers keep the queue full: a crawler that was verified must not pay for it.
		known.until = now.Add(believedAnew)
		v.known[address] = known
	}
}

// queue has an address looked up, false where there is no room. v.mu is held.
func (v *Verifier) queue(address netip.Addr) bool {
	network := networkOf(address)
	if v.of[network] >= maxOfNetwork {
		return false
	}
	select {
	case v.waiting <- address:
		v.of[network]++
		return true
	default:
		return false
	}
}

// leave gives the room back that queue took.
func (v *Verifier) leave(address netip.Addr) {
	v.mu.Lock()
	defer v.mu.Unlock()
	network := networkOf(address)
	if v.of[network]--; v.of[network] <= 0 {
		delete(v.of, network)
	}
}

// networkOf returns the network by which addresses that wait are counted.
func networkOf(address netip.Addr) netip.Prefix {
	bits := 24
	if address.Is6() {
		bits = 48
	}
	return netip.PrefixFrom(address, bits).Masked()
}

// forget makes room: it removes the strangers that are no longer believed to be ones, if
// that is not enough all strangers, and last the crawlers to look up again. What waits
// stays, or it would be queued twice. It reports whether there is room.
func (v *Verifier) forget(now time.Time) bool {
	for _, goes := range []func(answer) bool{
		func(a answer) bool { return a.Operator == "" && !a.believed(now) },
		func(a answer) bool { return a.Operator == "" && !a.waiting },
		func(a answer) bool { return !a.believed(now) },
	} {
		if len(v.known) >= maxKnown {
			maps.DeleteFunc(v.known, func(_ netip.Addr, a answer) bool { return goes(a) })
		}
	}
	return len(v.known) < maxKnown
}

// Run looks up what was noticed until ctx is done, and then writes the file.
func (v *Verifier) Run(ctx context.Context) {
	if v == nil {
		return
	}
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			supervise.Run(ctx, "crawlers", func(ctx context.Context) {
				for {
					select {
					case <-ctx.Done():
						return
					case address := <-v.waiting:
						v.lookUp(ctx, address)
					}
				}
			})
		})
	}
	if v.o.File != "" {
		defer v.save()
		running.Go(func() { supervise.Run(ctx, "crawlers' file", v.keep) })
	}
	if v.o.Store != nil {
		running.Go(func() { supervise.Run(ctx, "sharing crawlers", v.share) })
	}
	running.Wait()
}

func (v *Verifier) lookUp(ctx context.Context, address netip.Addr) {
	defer v.leave(address)
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	operator, name, err := v.verify(ctx, address)
	now := v.o.Now()
	found := answer{Crawler: Crawler{Address: address, Operator: operator, Name: name, Verified: now}, until: now.Add(strangerFor)}
	isFresh := false
	switch {
	case operator != "":
		found.until, isFresh = now.Add(verifiedFor), true
	case err != nil:
		found.until, found.failed = now.Add(failureFor), true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	// A crawler that DNS does not answer about now stays one for the time of a failure.
	before := v.known[address]
	if err != nil && before.Operator != "" {
		before.until, before.waiting = found.until, false
		found = before
	}
	if before.Operator != "" || found.Operator != "" {
		v.changed.Store(true)
	}
	if isFresh {
		v.addFresh(found.Crawler)
	}
	v.known[address] = found
}

// verify returns the operator that an address belongs to and its name, "" for a
// stranger. The error is a failure of DNS.
func (v *Verifier) verify(ctx context.Context, address netip.Addr) (operator, name string, err error) {
	names, err := v.o.Resolver.LookupAddr(ctx, address.String())
	if err != nil && len(names) == 0 {
		return "", "", failure(err)
	}
	for _, name := range names[:min(len(names), maxNames)] {
		i := slices.IndexFunc(v.o.Operators, func(o Operator) bool { return o.has(name) })
		if i < 0 {
			continue
		}
		// Of both families, the answer that there is no address of the other one would take the
		// place of a failure.
		addresses, err := v.o.Resolver.LookupNetIP(ctx, familyOf(address), name)
		if err != nil && len(addresses) == 0 {
			return "", "", failure(err)
		}
		if slices.ContainsFunc(addresses, func(a netip.Addr) bool { return a.Unmap() == address }) {
			return v.o.Operators[i].Name, name, nil
		}
	}
	return "", "", nil
}

// familyOf returns the network of addresses of the same family, as resolvers name it.
func familyOf(address netip.Addr) string {
	if address.Is6() {
		return "ip6"
	}
	return "ip4"
}

// failure returns nil for the answer that there is no such name.
func failure(err error) error {
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return nil
	}
	return err
}

// Verified returns the verified crawlers, by operator and address.
func (v *Verifier) Verified() []Crawler {
	if v == nil {
		return nil
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	var all []Crawler
	for _, known := range v.known {
		if known.Operator != "" && known.believed(v.o.Now()) {
			all = append(all, known.Crawler)
		}
	}
	slices.SortFunc(all, func(a, b Crawler) int {
		return cmp.Or(cmp.Compare(a.Operator, b.Operator), a.Address.Compare(b.Address))
	})
	return all
}

// addressOf returns the address of a client's key.
func addressOf(k keys.Key) (netip.Addr, bool) {
	network, isNetwork := k.Network()
	if !isNetwork || !network.IsSingleIP() {
		return netip.Addr{}, false
	}
	return network.Addr().Unmap(), true
}

// isPublic reports whether an address can be that of a search engine. The names of others
// are not for a resolver outside of their network.
func isPublic(a netip.Addr) bool {
	return a.IsGlobalUnicast() && !a.IsPrivate()
}

// Waiting returns how many addresses wait to be looked up.
func (v *Verifier) Waiting() int {
	if v == nil {
		return 0
	}
	return len(v.waiting)
}
