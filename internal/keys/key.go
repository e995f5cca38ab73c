// Package keys holds what Stint counts and how it is selected: keys such as
// "ip:203.0.113.7", and the patterns that pick them out. A key or pattern is
// parsed once, at the edge, into one canonical spelling; everything behind the
// edge compares only that, so no second spelling of a blocked key gets through.
package keys

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxLength is the largest number of bytes in a key or pattern.
const MaxLength = 512

// DefaultIPv6Bits is the prefix length by which IPv6 clients are counted
// unless the database's settings say otherwise: one subscriber line usually
// commands a whole /64.
const DefaultIPv6Bits = 64

// Key is one caller that is counted. The zero value is no key.
type Key struct {
	text string
	// network is what an "ip:" key matches blocks with: the full address as
	// given (/32 or /128), or the whole network when only that is known.
	network netip.Prefix
}

// Parser turns text into keys and patterns under the settings that all nodes
// of one database share. The zero value counts IPv6 clients by /64.
type Parser struct {
	// IPv6Bits is the prefix length by which IPv6 clients are counted, 1 to
	// 128. Zero means DefaultIPv6Bits.
	IPv6Bits int
}

func (p Parser) ipv6Bits() int {
	if p.IPv6Bits == 0 {
		return DefaultIPv6Bits
	}
	return p.IPv6Bits
}

// String returns the canonical spelling, which is what logs, offences and
// reports are kept under. An IPv6 client reads "ip:2001:db8::/64".
func (k Key) String() string { return k.text }

// IsZero reports whether k is no key.
func (k Key) IsZero() bool { return k.text == "" }

// Network returns the address or network of an "ip:" key: the full address as
// it was given, not the network that it is counted by.
func (k Key) Network() (netip.Prefix, bool) { return k.network, k.network.IsValid() }

// Kind returns the part before the first colon, "" when there is none.
func (k Key) Kind() string {
	kind, _, found := strings.Cut(k.text, ":")
	if !found {
		return ""
	}
	return kind
}

// Key parses text into its canonical key. The error is an *Error and says what
// would be right.
func (p Parser) Key(text string) (Key, error) {
	if err := checkText("key", text); err != nil {
		return Key{}, err
	}
	kind, value, found := strings.Cut(text, ":")
	if !found { // a kind is a convention, not a duty
		return Key{text: text}, nil
	}
	if err := checkKind("key", text, kind); err != nil {
		return Key{}, err
	}
	if value == "" {
		return Key{}, refuse("key", text, "has nothing after %q; write kind:value, for example token:abc", kind+":")
	}
	if kind != "ip" {
		return Key{text: text}, nil
	}
	return p.addressKey(text, value)
}

func (p Parser) addressKey(text, value string) (Key, error) {
	if strings.Contains(value, "/") {
		network, err := parseNetwork("key", text, value)
		if err != nil {
			return Key{}, err
		}
		full := network.Addr().BitLen()
		switch {
		case network.Bits() == full:
			return p.keyOfAddress(text, network.Addr()), nil
		case network.Addr().Is6() && network.Bits() == p.ipv6Bits():
			return Key{text: canonical(text, "ip:"+network.String()), network: network}, nil
		case network.Addr().Is6():
			return Key{}, refuse("key", text, "is a network of /%d, but IPv6 clients are counted by /%d", network.Bits(), p.ipv6Bits())
		default:
			return Key{}, refuse("key", text, "is a network; a key is one address, for example ip:%s", network.Addr())
		}
	}
	addr, err := parseAddr("key", text, value)
	if err != nil {
		return Key{}, err
	}
	return p.keyOfAddress(text, addr), nil
}

func (p Parser) keyOfAddress(text string, addr netip.Addr) Key {
	full := netip.PrefixFrom(addr, addr.BitLen())
	if addr.Is4() || p.ipv6Bits() == 128 {
		return Key{text: canonical(text, "ip:"+addr.String()), network: full}
	}
	counted, _ := addr.Prefix(p.ipv6Bits())
	return Key{text: "ip:" + counted.String(), network: full}
}

// AddressKey returns the key that counts a client address, for callers that
// hold an address and not text.
func (p Parser) AddressKey(addr netip.Addr) Key {
	return p.keyOfAddress("", addr.Unmap().WithZone(""))
}

// canonical returns text itself when it is already spelled as want, so that
// the common case keeps no second copy.
func canonical(text, want string) string {
	if text == want {
		return text
	}
	return want
}

func parseAddr(what, text, value string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(value)
	if err != nil {
		return netip.Addr{}, refuse(what, text, "has a bad address after \"ip:\"; write one such as ip:203.0.113.7 or ip:2001:db8::1")
	}
	return addr.Unmap().WithZone(""), nil
}

// parseNetwork reads a CIDR, unmapping v4-mapped networks and refusing bits
// behind the prefix.
func parseNetwork(what, text, value string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(value)
	if err != nil {
		return netip.Prefix{}, refuse(what, text, "has a bad network after \"ip:\"; write one such as ip:203.0.113.0/24 or ip:2001:db8::/48")
	}
	if addr := network.Addr(); addr.Is4In6() {
		if network.Bits() < 96 {
			return netip.Prefix{}, refuse(what, text, "mixes IPv4 and IPv6; write the IPv4 network, for example ip:203.0.113.0/24")
		}
		network = netip.PrefixFrom(addr.Unmap(), network.Bits()-96)
	}
	if masked := network.Masked(); masked != network {
		return netip.Prefix{}, refuse(what, text, "has bits set behind its /%d; write ip:%s", network.Bits(), masked)
	}
	return network, nil
}

func checkText(what, text string) error {
	switch {
	case text == "":
		return refuse(what, text, "is empty; write kind:value, for example ip:203.0.113.7")
	case len(text) > MaxLength:
		return refuse(what, text, "has %d bytes; at most %d are allowed", len(text), MaxLength)
	case !utf8.ValidString(text):
		return refuse(what, text, "is not valid UTF-8")
	}
	for i, r := range text {
		if unicode.IsControl(r) {
			return refuse(what, text, "holds the control character U+%04X at byte %d; remove it", r, i)
		}
	}
	return nil
}

func checkKind(what, text, kind string) error {
	if kind == "" || kind[0] < 'a' || kind[0] > 'z' {
		return badKind(what, text, kind)
	}
	for i := 1; i < len(kind); i++ {
		c := kind[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return badKind(what, text, kind)
		}
	}
	return nil
}

func badKind(what, text, kind string) error {
	if lower := strings.ToLower(kind); lower != kind && checkKind(what, text, lower) == nil {
		return refuse(what, text, "has the kind %q; kinds are lower case: %q", clip(kind), lower)
	}
	return refuse(what, text, "has the bad kind %q; a kind starts with a-z and holds a-z, 0-9, _ and - only", clip(kind))
}

// Error says what is wrong with a key or pattern and what would be right.
type Error struct {
	What    string // "key" or "pattern"
	Text    string // what was given, unescaped
	Problem string // a clause that follows "the key ..."
}

// Error returns one line that is safe to print: it quotes nothing unescaped.
func (e *Error) Error() string { return "the " + e.What + " " + e.Problem }

func refuse(what, text, format string, args ...any) error {
	return &Error{What: what, Text: text, Problem: fmt.Sprintf(format, args...)}
}

// clip shortens attacker-chosen text for a message. Control characters never
// get here unescaped: checkText has refused them or %q escapes them.
func clip(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}
