package envoy

import (
	"net/netip"
	"strings"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/stint-dev/stint/internal/doors/occurrences"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
)

// Limits of a request to the Rate Limit Service.
const (
	maxDomain      = 64 // bytes
	maxDescriptors = 16 // the number of keys that one check may have
	maxEntries     = 16 // of a descriptor
	maxEntryKey    = 128
)

// kind is the kind of the keys of all descriptors except those of a single address.
const kind = "envoy:"

// keyOf returns the key of a descriptor. If its only entry is Envoy's remote_address, that is
// the key of the address. Otherwise it is
//
//	envoy:DOMAIN:KEY=VALUE|KEY=VALUE
//
// with all bytes except letters, digits and -._~/@+ percent-encoded, so that no client can
// choose a value that reads as another list. An address in the list is written as clients are
// counted, an IPv6 address as its network; otherwise a client would have as many keys as its
// network has addresses. If the key is longer than keys.MaxLength, each value of more than 32
// bytes is replaced by "#" and its hash, and if it is still too long, the whole list is. client
// is the key of an address in the list. It is zero if there is none, or if key is that key
// itself.
func keyOf(parser keys.Parser, domain string, d *commonv3.RateLimitDescriptor) (key, client keys.Key, err error) {
	entries := d.GetEntries()
	if len(entries) == 0 || len(entries) > maxEntries {
		return key, client, fault.Field("descriptors", "has one of %d entries; a descriptor has 1 to %d", len(entries), maxEntries)
	}
	for _, e := range entries {
		if e.GetKey() == "" || len(e.GetKey()) > maxEntryKey {
			return key, client, fault.Field("descriptors", "has an entry whose key has %d bytes; it must have 1 to %d", len(e.GetKey()), maxEntryKey)
		}
	}
	if len(entries) == 1 {
		if key = addressOf(parser, entries[0]); !key.IsZero() {
			return key, client, nil
		}
	}
	values := make([]string, len(entries))
	for i, e := range entries {
		if values[i] = e.GetValue(); len(entries) == 1 {
			break // also for a mask that keeps more bits than clients are counted by
		}
		values[i] = countedValue(parser, e)
		if client.IsZero() {
			client = addressOf(parser, e)
		}
	}
	prefix := kind + escaped(domain) + ":"
	text := prefix + listOf(entries, values, keys.MaxLength)
	if len(text) > keys.MaxLength {
		text = prefix + listOf(entries, values, hashDigits)
	}
	if len(text) > keys.MaxLength {
		text = prefix + "#" + occurrences.Hash(text)
	}
	key, err = parser.Key(text)
	return key, client, err
}

// The keys of entries whose value is the client's address or a network that contains it.
const (
	remoteAddress       = "remote_address"
	maskedRemoteAddress = "masked_remote_address"
)

// addressOf returns the key of the address in an entry, the zero key if there is none. A masked
// address counts as an address if its mask keeps the bits by which clients are counted.
func addressOf(parser keys.Parser, e *commonv3.RateLimitDescriptor_Entry) keys.Key {
	switch e.GetKey() {
	case remoteAddress:
		if address, err := netip.ParseAddr(e.GetValue()); err == nil {
			return parser.AddressKey(address)
		}
	case maskedRemoteAddress:
		if network, err := netip.ParsePrefix(e.GetValue()); err == nil {
			if key, err := parser.Key("ip:" + network.String()); err == nil {
				return key
			}
		}
	}
	return keys.Key{}
}

// countedValue returns the value of an entry in a list. An address is written as clients are
// counted, and so is a masked IPv6 address whose mask keeps more bits than that.
func countedValue(parser keys.Parser, e *commonv3.RateLimitDescriptor_Entry) string {
	address, bits := netip.Addr{}, 0
	switch e.GetKey() {
	case remoteAddress:
		address, _ = netip.ParseAddr(e.GetValue()) // the zero Addr if invalid
		bits = address.BitLen()
	case maskedRemoteAddress:
		network, _ := netip.ParsePrefix(e.GetValue())
		address, bits = network.Addr(), network.Bits()
	default:
		return e.GetValue()
	}
	counted, _ := netip.ParsePrefix(strings.TrimPrefix(parser.AddressKey(address).String(), "ip:"))
	switch {
	case counted.IsValid() && bits > counted.Bits(): // only IPv6
		return counted.String()
	case address.IsValid() && e.GetKey() == remoteAddress:
		return address.Unmap().WithZone("").String()
	}
	return e.GetValue()
}

// listOf formats entries, with each value of more than maxPlain bytes hashed.
func listOf(entries []*commonv3.RateLimitDescriptor_Entry, values []string, maxPlain int) string {
	var b strings.Builder
	for i, e := range entries {
		if i > 0 {
			b.WriteByte('|')
		}
		b.WriteString(escaped(e.GetKey()) + "=")
		if value := escaped(values[i]); len(value) <= maxPlain {
			b.WriteString(value)
		} else {
			b.WriteString("#" + occurrences.Hash(values[i]))
		}
	}
	return b.String()
}

// escaped percent-encodes all bytes that are not plain.
func escaped(text string) string {
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, len(text))
	for i := range len(text) {
		if c := text[i]; isPlain(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(b)
}

func isPlain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~/@+", c) >= 0
}

// hashDigits is the length of a hash, in digits.
const hashDigits = 32
