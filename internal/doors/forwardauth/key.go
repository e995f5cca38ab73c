package forwardauth

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
)

// The headers in which a trusted proxy describes the client's request. They are
// ignored from anybody else.
const (
	forwardedHost   = "X-Forwarded-Host"
	forwardedURI    = "X-Forwarded-Uri"
	forwardedMethod = "X-Forwarded-Method"
)

// maxPlain is the longest text that a key holds as it is, in bytes; a longer one
// is hashed. It leaves room for the kind of the key.
const maxPlain = 256

// appendChecks appends one check for each key of the request. A header or cookie
// that the request does not have gives the address's key in its place, so that
// leaving it out lifts no limit. hasConditional reports whether policies ask about the
// request itself.
func (q *Query) appendChecks(checks []gate.Check, r request, parser keys.Parser, hasConditional bool) ([]gate.Check, error) {
	check := gate.Check{Policy: q.Policy, Cost: max(q.Cost, 1), Detail: true, Source: q.Source, ID: q.id(r)}
	if hasConditional || q.Scope != "" {
		check.Request = q.clientRequest(r)
	}
	by := q.By
	if len(by) == 0 {
		by = onlyIP
	}
	for _, b := range by {
		key, err := b.key(r, parser, q.Target)
		if err != nil {
			return checks, err
		}
		if slices.ContainsFunc(checks, func(other gate.Check) bool { return other.Key == key }) {
			continue
		}
		check.Key = key
		checks = append(checks, check)
	}
	return checks, nil
}

var onlyIP = []By{{Kind: ByIP}}

// clientRequest returns what is known of the client's request, with the query's scope. The
// headers of a proxy that is not trusted say nothing of it.
func (q *Query) clientRequest(r request) *conditions.Request {
	by := By{Kind: ByPath}
	for _, b := range q.By {
		if b.Kind == ByPath {
			by = b
		}
	}
	return conditions.NewRequest(by.targetOf(r, q.Target), methodOf(r), r.Get("User-Agent"), hostOf(r)).InScope(q.Scope)
}

// id returns the id that the proxy gave the request, "" for none. One that is too
// long is hashed, since two requests must not share one.
func (q *Query) id(r request) string {
	if q.IDHeader == "" || !r.FromTrustedProxy() {
		return ""
	}
	id := r.Get(q.IDHeader)
	if id == "" {
		return ""
	}
	return hash(id)
}

// key returns the key of one part of the request.
func (b By) key(r request, parser keys.Parser, target string) (keys.Key, error) {
	switch b.Kind {
	case ByHeader:
		if value := r.Get(b.Name); value != "" {
			return parser.Key("header:" + strings.ToLower(b.Name) + ":" + hash(value))
		}
	case ByPlainHeader:
		if value := r.Get(b.Name); value != "" {
			return parser.Key("header:" + strings.ToLower(b.Name) + ":" + plain(value))
		}
	case ByCookie:
		if value := r.Cookie(b.Name); value != "" {
			return parser.Key("cookie:" + b.Name + ":" + hash(value))
		}
	case ByHost:
		return parser.Key("host:" + plain(hostOf(r)))
	case ByPath:
		return parser.Key("path:" + plain(b.pathOf(r, target)))
	case ByMethod:
		return parser.Key("method:" + plain(methodOf(r)))
	}
	key := parser.AddressKey(r.ClientAddress())
	if key.IsZero() {
		return key, fault.New(fault.Invalid, "The address of the client is not known.")
	}
	return key, nil
}

// hash returns 128 bits of SHA-256 in hex, as
// "printf %s VALUE | sha256sum | cut -c1-32" does, so that operators find the key
// of a value that they know.
func hash(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:16])
}

// plain returns a text as keys hold it: what is long, or would need escaping, is
// hashed.
func plain(text string) string {
	if text == "" || len(text) > maxPlain || escape.Log(text) != text {
		return "sha256-" + hash(text)
	}
	return strings.Clone(text)
}

// hostOf returns the host name that the client asked for, in lower case and
// without a port.
func hostOf(r request) string {
	host := ""
	if r.FromTrustedProxy() {
		host = r.Get(forwardedHost)
	}
	if host == "" {
		host = r.Host()
	}
	host = strings.ToLower(host)
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	return strings.TrimSuffix(host, ".")
}

// pathOf returns the path of the client's request in one spelling, that of conditions but
// without a slash at its end.
func (b By) pathOf(r request, target string) string {
	return path.Clean(conditions.NormalizePath(b.targetOf(r, target)))
}

// targetOf returns the target of the client's request: that of the named header or,
// without one, of the query's target, what follows Path, or that of X-Forwarded-Uri. It
// is "" if none is known.
func (b By) targetOf(r request, target string) string {
	if b.Name == "" && target == "" {
		if below := strings.TrimPrefix(r.Path(), Path); below != "" {
			return below
		}
	}
	if b.Name == "" && target != "" {
		return target
	}
	if !r.FromTrustedProxy() {
		return ""
	}
	return r.Get(cmp.Or(b.Name, forwardedURI))
}

// methodOf returns the method of the client's request.
func methodOf(r request) string {
	if r.FromTrustedProxy() {
		if method := r.Get(forwardedMethod); method != "" {
			return method
		}
	}
	return r.OriginalMethod()
}
