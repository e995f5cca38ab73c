package accesslog

import (
	"errors"
	"net/netip"
	"strings"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/proxies"
)

var (
	errNoHop     = errors.New("the list of forwarded addresses is empty or ends with no address, and no address of a client who is no trusted proxy is beside it")
	errOnlyProxy = errors.New("the request came from a trusted proxy, and no client's address is in its list")
)

// clientKeys makes the keys of lines from the fields that say where a request came from.
type clientKeys struct {
	cache   *keyCache
	trusted proxies.Trusted
	// isList says that the list of forwarded addresses makes the key, and not only behind a
	// trusted proxy: the operator has named it.
	isList bool
	// hasList says that the log has a list of forwarded addresses.
	hasList bool
	// isForwarded says that the list is a value of the header Forwarded.
	isForwarded bool
}

// newClientKeys returns the keys of the field called name; list is the name of the list of
// forwarded addresses, "" for none.
func newClientKeys(o *Options, kind, list string, isList bool) *clientKeys {
	return &clientKeys{
		cache: newKeyCache(o.Keys, kind), trusted: o.Proxies, hasList: list != "", isList: isList, isForwarded: isForwardedHeader(list),
	}
}

// key returns the key of a request from peer, with the list of forwarded addresses, nil for none.
// Whatever a client sends, the result equals that of proxies.Trusted.Client: the hop that the last
// trusted proxy saw.
func (c *clientKeys) key(peer, list []byte) (keys.Key, error) {
	if c.cache.kind != addressKind {
		return c.cache.key(peer)
	}
	if !c.hasList && len(c.trusted) == 0 {
		return c.cache.key(peer)
	}
	var few [8]string
	hops := few[:0]
	if isSet(list) {
		if c.isForwarded {
			hops = proxies.AppendForwarded(hops, string(list))
		} else {
			hops = proxies.AppendForwardedFor(hops, string(list))
		}
	}
	if c.isList {
		return c.ofList(hops, peer)
	}
	known := len(hops)
	if !isSet(peer) {
		return keys.Key{}, errNoKey
	}
	hops = proxies.AppendForwardedFor(hops, string(peer))
	last, isAddress := proxies.ParseHop(hops[len(hops)-1])
	if !isAddress {
		return c.cache.key(peer) // its error says what is wrong
	}
	client := c.trusted.Client(last, hops[:len(hops)-1])
	if client == last && known > 0 && c.trusted.Trusts(last) {
		return keys.Key{}, errOnlyProxy
	}
	return c.cache.parser.AddressKey(client), nil
}

// ofList returns the key of the client in a list that a trusted proxy has written. A request
// without a list came past the proxies, from peer.
func (c *clientKeys) ofList(hops []string, peer []byte) (keys.Key, error) {
	if n := len(hops); n > 0 {
		if last, isAddress := proxies.ParseHop(hops[n-1]); isAddress {
			return c.cache.parser.AddressKey(c.trusted.Client(last, hops[:n-1])), nil
		}
	}
	if addr, isAddress := proxies.ParseHop(string(peer)); isAddress && len(c.trusted) > 0 && !c.trusted.Trusts(addr) {
		return c.cache.parser.AddressKey(addr), nil
	}
	return keys.Key{}, errNoHop
}

// isSet reports whether a field has a value: servers write a dash for nothing.
func isSet(value []byte) bool { return len(value) > 0 && string(value) != "-" }

// isAddress reports whether a text is an address, with a port or without.
func isAddress(text []byte) bool {
	if len(text) > len("[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255%]:65535")+16 {
		return false
	}
	_, ok := proxies.ParseHop(string(text))
	return ok
}

// isForwardedList reports whether the field called name holds a header with a list of addresses.
func isForwardedList(name string) bool {
	name = headerOf(name)
	return name == "x-forwarded-for" || name == "forwarded-for" || name == "forwarded"
}

// isForwardedHeader reports whether the field called name holds the header Forwarded.
func isForwardedHeader(name string) bool { return headerOf(name) == "forwarded" }

// headerOf returns the header that programs write into the field called name: nginx calls it
// http_x_forwarded_for, Traefik request_X-Forwarded-For, Caddy request.headers.X-Forwarded-For.
func headerOf(name string) string {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
		name = name[dot+1:]
	}
	if header, found := strings.CutPrefix(name, "cs("); found { // of W3C Extended Log Format
		name = strings.TrimSuffix(header, ")")
	}
	return strings.TrimPrefix(strings.TrimPrefix(name, "http-"), "request-")
}

// lastAddress returns the last address of a list, without its port.
func lastAddress(value string) (netip.Addr, bool) {
	if comma := strings.LastIndexByte(value, ','); comma >= 0 {
		value = value[comma+1:]
	}
	return proxies.ParseHop(value)
}
