package keys

import (
	"net/netip"
	"slices"
	"strings"
)

// networkTree keeps entries by network and finds those that hold an address or
// a network. It allocates nothing to look up every network around an address,
// which the routing tables in libraries do not offer. The zero value is empty.
type networkTree[V any] struct {
	v4, v6 prefixTree[shelf[V]]
	size   int
}

// shelf holds the networks whose whole bytes are the same: they differ in the
// up to seven bits behind.
type shelf[V any] struct {
	bits    string // of each network, its bitsID
	entries []*entry[V]
}

// bitsID numbers the first n bits of b, n being 0 to 7, by a leading 1 and
// those bits.
func bitsID(b byte, n int) byte { return 1<<n | b>>(8-n) }

// place is where a network belongs.
type place struct {
	bytes [17]byte // of its address, and a zero behind
	whole int      // how many of them the network fixes
	rest  int      // how many bits of the next one
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

func (t *networkTree[V]) family(network netip.Prefix) *prefixTree[shelf[V]] {
	if network.Addr().Is4() {
		return &t.v4
	}
	return &t.v6
}

// find returns the shelf of a network and the network's index on it, which is
// negative when it is not there.
func (t *networkTree[V]) find(network netip.Prefix) (*shelf[V], int) {
	at := placeOf(network)
	on := t.family(network).get(string(at.bytes[:at.whole]))
	if on == nil {
		return nil, -1
	}
	return on, strings.IndexByte(on.bits, at.id())
}

func (t *networkTree[V]) get(network netip.Prefix) *entry[V] {
	on, index := t.find(network)
	if index < 0 {
		return nil
	}
	return on.entries[index]
}

func (t *networkTree[V]) set(e *entry[V]) {
	on, index := t.find(e.pattern.network)
	if index >= 0 {
		on.entries[index] = e
		return
	}
	at := placeOf(e.pattern.network)
	if on == nil {
		on = &shelf[V]{}
		t.family(e.pattern.network).set(string(at.bytes[:at.whole]), on)
	}
	on.bits += string([]byte{at.id()})
	on.entries = append(on.entries, e)
	t.size++
}

func (t *networkTree[V]) delete(network netip.Prefix) bool {
	on, index := t.find(network)
	if index < 0 {
		return false
	}
	on.bits = on.bits[:index] + on.bits[index+1:]
	on.entries = slices.Delete(on.entries, index, index+1)
	if len(on.entries) == 0 {
		at := placeOf(network)
		t.family(network).delete(string(at.bytes[:at.whole]))
	}
	t.size--
	return true
}

// around appends every network that holds all of the given one, the longest
// first.
func (t *networkTree[V]) around(network netip.Prefix, found []*entry[V]) []*entry[V] {
	at := placeOf(network)
	var nested [17]match[shelf[V]]
	shelves := t.family(network).matching(string(at.bytes[:at.whole]), nested[:0])
	for i := len(shelves) - 1; i >= 0; i-- {
		on := shelves[i]
		for n := min(7, network.Bits()-8*on.length); n >= 0; n-- {
			if index := strings.IndexByte(on.value.bits, bitsID(at.bytes[on.length], n)); index >= 0 {
				found = append(found, on.value.entries[index])
			}
		}
	}
	return found
}
