package identity

import (
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

// KnownAddress is what an address is counted by: the canonical key of its
// network, as KnownAddressOf returns it.
type KnownAddress string

// KnownAddressOf returns what an address is counted by: an IPv6 client by its
// network.
func KnownAddressOf(from netip.Addr) KnownAddress {
	return KnownAddress(keys.Parser{}.AddressKey(from).String())
}

// Bounds of the addresses that are known for a user. The oldest give way.
const (
	MaxKnownAddresses = 20
	KnownAddressFor   = 90 * 24 * time.Hour // after the last login from there
)

// KnownLogin says that a user has logged in from an address.
type KnownLogin struct {
	User    string // the name
	Address KnownAddress
	Last    time.Time
}

// KnownLogins answers whether a user has logged in from an address lately.
type KnownLogins map[KnownPair]time.Time

// KnownPair is a user's name and an address.
type KnownPair struct {
	User    string
	Address KnownAddress
}

// KnownLoginsOf returns logins for lookup.
func KnownLoginsOf(all []KnownLogin) KnownLogins {
	known := make(KnownLogins, len(all))
	for _, l := range all {
		known[KnownPair{l.User, l.Address}] = l.Last
	}
	return known
}

// Has reports whether a pair is known at an instant.
func (k KnownLogins) Has(p KnownPair, at time.Time) bool {
	last, known := k[p]
	return known && at.Sub(last) < KnownAddressFor
}
