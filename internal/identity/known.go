package identity

import (
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

// KnownAddress is the canonical key of an address or of its network, as KnownAddressOf
// and KnownAddressesOf return it.
type KnownAddress string

// KnownAddressOf returns what an address is counted by: an IPv6 client by its
// network.
func KnownAddressOf(from netip.Addr) KnownAddress {
	return KnownAddress(keys.Parser{}.AddressKey(from).String())
}

// KnownAddressesOf returns what a login makes known: the address, and what it is counted
// by where that is its network.
func KnownAddressesOf(from netip.Addr) []KnownAddress {
	exact := KnownAddress(keys.Parser{IPv6Bits: 128}.AddressKey(from).String())
	if network := KnownAddressOf(from); network != exact {
		return []KnownAddress{exact, network}
	}
	return []KnownAddress{exact}
}

// Bounds of the addresses that are known for a user. The oldest give way.
const (
	MaxKnownAddresses = 40
	KnownAddressFor   = 90 * 24 * time.Hour // after the last login from there
)

// KnownLogin says that a user has logged in from an address.
type KnownLogin struct {
	User    string // the name
	Address KnownAddress
	Last    time.Time
}

// KnownLogins answers whether a user has logged in from an address recently. The user "" means
// any.
type KnownLogins map[KnownPair]time.Time

// KnownPair is a user's name and an address.
type KnownPair struct {
	User    string
	Address KnownAddress
}

// KnownLoginsOf returns logins for lookup.
func KnownLoginsOf(all []KnownLogin) KnownLogins {
	known := make(KnownLogins, 2*len(all))
	for _, l := range all {
		known[KnownPair{l.User, l.Address}] = l.Last
		if anyone := (KnownPair{Address: l.Address}); l.Last.After(known[anyone]) {
			known[anyone] = l.Last
		}
	}
	return known
}

// Has reports whether a pair is known at an instant.
func (k KnownLogins) Has(p KnownPair, at time.Time) bool {
	last, known := k[p]
	return known && at.Sub(last) < KnownAddressFor
}
