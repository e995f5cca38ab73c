package api

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/valyala/fasthttp"
)

// TrustedProxies are the networks whose forwarded headers count. The zero value
// trusts nobody.
type TrustedProxies []netip.Prefix

// The widest networks of proxies: the largest private ones. Anything wider holds
// strangers, alone or, as 0.0.0.0/1 and 128.0.0.0/1, together.
const (
	widestIPv4 = 8 // 10.0.0.0/8
	widestIPv6 = 7 // fc00::/7
)

// ParseTrustedProxies reads addresses and networks, separated by commas. A
// network that is wider than any of proxies is refused: it would let clients
// choose the address that they are known by.
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

func parseProxy(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.Unmap().WithZone("")
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("the trusted proxy %q is neither an address nor a network; write for example 10.0.0.0/8 or 192.0.2.10", plain(text))
	}
	if network.Addr().Is4In6() && network.Bits() >= 96 {
		network = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
	}
	widest := widestIPv6
	if network.Addr().Is4() {
		widest = widestIPv4
	}
	if network.Bits() < widest || network.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("the trusted proxy %s holds strangers, who could then choose their own address; name the proxies' networks, at the widest /%d", network, widest)
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

// clientAddress returns where a request comes from: the peer, or where that is
// a trusted proxy, the nearest address in the forwarded header that is none.
// Forwarded (RFC 7239) counts before X-Forwarded-For. A part that is no
// address ends the walk at the hop that reported it.
func (t TrustedProxies) clientAddress(rc *fasthttp.RequestCtx) netip.Addr {
	peer := peerAddress(rc)
	if !t.trusts(peer) {
		return peer
	}
	hops := forwardedHops(&rc.Request.Header)
	client := peer
	for i := len(hops) - 1; i >= 0; i-- {
		addr, valid := parseHop(hops[i])
		if !valid {
			return client
		}
		client = addr
		if !t.trusts(client) {
			return client
		}
	}
	return client
}

// peerAddress returns the other end of the connection; where that has no
// address, as on a Unix socket, the unspecified one, which nothing trusts.
func peerAddress(rc *fasthttp.RequestCtx) netip.Addr {
	peer, isTCP := rc.RemoteAddr().(*net.TCPAddr)
	if !isTCP {
		return netip.IPv6Unspecified()
	}
	return peer.AddrPort().Addr().Unmap().WithZone("")
}

// forwardedHops returns the addresses that the proxies wrote, the client's own
// claims first. A header that stands more than once is one list.
func forwardedHops(h *fasthttp.RequestHeader) []string {
	var hops []string
	if lines := h.PeekAll("Forwarded"); len(lines) > 0 {
		for _, line := range lines {
			for element := range strings.SplitSeq(string(line), ",") {
				hops = append(hops, forwardedFor(element))
			}
		}
		return hops
	}
	for _, line := range h.PeekAll("X-Forwarded-For") {
		hops = append(hops, strings.Split(string(line), ",")...)
	}
	return hops
}

// forwardedFor returns the value of for= in one element of Forwarded.
func forwardedFor(element string) string {
	for pair := range strings.SplitSeq(element, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if strings.EqualFold(name, "for") {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// parseHop reads "192.0.2.1", "192.0.2.1:80", "2001:db8::1", "[2001:db8::1]"
// and "[2001:db8::1]:80".
func parseHop(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")); err == nil {
		return addr.Unmap().WithZone(""), true
	}
	if both, err := netip.ParseAddrPort(text); err == nil {
		return both.Addr().Unmap().WithZone(""), true
	}
	return netip.Addr{}, false
}
