package httpserver

import (
	"net"
	"net/netip"
	"strings"

	"github.com/valyala/fasthttp"
)

// ClientAddresses finds out where requests come from. The zero value believes
// no header.
type ClientAddresses struct {
	// Proxies are those whose header is believed.
	Proxies TrustedProxies
	// Header is the one header in which they write the client's address; others
	// are never read, since most proxies pass them on as the client sent them.
	// Empty means X-Forwarded-For.
	Header AddressHeader
}

// AddressHeader is the name of a header that holds the client's address:
// X-Forwarded-For and Forwarded hold one for each hop, any other holds one.
type AddressHeader string

// The headers with an address for each hop.
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

// Of returns the client's address: that of the peer or, where the peer is a
// trusted proxy, the nearest address in the header that is none. A part of the
// header that is no address ends the walk at the hop that wrote it.
//
// The result is a loopback address only for a peer on this machine that sent
// no such header. A client behind a proxy on this machine whose address the
// header does not name is the unspecified address, which has no privileges; so
// is a peer without an address, as on a Unix socket.
func (a ClientAddresses) Of(rc *fasthttp.RequestCtx) netip.Addr {
	peer := peerAddress(rc)
	if len(a.Proxies) == 0 || !a.Proxies.trusts(peer) {
		return peer
	}
	return a.From(peer, rc.Request.Header.PeekAll(a.HeaderName()))
}

// From is Of for a request that came from peer, with the lines of the header that
// HeaderName names.
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

// HeaderName returns the name of the one header that is read.
func (a ClientAddresses) HeaderName() string {
	if a.Header == "" {
		return string(XForwardedFor)
	}
	return string(a.Header)
}

// walk returns the last hop that can be believed, beginning with the peer.
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
			// A trusted proxy on this machine is passed over; nobody else is
			// believed to be here.
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

// appendHops appends the addresses that the proxies wrote, the client's own claims
// first. A list in several lines is one list; a single value that
// does is none.
func (a ClientAddresses) appendHops(hops []string, lines [][]byte) []string {
	switch a.HeaderName() {
	case string(Forwarded):
		for _, line := range lines {
			elements, whole := splitQuoted(string(line), ',')
			if !whole {
				// A client that opens a quote would hide what the proxies add.
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

// splitQuoted splits text, except inside double quotes, and reports whether
// every quote is closed.
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

// forwardedFor returns the value of for= in one element of Forwarded, "" where
// it is missing or given twice.
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

// peerAddress returns the other end of the connection; where that has no
// address, as on a Unix socket, the unspecified one, which nothing trusts.
func peerAddress(rc *fasthttp.RequestCtx) netip.Addr { return peerOf(rc.RemoteAddr()) }

func peerOf(remote net.Addr) netip.Addr {
	peer, isTCP := remote.(*net.TCPAddr)
	if !isTCP {
		return netip.IPv6Unspecified()
	}
	return peer.AddrPort().Addr().Unmap().WithZone("")
}
