// Package proxies finds the client of a request behind trusted proxies, from the addresses that
// they write into a header or a log.
package proxies

import (
	"fmt"
	"net/netip"
	"strings"
)

// Trusted are the networks of the proxies whose client address header is trusted. The zero value trusts
// nobody.
type Trusted []netip.Prefix

// The widest networks allowed for proxies: the largest private ones. Anything wider includes
// strangers, alone or in combination, such as 0.0.0.0/1 with 128.0.0.0/1.
const (
	widestIPv4 = 8 // 10.0.0.0/8
	widestIPv6 = 7 // fc00::/7
)

// Parse reads addresses and networks, separated by commas. It refuses a network
// wider than the limits above, which would let clients choose their own address.
func Parse(text string) (Trusted, error) {
	var proxies Trusted
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		network, err := parseProxy(part)
		if err != nil {
			return nil, err
		}
		proxies = append(proxies, network)
	}
	return proxies, nil
}

// String returns the networks in the syntax of Parse.
func (t Trusted) String() string {
	all := make([]string, len(t))
	for i, network := range t {
		all[i] = network.String()
	}
	return strings.Join(all, ", ")
}

func parseProxy(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.Unmap().WithZone("")
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("the trusted proxy %q is neither an address nor a network; write for example 10.0.0.0/8 or 192.0.2.10", text)
	}
	if network.Addr().Is4In6() && network.Bits() >= 96 {
		network = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
	}
	widest := widestIPv6
	if network.Addr().Is4() {
		widest = widestIPv4
	}
	if network.Bits() < widest || network.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("the trusted proxy %s is too wide: clients in it could choose their own address; name the networks of the proxies, each a /%d or smaller", network, widest)
	}
	return network.Masked(), nil
}

// Trusts reports whether addr is that of a trusted proxy.
func (t Trusted) Trusts(addr netip.Addr) bool {
	for _, network := range t {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}

// Client returns the address of the client of a request from peer, given the addresses of the hops
// before it, the client's own claims first. That is the peer's address or, if the peer is a trusted
// proxy, the nearest address that is not one of a trusted proxy. A hop that is no address ends
// the search: the result is then the hop that wrote it. A loopback address of a trusted proxy is
// skipped; nobody else can claim one.
func (t Trusted) Client(peer netip.Addr, hops []string) netip.Addr {
	client, _ := t.walk(peer, hops, false)
	return client
}

// Named is Client, but takes a loopback address as every other. isNamed reports whether a hop named
// the client: otherwise it is the peer.
func (t Trusted) Named(peer netip.Addr, hops []string) (client netip.Addr, isNamed bool) {
	return t.walk(peer, hops, true)
}

func (t Trusted) walk(peer netip.Addr, hops []string, withLoopback bool) (client netip.Addr, isNamed bool) {
	client = peer
	if !t.Trusts(peer) {
		return client, false
	}
	for i := len(hops) - 1; i >= 0; i-- {
		addr, valid := ParseHop(hops[i])
		if !valid || addr.IsUnspecified() {
			return client, isNamed
		}
		isTrusted := t.Trusts(addr)
		switch {
		case withLoopback || !addr.IsLoopback():
			client, isNamed = addr, true
		case !isTrusted:
			return client, isNamed
		}
		if !isTrusted {
			return client, isNamed
		}
	}
	return client, isNamed
}

// AppendForwardedFor appends the hops in a value of X-Forwarded-For to hops.
func AppendForwardedFor(hops []string, value string) []string {
	for hop := range strings.SplitSeq(value, ",") {
		hops = append(hops, hop)
	}
	return hops
}

// AppendForwarded appends the hops in a value of Forwarded to hops. A quote that is not closed
// makes one hop of it that is no address: otherwise a client could open a quote and hide what the
// proxies append.
func AppendForwarded(hops []string, value string) []string {
	elements, whole := splitQuoted(value, ',')
	if !whole {
		return append(hops, "")
	}
	for _, element := range elements {
		hops = append(hops, forwardedFor(element))
	}
	return hops
}

// splitQuoted splits text at a byte, except inside double quotes. whole reports whether every
// quote is closed.
func splitQuoted(text string, at byte) (parts []string, whole bool) {
	from, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == at && !quoted:
			parts = append(parts, text[from:i])
			from = i + 1
		}
	}
	return append(parts, text[from:]), !quoted
}

// forwardedFor returns the value of for= in one element of Forwarded, "" if it is missing or
// given twice.
func forwardedFor(element string) string {
	found := ""
	pairs, _ := splitQuoted(element, ';')
	for _, pair := range pairs {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if !strings.EqualFold(name, "for") {
			continue
		}
		if found != "" {
			return ""
		}
		found = strings.Trim(value, `"`)
	}
	return found
}

// ParseHop reads the address of a hop: "192.0.2.1", "192.0.2.1:80", "2001:db8::1", "[2001:db8::1]"
// and "[2001:db8::1]:80".
func ParseHop(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")); err == nil {
		return addr.Unmap().WithZone(""), true
	}
	if both, err := netip.ParseAddrPort(text); err == nil {
		return both.Addr().Unmap().WithZone(""), true
	}
	return netip.Addr{}, false
}
