package firewall

import (
	"math"
	"net/netip"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// neverRefused are the addresses that no block may refuse: loopback, and those that IPv6
// needs to find its neighbours and its own address.
var neverRefused = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"),
	netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("::/128"),
}

// farFuture is after how long an expiry counts as permanent: the kernel knows no timeout
// much longer than that.
const farFuture = 100 * 365 * 24 * time.Hour

// entry is an active block or exemption.
type entry struct {
	pattern  keys.Pattern
	exempt   bool
	expires  time.Time // zero: permanent
	revision int64
}

func (e *entry) activeAt(t time.Time) bool { return e.expires.IsZero() || t.Before(e.expires) }

// entries are the blocks and exemptions that are known, by id.
type entries map[string]entry

// put takes over the state of a block or an exemption.
func (s entries) put(w *wire.Entry, revision int64) {
	pattern, err := (keys.Parser{}).Pattern(w.Pattern)
	if err != nil || !w.EndedAt.IsZero() || w.Scope != "" || w.Action != "" {
		// The server sends no text that is not a pattern. The kernel knows neither scopes nor
		// challenges: such a block would refuse everything.
		delete(s, w.ID)
		return
	}
	s[w.ID] = entry{pattern: pattern, exempt: w.Kind == kindExemption, expires: w.ExpiresAt.Time, revision: revision}
}

// apply takes over a change, unless a newer state is known. It returns false if the
// change does not contain the entries that it changed, as that of an import.
func (s entries) apply(change *wire.AuditEntry) bool {
	if change.Object != kindBlock && change.Object != kindExemption {
		return change.Object != "database" // the restore of a backup
	}
	before, after := snapshot(change.Before), snapshot(change.After)
	if before.ID == "" && after.ID == "" {
		return false
	}
	if before.ID != after.ID { // it was replaced
		delete(s, before.ID)
	}
	if after.ID != "" && s[after.ID].revision <= change.Revision {
		s.put(&after, change.Revision)
	}
	return true
}

// snapshot reads an entry as the audit contains it; its ID is empty if there is none.
func snapshot(text jsontext.Value) wire.Entry {
	var known struct {
		ID      string `json:"id"`
		Kind    string `json:"kind"`
		Pattern string `json:"pattern"`
		wire.EntryTerms
		ExpiresAt wire.Time `json:"expires_at"`
		EndedAt   wire.Time `json:"ended_at"`
	}
	if len(text) == 0 || json.Unmarshal(text, &known) != nil || known.Pattern == "" {
		return wire.Entry{}
	}
	return wire.Entry{ID: known.ID, Kind: known.Kind, Pattern: known.Pattern, EntryTerms: known.EntryTerms, ExpiresAt: known.ExpiresAt, EndedAt: known.EndedAt}
}

// The kinds of wire.Entry, which are also objects of wire.AuditEntry.
const (
	kindBlock     = "block"
	kindExemption = "exemption"
)

// Summary counts what the sets are computed from, and the ranges in them.
type Summary struct {
	Blocks, Exemptions int // active
	// NotAddresses counts blocks of other keys than addresses, and EveryAddress blocks
	// of all addresses. Neither are put in.
	NotAddresses, EveryAddress int
	// Origins counts blocks and exemptions of asn: and country: whose networks are not
	// known, and such blocks of too many networks. They are not put in.
	Origins    int
	IPv4, IPv6 int // ranges
}

// wanted returns what the sets must contain at a time, and when an exemption expires
// next, zero for never. It forgets what has expired.
func (s entries) wanted(now time.Time, never []netip.Prefix, origins NetworksOf) (ranges []Range, next time.Time, sum Summary) {
	var networks []network
	for _, list := range [][]netip.Prefix{neverRefused, never} {
		for _, p := range list {
			networks = append(networks, network{prefix: p.Masked(), exempt: true})
		}
	}
	for id, e := range s {
		if !e.activeAt(now) {
			delete(s, id)
			continue
		}
		if e.exempt {
			sum.Exemptions++
			if !e.expires.IsZero() && (next.IsZero() || e.expires.Before(next)) {
				next = e.expires
			}
		} else {
			sum.Blocks++
		}
		networks = append(networks, e.networks(now, origins, &sum)...)
	}
	ranges = rangesOf(networks)
	sum.IPv4 = len(ranges)
	for i := range ranges {
		if ranges[i].First.Is6() {
			sum.IPv4, sum.IPv6 = i, len(ranges)-i
			break
		}
	}
	return ranges, next, sum
}

// maxOriginNetworks is how many networks a block of an origin may have that is put in.
const maxOriginNetworks = 20_000

// NetworksOf returns the networks of an origin, false where they are more than limit or
// not known.
type NetworksOf func(o keys.Origin, limit int) ([]netip.Prefix, bool)

// networks returns the networks that e blocks or exempts.
func (e *entry) networks(now time.Time, origins NetworksOf, sum *Summary) []network {
	expires := e.expires
	if expires.Sub(now) > farFuture {
		expires = time.Time{}
	}
	if o, is := e.pattern.Origin(); is {
		return e.originNetworks(o, expires, origins, sum)
	}
	p, isNetwork := e.pattern.Network()
	every := !isNetwork && e.pattern.Covers(everyAddress) || isNetwork && p.Bits() == 0
	switch {
	case every && e.exempt && !isNetwork:
		return []network{{prefix: allIPv4, exempt: true}, {prefix: allIPv6, exempt: true}}
	case e.exempt && isNetwork:
		return []network{{prefix: p, exempt: true}}
	case e.exempt:
		return nil
	case every:
		sum.EveryAddress++
		return nil
	case !isNetwork:
		sum.NotAddresses++
		return nil
	}
	return []network{{prefix: p, expires: expires}}
}

// originNetworks returns the networks of an origin that e blocks or exempts. An exemption
// may have any number: what is exempt must not be refused.
func (e *entry) originNetworks(o keys.Origin, expires time.Time, origins NetworksOf, sum *Summary) (all []network) {
	limit := maxOriginNetworks
	if e.exempt {
		limit = math.MaxInt
	}
	var known bool
	var prefixes []netip.Prefix
	if origins != nil {
		prefixes, known = origins(o, limit)
	}
	if !known {
		sum.Origins++
	}
	for _, p := range prefixes {
		n := network{prefix: p, exempt: e.exempt}
		if !e.exempt {
			n.expires = expires
		}
		all = append(all, n)
	}
	return all
}

var (
	allIPv4      = netip.MustParsePrefix("0.0.0.0/0")
	allIPv6      = netip.MustParsePrefix("::/0")
	everyAddress = keys.NetworkPattern(allIPv4)
)
