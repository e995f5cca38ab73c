package bouncers

import (
	"cmp"
	"net/netip"
	"slices"
)

// holes are exempt networks, sorted and disjoint.
type holes []netip.Prefix

// everyAddress are the networks that "*" and "ip:*" select.
var everyAddress = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

func newHoles(networks []netip.Prefix) holes {
	slices.SortFunc(networks, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	var all holes
	for _, n := range networks {
		if last := len(all) - 1; last < 0 || !all[last].Overlaps(n) {
			all = append(all, n)
		}
	}
	return all
}

// overlaps reports whether any address of a network is exempt, and whether all are.
func (h holes) overlaps(network netip.Prefix) (some, all bool) {
	// Networks are nested or disjoint. So only the first hole at or after the network's address
	// and the one before it can overlap.
	i, _ := slices.BinarySearchFunc(h, network.Addr(), func(p netip.Prefix, a netip.Addr) int { return p.Addr().Compare(a) })
	for _, n := range []int{i - 1, i} {
		if n >= 0 && n < len(h) && h[n].Overlaps(network) {
			return true, h[n].Bits() <= network.Bits()
		}
	}
	return false, false
}

// cut returns the fewest networks that cover a network without its holes.
func (h holes) cut(network netip.Prefix) []netip.Prefix {
	some, all := h.overlaps(network)
	switch {
	case all:
		return nil
	case !some:
		return []netip.Prefix{network}
	}
	low, high := halves(network)
	return append(h.cut(low), h.cut(high)...)
}

// around returns the largest part of a network that contains an address and no hole, false if
// the address is exempt.
func (h holes) around(network netip.Prefix, a netip.Addr) (netip.Prefix, bool) {
	for bits := network.Bits(); bits <= a.BitLen(); bits++ {
		part, _ := a.Prefix(bits) // bits is within the address's length
		if some, _ := h.overlaps(part); !some {
			return part, true
		}
	}
	return netip.Prefix{}, false
}

// halves returns the two halves of a network that is more than one address.
func halves(network netip.Prefix) (low, high netip.Prefix) {
	bits := network.Bits()
	bytes := network.Addr().AsSlice()
	bytes[bits/8] |= 0x80 >> (bits % 8)
	second, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(network.Addr(), bits+1), netip.PrefixFrom(second, bits+1)
}

// parentOf returns the network of twice the size, false for every address.
func parentOf(network netip.Prefix) (netip.Prefix, bool) {
	if network.Bits() == 0 {
		return network, false
	}
	return netip.PrefixFrom(network.Addr(), network.Bits()-1).Masked(), true
}
