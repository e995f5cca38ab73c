package keys

import (
	"net/netip"
	"slices"
	"strings"
)

// networkTree stores entries by network and finds the networks that contain an address or a
// network. A lookup of all of them allocates nothing, which the routing tables in libraries do
// not offer. The zero value is empty.
type networkTree[V any] struct {
	v4, v6 prefixTree[networkGroup[V]]
	size   int
}

// networkGroup has the networks with the same whole bytes. They differ only in the up to seven
// bits after these.
type networkGroup[V any] struct {
	first   *entry[V]
	firstID byte // the bitsID of first
	// more has the others, and is nil in most groups.
	more *moreNetworks[V]
}

type moreNetworks[V any] struct {
	bits    string // for each network, its bitsID
	entries []*entry[V]
}

// get returns the entry with a bitsID, nil if there is none.
func (g *networkGroup[V]) get(id byte) *entry[V] {
	if g.firstID == id {
		return g.first
	}
	if g.more == nil {
		return nil
	}
	if at := strings.IndexByte(g.more.bits, id); at >= 0 {
		return g.more.entries[at]
	}
	return nil
}

// set stores an entry and reports whether its bitsID is new. No bitsID is 0.
func (g *networkGroup[V]) set(id byte, e *entry[V]) bool {
	if g.firstID == 0 || g.firstID == id {
		isNew := g.firstID == 0
		g.first, g.firstID = e, id
		return isNew
	}
	if g.more == nil {
		g.more = &moreNetworks[V]{}
	}
	if at := strings.IndexByte(g.more.bits, id); at >= 0 {
		g.more.entries[at] = e
		return false
	}
	g.more.bits += string([]byte{id})
	g.more.entries = append(g.more.entries, e)
	return true
}

// delete removes the entry with a bitsID, which is there.
func (g *networkGroup[V]) delete(id byte) {
	if g.firstID != id {
		at := strings.IndexByte(g.more.bits, id)
		g.more.bits = g.more.bits[:at] + g.more.bits[at+1:]
		g.more.entries = slices.Delete(g.more.entries, at, at+1)
	} else if g.first, g.firstID = nil, 0; g.more != nil {
		last := len(g.more.bits) - 1
		g.first, g.firstID = g.more.entries[last], g.more.bits[last]
		g.more.bits, g.more.entries = g.more.bits[:last], slices.Delete(g.more.entries, last, last+1)
	}
	if g.more != nil && len(g.more.bits) == 0 {
		g.more = nil
	}
}

// appendTo appends all entries.
func (g *networkGroup[V]) appendTo(all []*entry[V]) []*entry[V] {
	all = append(all, g.first)
	if g.more != nil {
		all = append(all, g.more.entries...)
	}
	return all
}

// bitsID returns a number for the first n bits of b, where n is 0 to 7: a leading 1 followed by
// those bits.
func bitsID(b byte, n int) byte { return 1<<n | b>>(8-n) }

// place is the position of a network in the tree.
type place struct {
	bytes [17]byte // the address, followed by a zero
	whole int      // number of whole bytes that the network fixes
	rest  int      // number of bits that it fixes in the next byte
}

func placeOf(network netip.Prefix) (at place) {
	if addr := network.Addr(); addr.Is4() {
		four := addr.As4()
		copy(at.bytes[:], four[:])
	} else {
		sixteen := addr.As16()
		copy(at.bytes[:], sixteen[:])
	}
	at.whole, at.rest = network.Bits()/8, network.Bits()%8
	return at
}

func (at *place) id() byte { return bitsID(at.bytes[at.whole], at.rest) }

func (t *networkTree[V]) family(network netip.Prefix) *prefixTree[networkGroup[V]] {
	if network.Addr().Is4() {
		return &t.v4
	}
	return &t.v6
}

func (t *networkTree[V]) get(network netip.Prefix) *entry[V] {
	at := placeOf(network)
	group := t.family(network).get(string(at.bytes[:at.whole]))
	if group == nil {
		return nil
	}
	return group.get(at.id())
}

func (t *networkTree[V]) set(e *entry[V]) {
	at, tree := placeOf(e.pattern.network), t.family(e.pattern.network)
	group := tree.get(string(at.bytes[:at.whole]))
	if group == nil {
		group = new(networkGroup[V])
		tree.set(string(at.bytes[:at.whole]), group)
	}
	if group.set(at.id(), e) {
		t.size++
	}
}

func (t *networkTree[V]) delete(network netip.Prefix) bool {
	at, tree := placeOf(network), t.family(network)
	group := tree.get(string(at.bytes[:at.whole]))
	if group == nil || group.get(at.id()) == nil {
		return false
	}
	if group.delete(at.id()); group.first == nil {
		tree.delete(string(at.bytes[:at.whole]))
	}
	t.size--
	return true
}

// around appends every network that contains the given one, the longest prefix first.
func (t *networkTree[V]) around(network netip.Prefix, found []*entry[V]) []*entry[V] {
	at := placeOf(network)
	var nested [17]match[networkGroup[V]]
	groups := t.family(network).matching(string(at.bytes[:at.whole]), nested[:0])
	for i := len(groups) - 1; i >= 0; i-- {
		group := groups[i]
		for n := min(7, network.Bits()-8*group.length); n >= 0; n-- {
			if e := group.value.get(bitsID(at.bytes[group.length], n)); e != nil {
				found = append(found, e)
			}
		}
	}
	return found
}
