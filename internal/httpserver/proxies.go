package httpserver

import (
	"fmt"
	"net/netip"
	"strings"
)

// TrustedProxies are the networks whose client address header is trusted. The zero value trusts
// nobody.
type TrustedProxies []netip.Prefix

// The widest networks allowed for proxies: the largest private ones. Anything wider includes
// strangers, alone or in combination, such as 0.0.0.0/1 with 128.0.0.0/1.
const (
	widestIPv4 = 8 // 10.0.0.0/8
	widestIPv6 = 7 // fc00::/7
)

// ParseTrustedProxies reads addresses and networks, separated by commas. It refuses a network
// wider than the limits above, which would let clients choose their own address.
func ParseTrustedProxies(text string) (TrustedProxies, error) {
	var proxies TrustedProxies
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

// String returns the networks in the syntax of ParseTrustedProxies.
func (t TrustedProxies) String() string {
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

func (t TrustedProxies) trusts(addr netip.Addr) bool {
	for _, network := range t {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}

func errAddressHeader(text string) error {
	return fmt.Errorf("%q cannot hold a client's address; name one header, for example X-Forwarded-For, Forwarded or X-Real-IP", text)
}

// isToken reports whether text is valid as the name of a header.
func isToken(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return text != ""
}

// isFramingHeader reports whether a header has its own meaning, so that it cannot hold an
// address.
func isFramingHeader(name string) bool {
	for _, taken := range []string{
		"Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Authorization", "Cookie", "User-Agent", "Trailer",
	} {
		if strings.EqualFold(name, taken) {
			return true
		}
	}
	return false
}
