package geoip

import (
	"encoding/binary"
	"math"
	"net/netip"
	"slices"

	"github.com/stint-dev/stint/internal/keys"
)

// The families of addresses, by which spans are kept apart.
const (
	v4 = iota
	v6
)

// span is addresses of one origin, from start to end inclusive: the number of an IPv4
// address, or the first 64 bits of an IPv6 address. Longer networks are not distinguished.
type span struct {
	start, end uint64
	origin     keys.Origin
}

func positionOf(a netip.Addr) (family int, at uint64) {
	if a = a.Unmap(); a.Is4() {
		b := a.As4()
		return v4, uint64(binary.BigEndian.Uint32(b[:]))
	}
	b := a.As16()
	return v6, binary.BigEndian.Uint64(b[:8])
}

func spanOf(network netip.Prefix) (family int, s span) {
	family, s.start = positionOf(network.Masked().Addr())
	bits := widthOf(family) - network.Bits()
	if network.Addr().Is4In6() {
		bits = 128 - network.Bits()
	}
	s.end = s.start
	if bits > 0 {
		s.end += 1<<bits - 1
	}
	return family, s
}

func widthOf(family int) int { return []int{32, 64}[family] }

// appendSpan adds a span that begins behind the others, joined with the last where it can be.
func appendSpan(all []span, s span) []span {
	if n := len(all); n > 0 {
		last := &all[n-1]
		if s.start <= last.end { // a part of a /64 that is there already
			return all
		}
		if last.origin == s.origin && last.end+1 == s.start {
			last.end = s.end
			return all
		}
	}
	return append(all, s)
}

// merge returns the spans of a, with the parts of origins that a does not know from b.
func merge(a, b []span) []span {
	if len(a) == 0 || len(b) == 0 {
		return append(a, b...)
	}
	merged := make([]span, 0, len(a)+len(b))
	for i, j, at := 0, 0, uint64(0); ; {
		for i < len(a) && a[i].end < at {
			i++
		}
		for j < len(b) && b[j].end < at {
			j++
		}
		if i == len(a) && j == len(b) {
			return merged
		}
		s := span{start: math.MaxUint64, end: math.MaxUint64}
		for _, list := range [][]span{a[i:], b[j:]} {
			if len(list) > 0 {
				s.start = min(s.start, max(at, list[0].start))
			}
		}
		for _, list := range [][]span{a[i:], b[j:]} {
			switch {
			case len(list) == 0:
			case list[0].start <= s.start:
				s.end = min(s.end, list[0].end)
				if s.origin.ASN == 0 {
					s.origin.ASN = list[0].origin.ASN
				}
				if s.origin.Country == (keys.Country{}) {
					s.origin.Country = list[0].origin.Country
				}
			default:
				s.end = min(s.end, list[0].start-1)
			}
		}
		merged = appendSpan(merged, s)
		if s.end == math.MaxUint64 {
			return merged
		}
		at = s.end + 1
	}
}

// find returns the first span that ends at or behind a position, len(all) for none.
func find(all []span, at uint64) int {
	i, _ := slices.BinarySearchFunc(all, at, func(s span, at uint64) int {
		if s.end < at {
			return -1
		}
		return 1
	})
	return i
}

// networks calls do with the networks that a span consists of, until it returns false.
func (s span) networks(family int, do func(netip.Prefix) bool) bool {
	for at, width := s.start, widthOf(family); ; {
		size := 0 // of the network, in bits of addresses
		for size < width && at&(1<<(size+1)-1) == 0 && (size+1 == 64 || at+(1<<(size+1)-1) <= s.end) && at+(1<<(size+1)-1) >= at {
			size++
		}
		if !do(netip.PrefixFrom(addressOf(family, at), width-size)) {
			return false
		}
		last := at + (1<<size - 1)
		if last >= s.end {
			return true
		}
		at = last + 1
	}
}

func addressOf(family int, at uint64) netip.Addr {
	if family == v4 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(at))
		return netip.AddrFrom4(b)
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], at)
	return netip.AddrFrom16(b)
}

// add adds a span to the extent of an origin.
func add(extents map[keys.Origin]keys.Extent, o keys.Origin, family int, s span) {
	e := extents[o]
	s.networks(family, func(netip.Prefix) bool {
		e.Ranges++
		return true
	})
	if family == v4 {
		e.Addresses += s.end - s.start + 1
	} else {
		e.Networks6 += math.Ldexp(float64(s.end-s.start)+1, -32)
	}
	extents[o] = e
}
