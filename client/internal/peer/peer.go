// Package peer finds out by which address a client is counted.
package peer

import (
	"net/netip"
	"strings"
)

// Unknown is the key of all who come by a connection without an address, as by a
// Unix socket: they are counted together rather than not at all.
const Unknown = "peer:unknown"

// Key returns the key of a connection's other end, written with its port or
// without.
func Key(remote string) string {
	addr, valid := parse(remote)
	if !valid {
		return Unknown
	}
	return keyOf(addr)
}

func keyOf(addr netip.Addr) string { return "ip:" + addr.String() }

// Proxies are the networks whose X-Forwarded-For is believed. The zero value
// believes nobody.
type Proxies []netip.Prefix

// Key returns the key of the client that sent a request through the proxies: of remote or,
// if that is a proxy, of the nearest hop that is not one. A hop that is not an address ends
// the search at the hop that reported it.
func (p Proxies) Key(remote string, forwarded []string) string {
	client, valid := parse(remote)
	if !valid {
		return Unknown
	}
	hops := strings.Split(strings.Join(forwarded, ","), ",")
	for i := len(hops) - 1; i >= 0 && p.trust(client); i-- {
		hop, valid := parse(strings.TrimSpace(hops[i]))
		if !valid {
			break
		}
		client = hop
	}
	return keyOf(client)
}

func (p Proxies) trust(addr netip.Addr) bool {
	for _, network := range p {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}

// parse reads "192.0.2.1", "192.0.2.1:80", "2001:db8::1", "[2001:db8::1]" and
// "[2001:db8::1]:80".
func parse(text string) (netip.Addr, bool) {
	if both, err := netip.ParseAddrPort(text); err == nil {
		return both.Addr().Unmap().WithZone(""), true
	}
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	if err != nil {
		return netip.Addr{}, false
	}
	return addr.Unmap().WithZone(""), true
}
