package forwardauth

import (
	"cmp"
	"path"
	"strings"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
)

// The headers in which trusted proxies describe the client's request. From other senders they
// are ignored. A gateway sends one of the two sets: the X-Forwarded- headers, as Traefik and Caddy
// do by themselves, or the X-Original- headers, as ingress-nginx does. X-Original-URL has the
// request's scheme and host, X-Original-Uri has none.
const (
	forwardedHost   = "X-Forwarded-Host"
	forwardedURI    = "X-Forwarded-Uri"
	forwardedMethod = "X-Forwarded-Method"
	originalURI     = "X-Original-Uri"
	originalURL     = "X-Original-URL"
	originalMethod  = "X-Original-Method"
	// authRedirect is where a login page returns to: ingress-nginx and oauth2-proxy put the target of
	// the request into it, unless the operator chose another place. It is read if nothing else
	// names the target.
	authRedirect = "X-Auth-Request-Redirect"
)

// targetHeaders are the headers that may hold the target of the client's request, the preferred
// first.
var targetHeaders = []string{forwardedURI, originalURI, originalURL, authRedirect}

// checkDescription returns an error if both sets of headers describe the request, and differently.
// A gateway overwrites only its own set, so the other is its client's, who would choose by it
// whether a policy applies.
func (b By) checkDescription(r request, target string) error {
	if !r.FromTrustedProxy() {
		return nil
	}
	uri, host := originalTarget(r)
	differs := func(forwarded, original string, plain func(string) string) bool {
		if original == "" { // most gateways send one set
			return false
		}
		value := r.Get(forwarded)
		return value != "" && value != original && plain(value) != plain(original)
	}
	name := ""
	switch {
	case differs(forwardedMethod, r.Get(originalMethod), strings.ToUpper):
		name = forwardedMethod
	case differs(forwardedHost, host, plainHost):
		name = forwardedHost
	case b.Name == "" && b.writtenTarget(r, target) == "" && differs(forwardedURI, uri, conditions.NormalizePath):
		name = forwardedURI
	default:
		return nil
	}
	return fault.New(fault.Malformed, "The request is described twice, and differently: by %s and by the X-Original- headers. "+
		"The gateway writes one of them and hands on its client's other; let it remove that.", name)
}

// originalTarget returns the target and the host of the client's request by the X-Original-
// headers, "" for each that they do not name.
func originalTarget(r request) (target, host string) {
	url := r.Get(originalURL)
	if _, rest, found := strings.Cut(url, "://"); found && !strings.HasPrefix(url, "/") {
		host = rest
		if i := strings.IndexAny(rest, "/?#"); i >= 0 {
			host = rest[:i]
		}
	}
	return cmp.Or(r.Get(originalURI), url), host
}

// hostOf returns the host name that the client requested, in lower case and without a port.
func hostOf(r request) string { return plainHost(authorityOf(r)) }

// authorityOf returns the host that the client requested, with its port if that was sent.
func authorityOf(r request) string {
	host := ""
	if r.FromTrustedProxy() {
		if host = r.Get(forwardedHost); host == "" {
			_, host = originalTarget(r)
		}
	}
	return cmp.Or(host, r.Host())
}

// plainHost returns a host in lower case and without a port.
func plainHost(host string) string {
	host = strings.ToLower(host)
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	return strings.TrimSuffix(host, ".")
}

// pathOf returns the normalized path of the client's request: as conditions normalize it, but
// without a trailing slash.
func (b By) pathOf(r request, target string) string {
	return path.Clean(conditions.NormalizePath(b.targetOf(r, target)))
}

// targetOf returns the target of the client's request: from the named header or, without one,
// from the query's target, the path after Path, or the first of targetHeaders. It is "" if the
// target is unknown.
func (b By) targetOf(r request, target string) string {
	if written := b.writtenTarget(r, target); written != "" {
		return written
	}
	if !r.FromTrustedProxy() {
		return ""
	}
	if b.Name != "" {
		return r.Get(b.Name)
	}
	for _, header := range targetHeaders {
		if value := r.Get(header); value != "" {
			return value
		}
	}
	return ""
}

// writtenTarget returns the target that the gateway wrote into the URL itself, "" for none, or if a
// header is named.
func (b By) writtenTarget(r request, target string) string {
	if b.Name != "" {
		return ""
	}
	if target != "" {
		return target
	}
	return strings.TrimPrefix(r.Path(), Path)
}

// methodOf returns the method of the client's request.
func methodOf(r request) string {
	if r.FromTrustedProxy() {
		if method := cmp.Or(r.Get(forwardedMethod), r.Get(originalMethod)); method != "" {
			return method
		}
	}
	return r.OriginalMethod()
}
