package httpserver

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
)

// AllowedHosts are the host names that a listener accepts. Addresses and localhost are always
// allowed, because a page of another site cannot be served under them. A name that an attacker
// points at this machine is refused, so that the attacker's page cannot send requests from a
// browser on this network (DNS rebinding).
type AllowedHosts struct {
	any      bool
	names    []string // in lower case
	suffixes []string // ".example.com" for "*.example.com"
}

// ParseAllowedHosts reads host names separated by commas, without ports:
// "stint.example.com", "*.example.com" for every name below it, "*" for all.
func ParseAllowedHosts(text string) (AllowedHosts, error) {
	var hosts AllowedHosts
	for part := range strings.SplitSeq(text, ",") {
		part = strings.ToLower(strings.TrimSuffix(strings.TrimSpace(part), "."))
		switch suffix, isSuffix := strings.CutPrefix(part, "*."); {
		case part == "":
		case part == "*":
			hosts.any = true
		case isSuffix && isHostName(suffix):
			hosts.suffixes = append(hosts.suffixes, "."+suffix)
		case isHostName(part):
			hosts.names = append(hosts.names, part)
		default:
			return AllowedHosts{}, fmt.Errorf("%q is not the name of a host; write names without ports, for example stint.example.com, *.example.com, or * for every name", part)
		}
	}
	return hosts, nil
}

func isHostName(text string) bool {
	if text == "" || len(text) > 253 || strings.HasPrefix(text, ".") || strings.Contains(text, "..") {
		return false
	}
	for i := range len(text) {
		if c := text[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return true
}

// String returns the names in the syntax of ParseAllowedHosts.
func (h AllowedHosts) String() string {
	all := slices.Clone(h.names)
	for _, suffix := range h.suffixes {
		all = append(all, "*"+suffix)
	}
	if h.any {
		all = append(all, "*")
	}
	return strings.Join(all, ", ")
}

// Allows reports whether the host of a request is allowed. An HTTP/1.0 request without a host
// is allowed: no browser sends one.
func (h AllowedHosts) Allows(rc *fasthttp.RequestCtx) bool { return h.allows(rc.Request.Host()) }

// AllowsHost is Allows for a host with or without a port.
func (h AllowedHosts) AllowsHost(host string) bool { return h.allows([]byte(host)) }

func (h AllowedHosts) allows(host []byte) bool {
	if isLocalOrAddress(host) || h.any {
		return true
	}
	name := strings.ToLower(string(hostOnly(host)))
	name = strings.TrimSuffix(name, ".")
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || h.Lists(name)
}

// Lists reports whether a name without a port is among the names themselves: localhost and addresses are
// only where they are listed.
func (h AllowedHosts) Lists(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name != "" && (h.any || slices.Contains(h.names, name)) {
		return true
	}
	return slices.ContainsFunc(h.suffixes, func(suffix string) bool {
		return len(name) > len(suffix) && strings.HasSuffix(name, suffix)
	})
}

var localhost = []byte("localhost")

// isLocalOrAddress reports whether a host, with or without a port, is localhost or an address.
// Browsers read every name of only digits and dots as an address.
func isLocalOrAddress(host []byte) bool {
	if len(host) == 0 || host[0] == '[' {
		return true
	}
	host = hostOnly(host)
	for _, c := range host {
		if (c < '0' || c > '9') && c != '.' {
			return bytes.Equal(host, localhost)
		}
	}
	return true
}

// hostOnly returns a host without its port.
func hostOnly(host []byte) []byte {
	if at := bytes.IndexByte(host, ':'); at >= 0 {
		return host[:at]
	}
	return host
}

// HasPlainTarget reports whether the target of a request is a path or "*", or a URL with the
// same host as the header Host. Otherwise a proxy and this server could read different hosts.
func HasPlainTarget(rc *fasthttp.RequestCtx) bool {
	target := rc.Request.Header.RequestURI()
	if len(target) > 0 && target[0] == '/' || string(target) == "*" {
		return true
	}
	for _, scheme := range []string{"http://", "https://"} {
		if len(target) > len(scheme) && strings.EqualFold(string(target[:len(scheme)]), scheme) {
			authority, _, _ := bytes.Cut(target[len(scheme):], []byte("/"))
			authority, _, _ = bytes.Cut(authority, []byte("?"))
			return len(authority) > 0 && bytes.EqualFold(authority, rc.Request.Header.Host())
		}
	}
	return false
}
