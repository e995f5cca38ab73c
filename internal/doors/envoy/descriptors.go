package envoy

import (
	"net/netip"
	"strings"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/stint-dev/stint/internal/doors/occurrences"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
)

// Bounds of a request to the Rate Limit Service.
const (
	maxDomain      = 64 // bytes
	maxDescriptors = 16 // as many keys as one check may have
	maxEntries     = 16 // of a descriptor
	maxEntryKey    = 128
)

// kind begins the keys of all descriptors but those of one address.
const kind = "envoy:"

// keyOf returns the key of a descriptor: that of the address if the only entry is
// Envoy's remote_address, else
//
//	envoy:DOMAIN:KEY=VALUE|KEY=VALUE
//
// with every other byte than letters, digits and -._~/@+ percent-encoded, so that no
// value of a client reads as another list. If that is longer than keys.MaxLength, each
// value of more than 32 bytes is replaced by "#" and its hash, and if that does not
// help, the whole list is. isAddress reports which of the two it is.
func keyOf(parser keys.Parser, domain string, d *commonv3.RateLimitDescriptor) (key keys.Key, isAddress bool, err error) {
	entries := d.GetEntries()
	if len(entries) == 0 || len(entries) > maxEntries {
		return key, false, fault.Field("descriptors", "has one of %d entries; a descriptor has 1 to %d", len(entries), maxEntries)
	}
	for _, e := range entries {
		if e.GetKey() == "" || len(e.GetKey()) > maxEntryKey {
			return key, false, fault.Field("descriptors", "has an entry whose key has %d bytes; it must have 1 to %d", len(e.GetKey()), maxEntryKey)
		}
	}
	if key = addressOf(parser, entries); !key.IsZero() {
		return key, true, nil
	}
	prefix := kind + escaped(domain) + ":"
	text := prefix + listOf(entries, keys.MaxLength)
	if len(text) > keys.MaxLength {
		text = prefix + listOf(entries, hashDigits)
	}
	if len(text) > keys.MaxLength {
		text = prefix + "#" + occurrences.Hash(text)
	}
	key, err = parser.Key(text)
	return key, false, err
}

// addressOf returns the key of the address that is the only entry, the zero key where
// there is none. A masked address is one where the mask leaves what clients are counted
// by.
func addressOf(parser keys.Parser, entries []*commonv3.RateLimitDescriptor_Entry) keys.Key {
	if len(entries) != 1 {
		return keys.Key{}
	}
	switch entries[0].GetKey() {
	case "remote_address":
		if address, err := netip.ParseAddr(entries[0].GetValue()); err == nil {
			return parser.AddressKey(address)
		}
	case "masked_remote_address":
		if network, err := netip.ParsePrefix(entries[0].GetValue()); err == nil {
			if key, err := parser.Key("ip:" + network.String()); err == nil {
				return key
			}
		}
	}
	return keys.Key{}
}

// listOf writes entries, with each value of more than maxPlain bytes hashed.
func listOf(entries []*commonv3.RateLimitDescriptor_Entry, maxPlain int) string {
	var b strings.Builder
	for i, e := range entries {
		if i > 0 {
			b.WriteByte('|')
		}
		b.WriteString(escaped(e.GetKey()) + "=")
		if value := escaped(e.GetValue()); len(value) <= maxPlain {
			b.WriteString(value)
		} else {
			b.WriteString("#" + occurrences.Hash(e.GetValue()))
		}
	}
	return b.String()
}

// escaped percent-encodes what is not plain.
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
