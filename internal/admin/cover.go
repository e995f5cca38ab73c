package admin

import (
	"net/netip"

	"github.com/stint-dev/stint/internal/keys"
)

// cover finds quickly which of a million patterns are covered by one of a set of patterns.
type cover struct {
	every    bool
	networks map[netip.Prefix]bool
	// v4 and v6 are the lengths of networks, to look each up.
	v4, v6 map[int]bool
	exact  map[string]bool
	prefix []keys.Pattern // few: compared one by one
}

func newCover() *cover {
	return &cover{networks: map[netip.Prefix]bool{}, v4: map[int]bool{}, v6: map[int]bool{}, exact: map[string]bool{}}
}

func (c *cover) add(p keys.Pattern) {
	switch p.Kind() {
	case keys.Any:
		c.every = true
	case keys.Prefix:
		c.prefix = append(c.prefix, p)
	case keys.Exact, keys.FromOrigin:
		c.exact[p.String()] = true
	case keys.Network:
		network, _ := p.Network()
		c.networks[network] = true
		c.lengths(network.Addr())[network.Bits()] = true
	}
}

func (c *cover) lengths(of netip.Addr) map[int]bool {
	if of.Is4() {
		return c.v4
	}
	return c.v6
}

// covers reports whether one of the patterns selects all that p does.
func (c *cover) covers(p keys.Pattern) bool {
	if c.every || c.exact[p.String()] {
		return true
	}
	if network, is := p.Network(); is {
		for bits := range c.lengths(network.Addr()) {
			if bits > network.Bits() {
				continue
			}
			if around, err := network.Addr().Prefix(bits); err == nil && c.networks[around] {
				return true
			}
		}
	}
	for _, prefix := range c.prefix {
		if prefix.Covers(p) {
			return true
		}
	}
	return false
}
