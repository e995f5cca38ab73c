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

// AddressKeyBehind returns what AddressKey does for requests that come through
// the proxies in trusted: the nearest address in X-Forwarded-For that is none of
// theirs, read from the right. A request that comes from elsewhere is known by its
// connection. Name no network that clients are in: they would choose their own
// address.
func AddressKeyBehind(trusted ...netip.Prefix) func(*http.Request) string {
	proxies := peer.Proxies(trusted)
	return func(r *http.Request) string {
		return proxies.Key(r.RemoteAddr, r.Header.Values("X-Forwarded-For"))
	}
}
