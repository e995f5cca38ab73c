package operations

import (
	"context"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/geoip"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
)

// Origins is the use case of finding the origin of a key's address, from the files of
// --geoip-dir and by reverse DNS. The zero value finds nothing.
type Origins struct {
	Database *geoip.Database // nil without files
	Names    *geoip.Names    // nil if names are not looked up
}

// GeoFile is a file with origins.
type GeoFile = geoip.FileInfo

// Origin is the origin of an address. Unknown parts are zero.
type Origin struct {
	Country string // code of two letters
	ASN     uint32 // of the autonomous system
	Network string // its name
	Host    string // DNS name of the address, as its network claims
}

// IsZero reports whether nothing is known.
func (o Origin) IsZero() bool { return o == Origin{} }

// String formats the origin for people: "NL, AS64500 Example Networks, host.example".
func (o Origin) String() string {
	var parts []string
	if o.Country != "" {
		parts = append(parts, o.Country)
	}
	if o.ASN != 0 {
		parts = append(parts, strings.TrimSpace("AS"+strconv.FormatUint(uint64(o.ASN), 10)+" "+o.Network))
	}
	if o.Host != "" {
		parts = append(parts, o.Host)
	}
	return strings.Join(parts, ", ")
}

// maxNameTime bounds how long Of waits for a name.
const maxNameTime = 700 * time.Millisecond

// Of returns the origin of a key, and waits briefly for its DNS name.
func (o *Origins) Of(ctx context.Context, key string) Origin {
	found, address := o.of(key)
	if o.Names != nil && address.IsValid() {
		ctx, cancel := context.WithTimeout(ctx, maxNameTime)
		defer cancel()
		found.Host = o.Names.Await(ctx, address)
	}
	return found
}

// Known returns the known origin of a key without waiting. It starts the lookup of an unknown
// name for the next call.
func (o *Origins) Known(key string) Origin {
	found, address := o.of(key)
	if o.Names != nil && address.IsValid() {
		found.Host = o.Names.Known(address)
	}
	return found
}

// of returns the origin and the address of a key, zero if the key is not an address.
func (o *Origins) of(key string) (found Origin, address netip.Addr) {
	if o.Database == nil && o.Names == nil {
		return found, address
	}
	k, err := offences.ParseKey(key)
	if err != nil {
		return found, address
	}
	network, is := k.Network()
	if !is {
		return found, address
	}
	origin := o.Database.Locate(network.Addr())
	found = Origin{Country: origin.Country.String(), ASN: origin.ASN, Network: o.Database.NameOf(origin.ASN)}
	if network.IsSingleIP() {
		address = network.Addr()
	}
	return found, address
}

// NameOf returns the name of an autonomous system, "" if it is unknown.
func (o *Origins) NameOf(asn uint32) string { return o.Database.NameOf(asn) }

// IsOn reports whether there are files.
func (o *Origins) IsOn() bool { return o.Database != nil }

// Files returns the files in use.
func (o *Origins) Files() []GeoFile { return o.Database.Files() }

// PatternsOf returns a pattern for each known part of a key's origin.
func (o *Origins) PatternsOf(key string) []keys.Pattern {
	k, err := offences.ParseKey(key)
	if err != nil {
		return nil
	}
	return keys.OriginPatterns(keys.OriginOf(k))
}
