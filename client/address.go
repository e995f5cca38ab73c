package client

import (
	"net/http"
	"net/netip"

	"github.com/stint-dev/stint/client/internal/peer"
)

// AddressKey returns "ip:" and the address that a request comes from: that of
// the connection, whatever its headers say. Behind a proxy that is the proxy;
// see AddressKeyBehind.
func AddressKey(r *http.Request) string { return peer.Key(r.RemoteAddr) }

// KeyOfAddress returns the key of an address with or without its port, as AddressKey does. All texts that are none share
// one key.
func KeyOfAddress(address string) string { return peer.Key(address) }

// AddressKeyBehind returns what AddressKey does for requests that come through
// the proxies in trusted: the rightmost address in X-Forwarded-For that is not
// one of theirs. Any other request has the address of its connection. Do not trust a
// network that contains clients: they could then choose their own address.
func AddressKeyBehind(trusted ...netip.Prefix) func(*http.Request) string {
	proxies := peer.Proxies(trusted)
	return func(r *http.Request) string {
		return proxies.Key(r.RemoteAddr, r.Header.Values("X-Forwarded-For"))
	}
}
