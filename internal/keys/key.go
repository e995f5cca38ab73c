// Package keys defines what Stint counts and how it is selected: keys such as "ip:203.0.113.7",
// and patterns that select keys. A key or pattern is parsed to its canonical spelling once, when
// it enters the program. All other code compares only that spelling, so that nobody can evade a
// block by another spelling.
package keys

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"
)

// MaxLength is the largest number of bytes in a key or pattern.
const MaxLength = 512

// DefaultIPv6Bits is the default prefix length by which IPv6 clients are counted: one subscriber
// line usually has a whole /64. The database's settings can change it.
const DefaultIPv6Bits = 64

// Key is a caller whose requests are counted. The zero value means no key.
type Key struct {
	text string
	// network is what is compared with the networks of patterns for an "ip:" key: the full
	// address as given (/32 or /128), or the whole network if only that is known.
	network netip.Prefix
}

// Parser parses text to keys and patterns under the settings that all nodes of one database
// share. The zero value counts IPv6 clients by /64.
type Parser struct {
	// IPv6Bits is the prefix length by which IPv6 clients are counted, 1 to
	// 128. Zero means DefaultIPv6Bits.
	IPv6Bits int
}

func (p Parser) ipv6Bits() int {
	if p.IPv6Bits <= 0 {
		return DefaultIPv6Bits
	}
	return min(p.IPv6Bits, 128)
}

// String returns the canonical spelling, under which logs, offences and reports are stored. That
// of an IPv6 client is like "ip:2001:db8::/64".
func (k Key) String() string { return k.text }

// IsZero reports whether k is the zero key.
func (k Key) IsZero() bool { return k.text == "" }

// Network returns the address or network of an "ip:" key. It is the full address as given, not
// the network by which it is counted.
func (k Key) Network() (netip.Prefix, bool) { return k.network, k.network.IsValid() }

// Pass is the kind of the keys of passes, which solving a challenge gives.
const Pass = "pass"

// IsPass reports whether k is the key of a pass.
func (k Key) IsPass() bool { return strings.HasPrefix(k.text, Pass+":") }

// Kind returns the part before the first colon, "" if there is no colon.
func (k Key) Kind() string {
	kind, _, found := strings.Cut(k.text, ":")
	if !found {
		return ""
	}
	return kind
}

// Key parses text to its canonical key. If text is canonical already, the key shares its memory,
// so text in a reused buffer must be copied first. The error is an *Error and says what would be
// right.
func (p Parser) Key(text string) (Key, error) {
	if err := checkText("key", text, MaxLength); err != nil {
		return Key{}, err
	}
	kind, value, found := strings.Cut(text, ":")
	if err := refuseBareAddress("key", text, kind); err != nil {
		return Key{}, err
	}
	if !found { // a kind is optional
		return Key{text: text}, nil
	}
	if err := checkKind("key", text, kind); err != nil {
		return Key{}, err
	}
	if value == "" {
		return Key{}, refuse("key", text, "has nothing after %q; write kind:value, for example token:abc", clip(kind)+":")
	}
	if kind != "ip" {
		if isOriginKind(kind) {
			return Key{}, refuseOriginKey(text, kind)
		}
		if kind == NetworkKind {
			return derivedNetworkKey(text, value)
		}
		return Key{text: text}, nil
	}
	return p.addressKey(text, value)
}

func (p Parser) addressKey(text, value string) (Key, error) {
	if strings.Contains(value, "/") {
		return p.networkKey(text, value)
	}
	addr, err := parseAddr("key", text, value)
	if err != nil {
		return Key{}, err
	}
	return p.keyOfAddress(text, addr), nil
}

// networkKey parses a network that is a key. Only the network by which an IPv6 client is counted
// and a network of a single address are keys.
func (p Parser) networkKey(text, value string) (Key, error) {
	network, err := parsePrefix("key", text, value)
	if err != nil {
		return Key{}, err
	}
	addr := network.Addr()
	switch {
	case network.IsSingleIP():
		return p.keyOfAddress(text, addr), nil
	case addr.Is4():
		return Key{}, refuse("key", text, "is a network; a key is one address, for example ip:%s", addr)
	case network.Bits() != p.ipv6Bits():
		return Key{}, refuse("key", text, "is a network of /%d, but IPv6 clients are counted by /%d", network.Bits(), p.ipv6Bits())
	}
	if err := refuseHostBits("key", text, network); err != nil {
		return Key{}, err
	}
	return Key{text: networkText(text, network), network: network}, nil
}

// NetworkKind is the kind of the networks that policies count as further keys.
const NetworkKind = "net"

// derivedNetworkKey parses the key of a network that is counted as a further key. Other text of
// that kind is an ordinary key.
func derivedNetworkKey(text, value string) (Key, error) {
	canonical, err := networkSpelling("key", text, value)
	return Key{text: canonical}, err
}

// networkSpelling returns the canonical spelling of a further key's network, for a key or an
// exact pattern. The network is counted only under that spelling; a pattern with another one
// would select nothing.
func networkSpelling(what, text, value string) (string, error) {
	network, err := netip.ParsePrefix(value)
	if err != nil {
		return text, nil //nolint:nilerr // it may be a key of a caller's own
	}
	network = unmapPrefix(network)
	if masked := network.Masked(); masked != network {
		return "", refuse(what, text, "has bits set behind its /%d; write %s:%s", network.Bits(), NetworkKind, masked)
	}
	var buffer [64]byte
	return keep(text, network.AppendTo(append(buffer[:0], NetworkKind+":"...))), nil
}

func (p Parser) keyOfAddress(text string, addr netip.Addr) Key {
	full := netip.PrefixFrom(addr, addr.BitLen())
	if addr.Is4() || p.ipv6Bits() == 128 {
		return Key{text: addressText(text, addr), network: full}
	}
	counted, _ := addr.Prefix(p.ipv6Bits()) // 1 to 128 bits never fail
	return Key{text: networkText(text, counted), network: full}
}

// AddressKey returns the key of a client address, for callers that have an address instead of
// text. It returns the zero key for the zero address.
func (p Parser) AddressKey(addr netip.Addr) Key {
	if !addr.IsValid() {
		return Key{}
	}
	return p.keyOfAddress("", addr.Unmap().WithZone(""))
}

// addressText returns the canonical spelling of an address. It returns given if that is
// canonical, so that the common case allocates nothing.
func addressText(given string, addr netip.Addr) string {
	var buffer [64]byte
	return keep(given, addr.AppendTo(append(buffer[:0], "ip:"...)))
}

// networkText is addressText for a network.
func networkText(given string, network netip.Prefix) string {
	var buffer [64]byte
	return keep(given, network.AppendTo(append(buffer[:0], "ip:"...)))
}

func keep(given string, canonical []byte) string {
	if given == string(canonical) {
		return given
	}
	return string(canonical)
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

// clip shortens text from a caller for a message. It contains no unescaped control characters:
// checkText has refused them or %q escapes them.
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
