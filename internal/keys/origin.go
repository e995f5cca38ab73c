package keys

import (
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
)

// Origin is the origin of addresses: the autonomous system that announces them and the country in
// which they are used. A zero part is unknown.
type Origin struct {
	ASN     uint32
	Country Country
}

// Country is an ISO 3166-1 code of two capital letters, zero for none.
type Country [2]byte

// ParseCountry parses a code of two letters in either case.
func ParseCountry(text string) (Country, bool) {
	if len(text) != 2 {
		return Country{}, false
	}
	c := Country{text[0] &^ 0x20, text[1] &^ 0x20}
	is := func(b, given byte) bool { return b >= 'A' && b <= 'Z' && given < 0x80 }
	if !is(c[0], text[0]) || !is(c[1], text[1]) {
		return Country{}, false
	}
	return c, true
}

// String returns the code, "" for none.
func (c Country) String() string {
	if c == (Country{}) {
		return ""
	}
	return string(c[:])
}

// The kinds of the patterns that select addresses by their origin. No key may have such a kind: a
// block of that key would apply to all addresses of the origin.
const (
	asnKind     = "asn"
	countryKind = "country"
)

// Extent is the size of an origin, in the files of a Locator.
type Extent struct {
	Ranges    int     // number of ranges in its files
	Addresses uint64  // number of IPv4 addresses
	Networks6 float64 // IPv6, in units of a /32
}

// Locator knows the origins of addresses. Its methods are safe for concurrent use. Locate is fast
// enough for checks.
type Locator interface {
	Locate(netip.Addr) Origin
	// Extent returns the size of an origin with only one part set, false if no file has that
	// part.
	Extent(Origin) (Extent, bool)
	// Overlaps reports whether a network contains addresses of an origin with only one part set.
	Overlaps(Origin, netip.Prefix) bool
}

var locator atomic.Pointer[Locator]

// LocateBy makes all patterns of this process use l, and returns a function that ends that.
// Without a locator, patterns of origins select no address.
func LocateBy(l Locator) (end func()) {
	locator.Store(&l)
	return func() { locator.CompareAndSwap(&l, nil) }
}

// KnowsOrigins reports whether there is a locator.
func KnowsOrigins() bool { return locator.Load() != nil }

// OriginOf returns the origin of a key's address, zero if it is not known.
func OriginOf(k Key) Origin {
	if l := locator.Load(); l != nil && k.network.IsValid() {
		return (*l).Locate(k.network.Addr())
	}
	return Origin{}
}

// ExtentOf returns how much a pattern of an origin selects, false if that is not known.
func ExtentOf(p Pattern) (Extent, bool) {
	if l := locator.Load(); l != nil && p.kind == FromOrigin {
		return (*l).Extent(p.origin())
	}
	return Extent{}, false
}

// Overlap reports whether two patterns may select the same key. It returns true for an autonomous
// system and a country, without comparing their addresses.
func Overlap(p, q Pattern) bool {
	if p.Covers(q) || q.Covers(p) {
		return true
	}
	if q.kind == FromOrigin {
		p, q = q, p
	}
	switch {
	case p.kind != FromOrigin:
		return false // one of these covers the other, or they share no key
	case q.kind == FromOrigin:
		return (p.asn == 0) != (q.asn == 0)
	case q.kind == Network:
		l := locator.Load()
		return l != nil && (*l).Overlaps(p.origin(), q.network)
	}
	return false
}

// Origin returns the origin of a FromOrigin pattern.
func (p Pattern) Origin() (Origin, bool) { return p.origin(), p.kind == FromOrigin }

// OriginPatterns returns a pattern for each known part of an origin, the more specific first.
func OriginPatterns(o Origin) (all []Pattern) {
	if o.ASN != 0 {
		all = append(all, asnPattern(o.ASN))
	}
	if o.Country != (Country{}) {
		all = append(all, countryPattern(o.Country))
	}
	return all
}

func asnPattern(asn uint32) Pattern {
	return Pattern{kind: FromOrigin, text: asnKind + ":" + strconv.FormatUint(uint64(asn), 10), asn: asn}
}

func countryPattern(c Country) Pattern {
	return Pattern{kind: FromOrigin, text: countryKind + ":" + c.String(), country: c}
}

func isOriginKind(kind string) bool { return kind == asnKind || kind == countryKind }

// originPattern parses a pattern whose kind is one of the origin kinds.
func originPattern(text, kind, value string) (Pattern, error) {
	if kind == countryKind {
		c, is := ParseCountry(value)
		if !is {
			return Pattern{}, refuse("pattern", text, "has no country after \"country:\"; write its code of two letters, for example country:NL")
		}
		return countryPattern(c), nil
	}
	number := value
	if len(value) > 2 && strings.EqualFold(value[:2], "as") {
		number = value[2:]
	}
	asn, err := strconv.ParseUint(number, 10, 32)
	if err != nil || asn == 0 {
		return Pattern{}, refuse("pattern", text, "has no number of an autonomous system after \"asn:\"; write 1 to 4294967295, for example asn:64500")
	}
	return asnPattern(uint32(asn)), nil
}

func refuseOriginKey(text, kind string) error {
	return refuse("key", text, "has the kind %q, which only patterns have; a key names one caller, for example ip:203.0.113.7", kind)
}

// Selects reports whether o, which has only one part set, selects another origin.
func (o Origin) Selects(other Origin) bool {
	return o.ASN != 0 && o.ASN == other.ASN || o.Country != (Country{}) && o.Country == other.Country
}

// OriginCount counts patterns by what they need to know of an address.
type OriginCount struct{ ASNs, Countries int }

// Plus returns the sum of both.
func (c OriginCount) Plus(d OriginCount) OriginCount {
	return OriginCount{c.ASNs + d.ASNs, c.Countries + d.Countries}
}

// origins stores entries by the origins of their patterns.
type origins[V any] struct {
	asns      map[uint32]*entry[V]
	countries map[Country]*entry[V]
}

func (t *origins[V]) size() int { return len(t.asns) + len(t.countries) }

func (t *origins[V]) get(o Origin) *entry[V] {
	if o.ASN != 0 {
		return t.asns[o.ASN]
	}
	return t.countries[o.Country]
}

func (t *origins[V]) set(e *entry[V]) {
	if t.asns == nil {
		t.asns, t.countries = map[uint32]*entry[V]{}, map[Country]*entry[V]{}
	}
	if o := e.pattern.origin(); o.ASN != 0 {
		t.asns[o.ASN] = e
	} else {
		t.countries[o.Country] = e
	}
}

func (t *origins[V]) delete(o Origin) bool {
	found := t.get(o) != nil
	if o.ASN != 0 {
		delete(t.asns, o.ASN)
	} else {
		delete(t.countries, o.Country)
	}
	return found
}

// around appends the entries that select the address of k, the more specific first.
func (t *origins[V]) around(k Key, found []*entry[V]) []*entry[V] {
	o := OriginOf(k)
	if e := t.asns[o.ASN]; e != nil {
		found = append(found, e)
	}
	if e := t.countries[o.Country]; e != nil {
		found = append(found, e)
	}
	return found
}

func (t *origins[V]) all(page []*entry[V]) []*entry[V] {
	for _, e := range t.asns {
		page = append(page, e)
	}
	for _, e := range t.countries {
		page = append(page, e)
	}
	return page
}
