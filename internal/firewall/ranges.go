package firewall

import (
	"net/netip"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
)

// Range is a range of addresses of one family that is refused. Both ends belong to it.
type Range struct {
	First, Last netip.Addr
	Expires     time.Time // zero: permanent
}

// activeAt reports whether r is refused at t.
func (r Range) activeAt(t time.Time) bool { return r.Expires.IsZero() || t.Before(r.Expires) }

// network is a network that is blocked until a time, or never refused.
type network struct {
	prefix  netip.Prefix
	expires time.Time // zero: permanent
	exempt  bool      // expires has no meaning then
}

// rangesOf returns which addresses are refused, and until when: those of blocked networks
// that are not exempt. An address of several blocks is refused until the last of them
// expires. The ranges are in order, IPv4 first; no two share an address, and neighbours
// with the same expiry are one range.
func rangesOf(networks []network) []Range {
	slices.SortFunc(networks, func(a, b network) int {
		if order := a.prefix.Addr().Compare(b.prefix.Addr()); order != 0 {
			return order
		}
		return a.prefix.Bits() - b.prefix.Bits()
	})
	var s sweep
	for _, n := range networks {
		s.enter(n)
	}
	s.leaveBefore(netip.Addr{})
	return s.ranges
}

// sweep visits networks in order. Two networks are disjoint or one contains the other, so
// those that contain the current address form a stack.
type sweep struct {
	ranges []Range
	open   []openNetwork
	at     netip.Addr // the first address that no range has been decided for
}

// openNetwork is a network that contains the current address, with what applies to its
// addresses: its own state combined with that of the networks around it.
type openNetwork struct {
	last    netip.Addr
	expires time.Time
	exempt  bool
}

func (s *sweep) enter(n network) {
	first, last := n.prefix.Addr(), lastOf(n.prefix)
	s.leaveBefore(first)
	inner := openNetwork{last: last, expires: n.expires, exempt: n.exempt}
	if depth := len(s.open); depth > 0 {
		outer := s.open[depth-1]
		if s.at.Compare(first) < 0 {
			s.emit(first.Prev(), outer)
		}
		if outer.exempt || !n.exempt && blocks.IsLater(outer.expires, inner.expires) {
			inner.expires, inner.exempt = outer.expires, outer.exempt
		}
	}
	s.at = first
	s.open = append(s.open, inner)
}

// leaveBefore closes the networks that end before first, all of them for the zero Addr.
func (s *sweep) leaveBefore(first netip.Addr) {
	for len(s.open) > 0 {
		inner := s.open[len(s.open)-1]
		if first.IsValid() && inner.last.Compare(first) >= 0 {
			return
		}
		// There is no address behind the last one of a family.
		if s.at.IsValid() && s.at.Compare(inner.last) <= 0 {
			s.emit(inner.last, inner)
			s.at = inner.last.Next()
		}
		s.open = s.open[:len(s.open)-1]
	}
}

// emit decides the addresses up to last.
func (s *sweep) emit(last netip.Addr, n openNetwork) {
	if n.exempt {
		return
	}
	if count := len(s.ranges); count > 0 {
		before := &s.ranges[count-1]
		if before.Last.Next() == s.at && before.Expires.Equal(n.expires) {
			before.Last = last
			return
		}
	}
	s.ranges = append(s.ranges, Range{First: s.at, Last: last, Expires: n.expires})
}

// lastOf returns the last address of a network.
func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes) // 4 or 16 bytes never fail
	return last
}

// difference returns what must be removed from current and added to it to make it wanted.
// Both are in order. A range whose expiry differs by more than tolerance is removed and
// added.
func difference(current, wanted []Range, tolerance time.Duration) (remove, add []Range) {
	for len(current) > 0 && len(wanted) > 0 {
		c, w := current[0], wanted[0]
		switch order := c.First.Compare(w.First); {
		case order < 0:
			remove, current = append(remove, c), current[1:]
		case order > 0:
			add, wanted = append(add, w), wanted[1:]
		default:
			if c.Last != w.Last || !sameExpiry(c.Expires, w.Expires, tolerance) {
				remove, add = append(remove, c), append(add, w)
			}
			current, wanted = current[1:], wanted[1:]
		}
	}
	return append(remove, current...), append(add, wanted...)
}

func sameExpiry(a, b time.Time, tolerance time.Duration) bool {
	if a.IsZero() || b.IsZero() {
		return a.IsZero() == b.IsZero()
	}
	return a.Sub(b).Abs() <= tolerance
}
