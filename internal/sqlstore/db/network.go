package db

import (
	"net/netip"

	"github.com/stint-dev/stint/internal/keys"
)

// NetworkBounds returns the first and last address of a network as 16 bytes each, so that the
// networks within another form one range; nil for other patterns.
func NetworkBounds(p keys.Pattern) (low, high []byte) {
	network, is := p.Network()
	if !is {
		return nil, nil
	}
	first := network.Masked().Addr().As16()
	last := first
	bits := network.Bits() + 128 - network.Addr().BitLen()
	for bit := bits; bit < 128; bit++ {
		last[bit/8] |= 1 << (7 - bit%8)
	}
	return first[:], last[:]
}

// MappedLow and MappedHigh are the bounds of IPv4 addresses among 16-byte addresses.
var MappedLow, MappedHigh = func() (low, high []byte) {
	return NetworkBounds(keys.NetworkPattern(netip.MustParsePrefix("0.0.0.0/0")))
}()
