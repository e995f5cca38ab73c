package keys

import (
	"net/netip"
	"strings"
)

// PatternKind is how a pattern selects keys.
type PatternKind uint8

// The kinds of pattern, from the most to the least specific.
const (
	Exact      PatternKind = iota + 1 // one key that is not an address
	Network                           // "ip:" addresses of a network; a single address is a /32 or /128
	FromOrigin                        // "ip:" addresses of an autonomous system, "asn:64500", or a country, "country:NL"
	Prefix                            // keys that begin with some text; "ip:*" is every address
	Any                               // "*", every key
)

// Pattern selects keys. The zero value selects none. A node has a million of them, so it is small.
type Pattern struct {
	text    string       // canonical spelling
	network netip.Prefix // Network only
	asn     uint32       // FromOrigin only, as country
	country Country
	kind    PatternKind
	widened bool
}

// maxPatternLength is long enough for a key of MaxLength in which every byte is escaped, and a
// star after it.
const maxPatternLength = 2*MaxLength + 1

// Pattern parses an exact key, a prefix such as "token:test_*", an address or CIDR after "ip:",
// "ip:*", the origin of addresses such as "asn:64500" or "country:NL", or "*". In a prefix
// pattern "\*" is a literal star. A bare IPv6 address means the network by which its client is
// counted, and Widened then returns true; write /128 for only that address. The pattern of a
// network shares the memory of text if text is canonical. The error is an *Error and says what
// would be right.
func (p Parser) Pattern(text string) (Pattern, error) {
	if err := checkText("pattern", text, maxPatternLength); err != nil {
		return Pattern{}, err
	}
	if text == "*" {
		return Pattern{kind: Any, text: "*"}, nil
	}
	kind, value, found := strings.Cut(text, ":")
	if err := refuseBareAddress("pattern", text, kind); err != nil {
		return Pattern{}, err
	}
	if !found {
		return kindless(text)
	}
	if err := checkPatternKind(text, kind, value); err != nil {
		return Pattern{}, err
	}
	if kind == "ip" {
		return p.addressPattern(text, value)
	}
	if isOriginKind(kind) {
		return originPattern(text, kind, value)
	}
	literal, star, err := unescape(text)
	if err != nil {
		return Pattern{}, err
	}
	if star {
		return Pattern{kind: Prefix, text: escape(literal) + "*"}, nil
	}
	if kind == NetworkKind {
		if literal, err = networkSpelling("pattern", literal, literal[len(kind)+1:]); err != nil {
			return Pattern{}, err
		}
	}
	return exactPattern(literal), nil
}

func checkPatternKind(text, kind, value string) error {
	if strings.Contains(kind, "*") {
		return refuse("pattern", text, "has a star in its kind; a star is allowed only at the end: write token:* for every key of one kind, * for every key")
	}
	if err := checkKind("pattern", text, kind); err != nil {
		return err
	}
	if value == "" {
		return refuse("pattern", text, "has nothing after %q; for every key of this kind write %s:*", clip(kind)+":", clip(kind))
	}
	return nil
}

// kindless parses a pattern without a colon. It must be an exact key: a prefix such as "ip*"
// would select a part of the kinds.
func kindless(text string) (Pattern, error) {
	literal, star, err := unescape(text)
	if err != nil {
		return Pattern{}, err
	}
	if !star {
		return exactPattern(literal), nil
	}
	example := "token"
	if checkKind("pattern", text, literal) == nil {
		example = clip(literal)
	}
	return Pattern{}, refuse("pattern", text, "is a prefix without a kind; for every key of a kind write for example %s:*, for every key write *", example)
}

func exactPattern(literal string) Pattern {
	return Pattern{kind: Exact, text: escape(literal)}
}

func (p Parser) addressPattern(text, value string) (Pattern, error) {
	if value == "*" {
		return Pattern{kind: Prefix, text: "ip:*"}, nil
	}
	if strings.Contains(value, "*") {
		return Pattern{}, refuse("pattern", text, "is not a network: a star would cut addresses between digits; %s", meantNetwork(value))
	}
	if strings.Contains(value, "/") {
		network, err := parsePrefix("pattern", text, value)
		if err != nil {
			return Pattern{}, err
		}
		if err := refuseHostBits("pattern", text, network); err != nil {
			return Pattern{}, err
		}
		return networkPattern(text, network, false), nil
	}
	addr, err := parseAddr("pattern", text, value)
	if err != nil {
		return Pattern{}, err
	}
	if addr.Is6() && p.ipv6Bits() < 128 {
		network, _ := addr.Prefix(p.ipv6Bits()) // 1 to 128 bits never fail
		return networkPattern(text, network, true), nil
	}
	return networkPattern(text, netip.PrefixFrom(addr, addr.BitLen()), false), nil
}

// networkPattern returns the pattern of a network. If given is the canonical spelling, the
// pattern shares its memory: a node parses up to a million of these when it starts.
func networkPattern(given string, network netip.Prefix, widened bool) Pattern {
	var buffer [64]byte
	text := append(buffer[:0], "ip:"...)
	if network.Addr().Is4() && network.IsSingleIP() {
		text = network.Addr().AppendTo(text)
	} else {
		text = network.AppendTo(text)
	}
	if string(text) != given {
		given = string(text)
	}
	return Pattern{kind: Network, text: given, network: network, widened: widened}
}

// NetworkPattern returns the pattern of a network. It clears host bits and converts a v4-mapped
// network to IPv4. It returns the zero pattern for an invalid network.
func NetworkPattern(network netip.Prefix) Pattern {
	if !network.IsValid() {
		return Pattern{}
	}
	return networkPattern("", unmapPrefix(network).Masked(), false)
}

// meantNetwork suggests a CIDR for "10.1*", "10.1.*" or "2001:db8:*", for an error message.
func meantNetwork(value string) string {
	head, rest, _ := strings.Cut(value, "*")
	const unknown = "write a CIDR, for example ip:203.0.113.0/24 or ip:2001:db8::/48"
	if strings.Trim(rest, ".:*") != "" || strings.Contains(head, "::") {
		return unknown
	}
	separator, padding, width, groups := ".", ".0", 8, 4
	if strings.Contains(value, ":") {
		separator, padding, width, groups = ":", ":0", 16, 8
	}
	head = strings.TrimSuffix(head, separator)
	known := strings.Count(head, separator) + 1
	if known > groups {
		return unknown
	}
	addr, err := netip.ParseAddr(head + strings.Repeat(padding, groups-known))
	if err != nil {
		return unknown
	}
	if known == groups {
		around, _ := addr.Prefix(width * (groups - 1)) // never longer than the address
		return "you probably mean ip:" + addr.String() + ", or a CIDR around it such as ip:" + around.String()
	}
	return "you probably mean ip:" + netip.PrefixFrom(addr, width*known).String()
}

// unescape replaces `\*` and `\\` by the literal bytes and reports whether the text ends in an
// unescaped star. It returns an error for an unescaped star anywhere else. It copies only text with
// a backslash.
func unescape(text string) (literal string, star bool, err error) {
	if at := strings.IndexAny(text, `*\`); at < 0 || at == len(text)-1 && text[at] == '*' {
		if literal, star = strings.CutSuffix(text, "*"); len(literal) <= MaxLength {
			return literal, star, nil
		}
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && (text[i+1] == '*' || text[i+1] == '\\'):
			i++
			b.WriteByte(text[i])
		case c == '\\':
			return "", false, refuse("pattern", text, `has a lone backslash at byte %d; write \\ for a backslash and \* for a star`, i)
		case c == '*' && i == len(text)-1:
			star = true
		case c == '*':
			return "", false, refuse("pattern", text, `has a star at byte %d; a star is allowed only at the end: write %q for every key that begins so, or \* for a literal star`,
				i, clip(text[:i])+"*")
		default:
			b.WriteByte(c)
		}
	}
	if b.Len() > MaxLength {
		return "", false, refuse("pattern", text, "names %d bytes of a key; a key has at most %d", b.Len(), MaxLength)
	}
	return b.String(), star, nil
}

var escaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`)

func escape(literal string) string { return escaper.Replace(literal) }

// PatternOf returns the pattern that selects exactly what k counts: its address, its network, or
// the key itself. It returns the zero pattern for the zero key.
func PatternOf(k Key) Pattern {
	if k.IsZero() {
		return Pattern{}
	}
	if !k.network.IsValid() {
		return exactPattern(k.text)
	}
	counted, err := netip.ParsePrefix(strings.TrimPrefix(k.text, "ip:"))
	if err != nil { // an address, which is counted on its own
		return networkPattern(k.text, k.network, false)
	}
	return networkPattern(k.text, counted, false)
}

// Unreadable returns a pattern that selects no key. text is a stored pattern that Parser does not
// accept any more.
func Unreadable(text string) Pattern { return Pattern{text: text} }

// String returns the canonical spelling.
func (p Pattern) String() string { return p.text }

// IsZero reports whether p is the zero pattern or an Unreadable one.
func (p Pattern) IsZero() bool { return p.kind == 0 }

// Kind returns how p selects keys, 0 for the zero value and an Unreadable pattern.
func (p Pattern) Kind() PatternKind { return p.kind }

// Network returns the network of a Network pattern.
func (p Pattern) Network() (netip.Prefix, bool) { return p.network, p.kind == Network }

// Literal returns the unescaped text of an Exact pattern, or the unescaped beginning of the keys
// of a Prefix pattern; "" for the other kinds.
func (p Pattern) Literal() string {
	if p.kind != Exact && p.kind != Prefix {
		return ""
	}
	literal, _, _ := unescape(p.text) // text is canonical
	return literal
}

// origin is what a FromOrigin pattern selects, which has only one part set.
func (p Pattern) origin() Origin { return Origin{p.asn, p.country} }

// Widened reports whether a bare IPv6 address was parsed as its whole network.
func (p Pattern) Widened() bool { return p.widened }

// Matches reports whether p selects k. A key that is a network is selected only by patterns that
// cover all of it.
func (p Pattern) Matches(k Key) bool {
	switch p.kind {
	case Exact:
		return p.Literal() == k.text
	case Prefix:
		return strings.HasPrefix(k.text, p.Literal())
	case Network:
		return k.network.IsValid() && p.network.Bits() <= k.network.Bits() && p.network.Contains(k.network.Addr())
	case FromOrigin:
		return p.origin().Selects(OriginOf(k))
	case Any:
		return !k.IsZero()
	}
	return false
}

// Covers reports whether p selects every key that q selects. The pattern of an origin covers only
// networks of a single client, because origins are not looked up for ranges.
func (p Pattern) Covers(q Pattern) bool {
	switch {
	case p.kind == 0 || q.kind == 0:
		return false
	case p.kind == Any:
		return true
	case p.kind == FromOrigin && q.kind == Network:
		// Only some clients of a larger range may be of the origin.
		return isOneClient(q.network) && p.origin().Selects(OriginOf(Key{network: q.network}))
	case p.kind == FromOrigin || q.kind == FromOrigin && p.kind != Prefix:
		return p == q
	case p.kind == Prefix && (q.kind == Network || q.kind == FromOrigin):
		return p.text == "ip:*"
	case p.kind == Prefix:
		return (q.kind == Exact || q.kind == Prefix) && strings.HasPrefix(q.Literal(), p.Literal())
	case p.kind == Network:
		return q.kind == Network && p.network.Bits() <= q.network.Bits() && p.network.Contains(q.network.Addr())
	default:
		return q.kind == Exact && p.text == q.text
	}
}

// isOneClient reports whether a network is one IPv4 address, or a /64 of IPv6 or a part of one.
func isOneClient(network netip.Prefix) bool {
	return network.Addr().Is4() && network.IsSingleIP() || network.Addr().Is6() && network.Bits() >= DefaultIPv6Bits
}
