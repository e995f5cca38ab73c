package keys

import (
	"net/netip"
	"strings"
)

// parseAddr parses an address. It converts a v4-mapped address to IPv4 and drops a zone, so that
// each client has only one spelling.
func parseAddr(what, text, value string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(value)
	if err != nil {
		return netip.Addr{}, badAddress(what, text, value)
	}
	return addr.Unmap().WithZone(""), nil
}

func badAddress(what, text, value string) error {
	if withPort, err := netip.ParseAddrPort(value); err == nil {
		return refuse(what, text, "has a port; write ip:%s", withPort.Addr().Unmap().WithZone(""))
	}
	inner, bracketed := strings.CutPrefix(value, "[")
	if addr, err := netip.ParseAddr(strings.TrimSuffix(inner, "]")); bracketed && err == nil {
		return refuse(what, text, "has brackets; write ip:%s", addr.Unmap().WithZone(""))
	}
	return refuse(what, text, "has a bad address after \"ip:\"; write one such as ip:203.0.113.7 or ip:2001:db8::1")
}

// parsePrefix parses a CIDR. Its host bits may be set. It converts a v4-mapped network to IPv4.
func parsePrefix(what, text, value string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(value)
	if err != nil {
		return netip.Prefix{}, refuse(what, text, "has a bad network after \"ip:\"; write one such as ip:203.0.113.0/24 or ip:2001:db8::/48")
	}
	if !network.Addr().Is4In6() {
		return network, nil
	}
	if network.Bits() < 96 {
		return netip.Prefix{}, refuse(what, text, "mixes IPv4 and IPv6; write the IPv4 network, for example ip:203.0.113.0/24")
	}
	return unmapPrefix(network), nil
}

// unmapPrefix converts a v4-mapped network of 96 bits or more to IPv4 and returns every
// other network unchanged.
func unmapPrefix(network netip.Prefix) netip.Prefix {
	if !network.Addr().Is4In6() || network.Bits() < 96 {
		return network
	}
	return netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
}

func refuseHostBits(what, text string, network netip.Prefix) error {
	if masked := network.Masked(); masked != network {
		return refuse(what, text, "has bits set behind its /%d; write ip:%s for the network or ip:%s for the one address",
			network.Bits(), masked, network.Addr())
	}
	return nil
}

// refuseBareAddress returns an error for an address without its kind. It would be counted
// separately from the same client's "ip:" key, and blocks of that key would not apply. kind is
// the text before the first colon.
func refuseBareAddress(what, text, kind string) error {
	if !mayBeAddress(text, kind) {
		return nil
	}
	if addr, err := netip.ParseAddr(text); err == nil {
		return refuse(what, text, "is an address without its kind; write ip:%s", addr.Unmap().WithZone(""))
	}
	if network, err := netip.ParsePrefix(text); err == nil {
		return refuse(what, text, "is a network without its kind; write ip:%s", unmapPrefix(network).Masked())
	}
	return nil
}

// mayBeAddress is a cheap test that is true for every address and CIDR, and for hardly any other
// key.
func mayBeAddress(text, kind string) bool {
	if len(kind) == len(text) { // no colon
		return strings.Count(text, ".") == 3 && text[0] >= '0' && text[0] <= '9'
	}
	if len(kind) > 4 || strings.Count(text, ":") < 2 {
		return false
	}
	return strings.Trim(kind, "0123456789abcdefABCDEF") == ""
}

// carrierNAT is the range that carriers and overlay networks use for their own clients.
var carrierNAT = netip.MustParsePrefix("100.64.0.0/10")

// IsInternal reports whether an address is in a network that the internet does not route: a
// private network, a carrier or overlay network, link-local, or loopback. It treats a v4-mapped
// address as IPv4.
func IsInternal(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || carrierNAT.Contains(a)
}
