package conditions

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Request is what a caller says of a request, in the spelling in which conditions are
// compared. It is immutable. An attribute that was not sent is "", and no condition
// matches it.
type Request struct {
	values [attributeCount]string
	scope  string
	// said are the further values by their names, nil for none. It must not be changed.
	said map[string]string
}

// NewRequest returns a request with normalized attributes:
//
//   - the path without scheme, host, query and fragment, percent-decoded once, with "//",
//     "." and ".." resolved, beginning with /;
//   - method and agent in lower case;
//   - the host in lower case, without port and final dot.
//
// What is longer than an attribute's largest length is cut off. It is nil if there is
// no attribute at all.
func NewRequest(path, method, agent, host string) *Request {
	if path == "" && method == "" && agent == "" && host == "" {
		return nil
	}
	r := &Request{values: [attributeCount]string{Method: lower(method), Agent: lower(agent), Host: normalizeHost(host)}}
	if path != "" {
		r.values[Path] = NormalizePath(path)
	}
	for a := range r.values {
		if maxBytes := maxLength[a]; len(r.values[a]) > maxBytes {
			for !utf8.RuneStart(r.values[a][maxBytes]) && maxBytes > 0 {
				maxBytes--
			}
			r.values[a] = r.values[a][:maxBytes]
		}
	}
	return r
}

// RequestOf returns a request of which one attribute is known, in the spelling that Value
// returns.
func RequestOf(a Attribute, value string) *Request {
	r := &Request{}
	r.values[a] = value
	return r
}

// InScope returns r as a request of a scope, "" for none. r may be nil.
func (r *Request) InScope(scope string) *Request {
	if scope == "" {
		return r
	}
	scoped := Request{scope: scope}
	if r != nil {
		scoped.values, scoped.said = r.values, r.said
	}
	return &scoped
}

// WithValues returns r with further values by their names, which must not be changed
// afterwards. r may be nil.
func (r *Request) WithValues(values map[string]string) *Request {
	if len(values) == 0 {
		return r
	}
	with := Request{said: values}
	if r != nil {
		with.values, with.scope = r.values, r.scope
	}
	return &with
}

// Scope returns the scope that the caller says, "" for none. r may be nil.
func (r *Request) Scope() string {
	if r == nil {
		return ""
	}
	return r.scope
}

// IsInScope reports whether the caller says that the request is in a scope. Every request
// is in the scope "". r may be nil.
func (r *Request) IsInScope(scope string) bool {
	return scope == "" || r != nil && r.scope == scope
}

// Value returns the normalized value of an attribute, "" if it was not sent.
func (r *Request) Value(a Attribute) string {
	if r == nil {
		return ""
	}
	return r.values[a]
}

// Named returns the value of a name that the caller said: of values or those of r, or else
// an attribute of r; "" for nothing. A path is in the same spelling from either.
func (r *Request) Named(name string, values map[string]string) string {
	attribute, value := slices.Index(names, name), values[name]
	if value == "" && r != nil {
		value = r.said[name]
	}
	if value != "" {
		if attribute >= 0 {
			var said [attributeCount]string
			said[attribute] = value
			return NewRequest(said[Path], said[Method], said[Agent], said[Host]).values[attribute]
		}
		return value
	}
	if attribute < 0 {
		return ""
	}
	return r.Value(Attribute(attribute)) //nolint:gosec // at most three
}

// NormalizePath returns the path of a request target in one spelling; see NewRequest. A
// final slash stays.
func NormalizePath(target string) string {
	if isNormalPath(target) {
		return target
	}
	if at := strings.IndexAny(target, "?#"); at >= 0 {
		target = target[:at]
	}
	if _, rest, isAbsolute := strings.Cut(target, "://"); isAbsolute && !strings.HasPrefix(target, "/") {
		_, path, _ := strings.Cut(rest, "/")
		target = "/" + path
	}
	if decoded, err := url.PathUnescape(target); err == nil {
		target = decoded
	}
	return "/" + strings.Join(resolve(strings.Split(target, "/")), "/")
}

// resolve drops empty segments and "." and resolves ".."; the last one may be empty,
// for a path that ends in a slash.
func resolve(segments []string) []string {
	kept := segments[:0]
	for i, s := range segments {
		isLast := i == len(segments)-1
		switch s {
		case "", ".":
		case "..":
			kept = kept[:max(0, len(kept)-1)]
		default:
			kept = append(kept, s)
			continue
		}
		if isLast && len(kept) > 0 {
			kept = append(kept, "")
		}
	}
	return kept
}

// isNormalPath reports whether NormalizePath would change nothing. It may report
// false for a path that stays the same.
func isNormalPath(p string) bool {
	if p == "" || p[0] != '/' {
		return false
	}
	for i := range len(p) {
		switch p[i] {
		case '%', '?', '#':
			return false
		case '/':
			if i+1 < len(p) && (p[i+1] == '/' || p[i+1] == '.' && (i+2 == len(p) || p[i+2] == '/' || p[i+2] == '.')) {
				return false
			}
		}
	}
	return true
}

func normalizeHost(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	return lower(strings.TrimSuffix(host, "."))
}
