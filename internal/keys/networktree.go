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
	bits    string // for each network, its bitsID
	entries []*entry[V]
	first   [1]*entry[V] // the memory of entries if there is only one, as in most groups
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

// find returns the group of a network and the network's index in it, which is negative if the
// network is not there.
func (t *networkTree[V]) find(network netip.Prefix) (*networkGroup[V], int) {
	at := placeOf(network)
	group := t.family(network).get(string(at.bytes[:at.whole]))
	if group == nil {
		return nil, -1
	}
	return group, strings.IndexByte(group.bits, at.id())
}

func (t *networkTree[V]) get(network netip.Prefix) *entry[V] {
	group, index := t.find(network)
	if index < 0 {
		return nil
	}
	return group.entries[index]
}

func (t *networkTree[V]) set(e *entry[V]) {
	group, index := t.find(e.pattern.network)
	if index >= 0 {
		group.entries[index] = e
		return
	}
	at := placeOf(e.pattern.network)
	if group == nil {
		group = new(networkGroup[V])
		group.entries = group.first[:0]
		t.family(e.pattern.network).set(string(at.bytes[:at.whole]), group)
	}
	group.bits += string([]byte{at.id()})
	if group.entries = append(group.entries, e); len(group.entries) == 2 {
		group.first[0] = nil // otherwise it would keep a deleted entry alive
	}
	t.size++
}

func (t *networkTree[V]) delete(network netip.Prefix) bool {
	group, index := t.find(network)
	if index < 0 {
		return false
	}
	group.bits = group.bits[:index] + group.bits[index+1:]
	group.entries = slices.Delete(group.entries, index, index+1)
	if len(group.entries) == 0 {
		at := placeOf(network)
		t.family(network).delete(string(at.bytes[:at.whole]))
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
			if index := strings.IndexByte(group.value.bits, bitsID(at.bytes[group.length], n)); index >= 0 {
				found = append(found, group.value.entries[index])
			}
		}
	}
	return found
}
