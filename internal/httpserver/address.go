package httpserver

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/proxies"
)

// ClientAddresses determines the client addresses of requests. The zero value trusts no header.
type ClientAddresses struct {
	// Proxies are the proxies whose header is trusted.
	Proxies proxies.Trusted
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
	if len(a.Proxies) == 0 || !a.Proxies.Trusts(peer) {
		return peer
	}
	return a.From(peer, rc.Request.Header.PeekAll(a.HeaderName()))
}

// From is Of for a request from peer, given the lines of the header that HeaderName names.
func (a ClientAddresses) From(peer netip.Addr, lines [][]byte) netip.Addr {
	if len(lines) == 0 || !a.Proxies.Trusts(peer) {
		return peer
	}
	var few [8]string
	client := a.Proxies.Client(peer, a.appendHops(few[:0], lines))
	if client.IsLoopback() {
		return netip.IPv6Unspecified()
	}
	return client
}

// Counted is From for the key of a check. It gives no privileges, so it is what the header of a
// trusted proxy says, a loopback address too: a visitor on the machine of the proxy has a key of
// its own.
func (a ClientAddresses) Counted(peer netip.Addr, lines [][]byte) netip.Addr {
	if len(lines) == 0 || !a.Proxies.Trusts(peer) {
		return peer
	}
	var few [8]string
	client, isNamed := a.Proxies.Named(peer, a.appendHops(few[:0], lines))
	if !isNamed && client.IsLoopback() {
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

// appendHops appends the addresses that the proxies wrote, the client's own claims first. A
// list on several lines is one list; a header with a single value must have one line.
func (a ClientAddresses) appendHops(hops []string, lines [][]byte) []string {
	switch a.HeaderName() {
	case string(Forwarded):
		for _, line := range lines {
			hops = proxies.AppendForwarded(hops, string(line))
		}
	case string(XForwardedFor):
		for _, line := range lines {
			hops = proxies.AppendForwardedFor(hops, string(line))
		}
	default:
		if len(lines) == 1 {
			hops = append(hops, string(lines[0]))
		}
	}
	return hops
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
