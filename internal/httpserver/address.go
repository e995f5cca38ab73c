package httpserver

import (
	"net"
	"net/netip"
	"strings"

	"github.com/valyala/fasthttp"
)

// ClientAddresses determines the client addresses of requests. The zero value trusts no header.
type ClientAddresses struct {
	// Proxies are the proxies whose header is trusted.
	Proxies TrustedProxies
	// Header is the only header from which the client's address is read, since most proxies
	// forward other headers as the client sent them. Empty means X-Forwarded-For.
	Header AddressHeader
}

// AddressHeader is the name of a header with the client's address. X-Forwarded-For and
// Forwarded have one address per hop, any other header has one address.
type AddressHeader string

// The headers with one address per hop.
const (
	XForwardedFor AddressHeader = "X-Forwarded-For"
	Forwarded     AddressHeader = "Forwarded"
)

// String returns the header's name.
func (h AddressHeader) String() string { return string(h) }

// ParseAddressHeader reads the name of a header.
func ParseAddressHeader(text string) (AddressHeader, error) {
	for _, known := range []AddressHeader{XForwardedFor, Forwarded} {
		if strings.EqualFold(text, string(known)) {
			return known, nil
		}
	}
	if !isToken(text) || isFramingHeader(text) {
		return "", errAddressHeader(text)
	}
	return AddressHeader(text), nil
}

// Of returns the client's address. That is the peer's address or, if the peer is a trusted
// proxy, the nearest address in the header that is not one of a trusted proxy. An element of
// the header that is no address ends the search: the result is then the hop that wrote it.
//
// The result is a loopback address only if the peer is on this machine and sent no such header.
// The result is the unspecified address, which has no privileges, if a proxy on this machine
// sent a header that does not name the client, or if the peer has no address, as on a Unix
// socket.
func (a ClientAddresses) Of(rc *fasthttp.RequestCtx) netip.Addr {
	peer := peerAddress(rc)
	if len(a.Proxies) == 0 || !a.Proxies.trusts(peer) {
		return peer
	}
	return a.From(peer, rc.Request.Header.PeekAll(a.HeaderName()))
}

// From is Of for a request from peer, given the lines of the header that HeaderName names.
func (a ClientAddresses) From(peer netip.Addr, lines [][]byte) netip.Addr {
	if len(lines) == 0 || !a.Proxies.trusts(peer) {
		return peer
	}
	client := a.walk(peer, lines)
	if client.IsLoopback() {
		return netip.IPv6Unspecified()
	}
	return client
}

// HeaderName returns the name of the header with the client's address.
func (a ClientAddresses) HeaderName() string {
	if a.Header == "" {
		return string(XForwardedFor)
	}
	return string(a.Header)
}

// walk returns the last hop that can be trusted, starting at the peer.
func (a ClientAddresses) walk(peer netip.Addr, lines [][]byte) netip.Addr {
	client := peer
	var few [8]string
	hops := a.appendHops(few[:0], lines)
	for i := len(hops) - 1; i >= 0; i-- {
		addr, valid := parseHop(hops[i])
		if !valid || addr.IsUnspecified() {
			return client
		}
		if addr.IsLoopback() {
			// Skip a trusted proxy on this machine. Nobody else can claim a loopback address.
			if !a.Proxies.trusts(addr) {
				return client
			}
			continue
		}
		client = addr
		if !a.Proxies.trusts(client) {
			return client
		}
	}
	return client
}

// appendHops appends the addresses that the proxies wrote, the client's own claims first. A
// list on several lines is one list; a header with a single value must have one line.
func (a ClientAddresses) appendHops(hops []string, lines [][]byte) []string {
	switch a.HeaderName() {
	case string(Forwarded):
		for _, line := range lines {
			elements, whole := splitQuoted(string(line), ',')
			if !whole {
				// Otherwise a client could open a quote and hide what the proxies append.
				return []string{""}
			}
			for _, element := range elements {
				hops = append(hops, forwardedFor(element))
			}
		}
	case string(XForwardedFor):
		for _, line := range lines {
			for hop := range strings.SplitSeq(string(line), ",") {
				hops = append(hops, hop)
			}
		}
	default:
		if len(lines) == 1 {
			hops = append(hops, string(lines[0]))
		}
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

// peerAddress returns the address of the peer. A peer without one, as on a Unix socket, has the
// unspecified address, which is never trusted.
func peerAddress(rc *fasthttp.RequestCtx) netip.Addr { return peerOf(rc.RemoteAddr()) }

func peerOf(remote net.Addr) netip.Addr {
	peer, isTCP := remote.(*net.TCPAddr)
	if !isTCP {
		return netip.IPv6Unspecified()
	}
	return peer.AddrPort().Addr().Unmap().WithZone("")
}
