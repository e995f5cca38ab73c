package admin

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
)

// union collects networks and merges them into the fewest that select the same addresses. So
// 0.0.0.0/1 and 128.0.0.0/1 together are recognized as all addresses.
type union struct{ parts []unionPart }

// unionPart is a network of a union.
type unionPart struct {
	network netip.Prefix
	line    int  // line of its first row
	rows    int  // number of its rows
	joined  bool // no row names it: it is the sum of smaller networks
}

func (u *union) add(network netip.Prefix, line int) {
	u.parts = append(u.parts, unionPart{network: network, line: line, rows: 1})
}

// merge merges the added networks.
func (u *union) merge() {
	slices.SortFunc(u.parts, func(a, b unionPart) int {
		return cmp.Or(a.network.Addr().Compare(b.network.Addr()), cmp.Compare(a.network.Bits(), b.network.Bits()), cmp.Compare(a.line, b.line))
	})
	merged := u.parts[:0]
	for _, part := range u.parts {
		if n := len(merged); n > 0 && merged[n-1].network.Overlaps(part.network) { // it contains part, because of the order
			merged[n-1].take(part)
			continue
		}
		merged = append(merged, part)
		for n := len(merged); n > 1; n = len(merged) {
			around, siblings := parent(merged[n-2].network, merged[n-1].network)
			if !siblings {
				break
			}
			merged[n-2].take(merged[n-1])
			merged[n-2].network, merged[n-2].joined = around, true
			merged = merged[:n-1]
		}
	}
	u.parts = merged
}

func (p *unionPart) take(other unionPart) {
	p.rows += other.rows
	p.line = min(p.line, other.line)
}

// parent returns the network of which a and b are the halves.
func parent(a, b netip.Prefix) (netip.Prefix, bool) {
	if a.Bits() != b.Bits() || a.Bits() == 0 || a.Addr().Is4() != b.Addr().Is4() {
		return netip.Prefix{}, false
	}
	around := netip.PrefixFrom(a.Addr(), a.Bits()-1).Masked()
	return around, around.Contains(b.Addr())
}

// addressRatio returns the ratio of its address space that a network contains.
func addressRatio(network netip.Prefix) float64 { return math.Ldexp(1, -network.Bits()) }
