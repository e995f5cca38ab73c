package conditions

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Request is a caller's description of a request, in the normalized form that is compared with
// conditions. It is immutable. An attribute that was not sent is "", and no condition matches it.
type Request struct {
	values [attributeCount]string
	// otherPaths are the path as read by programs that do not decode %2F to a slash, that know no
	// parameters of segments, or that remove those after they decode, without what is the same. Any
	// of them may meet a condition.
	otherPaths []string
	target     string // as sent, with its query, which is compared and never recorded
	query      string // of the target
	// isQueryKnown reports that parameters that are not in query were not sent.
	isQueryKnown bool
	named        []namedValues
	signed       *Signed // nil for a request without signatures
	scope        string
	// said are the further values by name, nil for none. The map must not be changed.
	said map[string]string
}

// NewRequest returns a request with normalized attributes:
//
//   - the path without scheme, host, query, fragment and the parameters of segments (";" and what
//     follows, which Tomcat and Spring for example do not route by), with each valid escape decoded
//     once, "//", "." and ".." resolved, beginning with /. Programs differ in whether %2F is a slash
//     and ";" begins a parameter, so the other readings are kept, and any may meet a condition;
//   - method and agent in lower case;
//   - the host in lower case, without port and final dot.
//
// It truncates attributes to their maximum length. It returns nil if there is no attribute at
// all.
//
// Saying adds the other attributes.
func NewRequest(path, method, agent, host string) *Request {
	if path == "" && method == "" && agent == "" && host == "" {
		return nil
	}
	r := &Request{values: [attributeCount]string{1: lower(method), 2: lower(agent), 3: NormalizeHost(host)}}
	if path != "" {
		r.values[Path.index], r.otherPaths = readPath(path)
		r.target = cut(path, MaxPath)
		if _, query, has := strings.Cut(path, "?"); has {
			r.query, _, _ = strings.Cut(query, "#")
			r.isQueryKnown = true
		}
	}
	for a := range r.values[:Host.index+1] {
		r.values[a] = cut(r.values[a], maxLength[a])
	}
	for i := range r.otherPaths {
		r.otherPaths[i] = cut(r.otherPaths[i], MaxPath)
	}
	return r
}

// cut returns at most the first maxBytes bytes of text, without splitting a rune.
func cut(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	for maxBytes > 0 && !utf8.RuneStart(text[maxBytes]) {
		maxBytes--
	}
	return text[:maxBytes]
}

// namedValues are the values of a header, a parameter or a cookie: each of those that were sent, any of
// which may meet a condition; none if it is missing.
type namedValues struct {
	attribute Attribute
	values    []string
}

// The readings of a header, a parameter or a cookie that are no values of it: it is known not to have been
// sent, so that no pattern matches it and it meets those with "not"; or it has too many values, of which
// some may match any pattern and others may not, so that it meets all patterns, with and without "not",
// except the one of what was not sent. No value is as long.
var (
	missing = strings.Repeat("-", MaxValue+1)
	tooMany = strings.Repeat("+", MaxValue+1)
)

// maxRepeated is how many different values of one header, parameter or cookie are compared.
const maxRepeated = 128

// Saying returns r with the values of an attribute that is said of the request. Of a header, a parameter
// or a cookie, no value says that it was not sent; one that was never said meets no condition. A header
// or a cookie that is empty is missing too, as it says as little. Any other attribute has one value: with
// several it meets all conditions. r may be nil.
func (r *Request) Saying(a Attribute, values ...string) *Request {
	with := Request{}
	if r != nil {
		with = *r
	}
	with.named = slices.Clip(with.named)
	with.Say(a, values...)
	return &with
}

// SayQuery is SayingQuery for who has made r, and has not handed it on yet. room is how many headers,
// parameters and cookies Say will be called for.
func (r *Request) SayQuery(room int) {
	r.isQueryKnown = true
	r.named = slices.Grow(r.named, room)
}

// Say is Saying for who has made r, and has not handed it on yet.
func (r *Request) Say(a Attribute, values ...string) {
	if !a.isNamed() {
		switch len(values) {
		case 0:
		case 1:
			r.values[a.index] = cut(a.fold(values[0]), a.MaxLength())
		default: // one of them may be the client's
			r.values[a.index] = tooMany
		}
		return
	}
	if a.index != queryIndex && slices.Contains(values, "") {
		values = slices.DeleteFunc(slices.Clone(values), func(value string) bool { return value == "" })
	}
	r.named = append(r.named, namedValues{a, different(values)})
}

// different returns the different values, and tooMany behind maxRepeated of them.
func different(values []string) []string {
	var kept []string
	for _, value := range values {
		value = cut(value, MaxValue)
		switch {
		case slices.Contains(kept, value):
		case len(kept) == maxRepeated:
			return append(kept, tooMany)
		default:
			kept = append(kept, value)
		}
	}
	return kept
}

// SayingQuery returns r with the query of its target known, so that a parameter that is not in it is
// missing; without that it is known only if the target has one. r may be nil.
func (r *Request) SayingQuery() *Request {
	with := Request{}
	if r != nil {
		with = *r
	}
	with.isQueryKnown = true
	return &with
}

// queryValues returns the values of a parameter of the query of the target.
func (r *Request) queryValues(name string) []string {
	var values []string
	for pair := range strings.SplitSeq(r.query, "&") {
		of, value, isPair := strings.Cut(pair, "=")
		if (of != "" || isPair) && unescape(of) == name {
			values = append(values, unescape(value))
		}
	}
	return different(values)
}

// unescape decodes a name or a value of a query; invalid escapes stay as they are.
func unescape(text string) string {
	if strings.IndexByte(text, '+') >= 0 {
		text = strings.ReplaceAll(text, "+", " ")
	}
	decoded, _ := decode(text, false)
	return decoded
}

// valuesOf returns the values of a header, a parameter or a cookie, and whether anything is known of it.
func (r *Request) valuesOf(a Attribute) (values []string, isKnown bool) {
	for i := range r.named {
		if r.named[i].attribute == a {
			return r.named[i].values, true
		}
	}
	if a.index == queryIndex && r.isQueryKnown {
		return r.queryValues(a.name), true
	}
	return nil, false
}

// Says reports whether anything is known of an attribute: its value, or that it was not sent. r may be nil.
func (r *Request) Says(a Attribute) bool {
	switch {
	case r == nil:
		return false
	case a.isNamed():
		_, isKnown := r.valuesOf(a)
		return isKnown
	}
	return r.values[a.index] != ""
}

// readings returns the values of an attribute that are compared with patterns, none if it was not
// said.
func (r *Request) readings(a Attribute) iter.Seq[string] {
	return func(yield func(string) bool) {
		if a.isNamed() {
			values, isKnown := r.valuesOf(a)
			for _, value := range values {
				if !yield(lower(value)) {
					return
				}
			}
			if isKnown && len(values) == 0 {
				yield(missing)
			}
			return
		}
		if r.values[a.index] == "" || !yield(r.values[a.index]) || a != Path {
			return
		}
		for _, other := range r.otherPaths {
			if !yield(other) {
				return
			}
		}
	}
}

// maxDecoded is how many times a target is decoded in a row: probes escape their escapes.
const maxDecoded = 3

// sent returns the target as it was sent and as it is after each decoding of its escapes, before "."
// and ".." are resolved and parameters removed, in lower case. It has its query. An absolute URI
// stays one if its host is not the request's own, or, where that is not known, is one that searches for open
// proxies ask for.
func (r *Request) sent() []string {
	target := r.target
	if target == "" {
		target = r.values[Path.index]
	}
	if target == "" {
		return nil
	}
	if scheme, rest, isAbsolute := strings.Cut(target, "://"); isAbsolute && !strings.ContainsAny(scheme, "/?") {
		authority, path, _ := strings.Cut(rest, "/")
		host, asked := r.values[Host.index], NormalizeHost(authority)
		if host == "" && !isForeign(asked) || host == asked {
			target = "/" + path
		}
	}
	all := []string{lower(target)}
	for range maxDecoded {
		decoded, _ := decode(all[len(all)-1], false)
		if decoded = lower(decoded); decoded == all[len(all)-1] {
			break
		}
		all = append(all, decoded)
	}
	return all
}

// foreign are hosts that searches for open proxies ask for, with all below them: those that show the address
// that asks, and the best known sites.
var foreign = []string{
	"api64.ipify.org", "azenv.net", "baidu.com", "bing.com", "checkip.amazonaws.com", "checkip.dyndns.org", "cloudflare.com", "cn.bing.com", "example.com", "facebook.com", "google.com",
	"httpbin.org", "icanhazip.com", "ident.me", "ifconfig.co", "ifconfig.io", "ifconfig.me", "ip-api.com", "ip.sb", "ip138.com", "ip.me", "ipecho.net", "ipify.org", "ipinfo.io",
	"ip234.in", "l2.io", "microsoft.com", "myip.com", "myip.ipip.net", "proxyjudge.info", "proxyjudge.us", "qq.com", "showmyip.com", "sohu.com", "whatismyip.com", "wikipedia.org", "yahoo.com",
	"yandex.ru", "youtube.com",
}

func isForeign(host string) bool {
	return slices.ContainsFunc(foreign, func(f string) bool {
		return strings.HasSuffix(host, f) && (len(host) == len(f) || host[len(host)-len(f)-1] == '.')
	})
}

func withoutQuery(target string) string {
	if at := strings.IndexAny(target, "?#"); at >= 0 {
		return target[:at]
	}
	return target
}

// RequestOf returns a request with one attribute, whose value must be normalized like those of
// Value.
func RequestOf(a Attribute, value string) *Request {
	r := &Request{}
	r.values[a.index] = value
	return r
}

// InScope returns r with a scope, "" for none. r may be nil.
func (r *Request) InScope(scope string) *Request {
	if scope == "" {
		return r
	}
	scoped := Request{}
	if r != nil {
		scoped = *r
	}
	scoped.scope = scope
	return &scoped
}

// WithValues returns r with further values by name. The map must not be changed afterwards. r may
// be nil.
func (r *Request) WithValues(values map[string]string) *Request {
	if len(values) == 0 {
		return r
	}
	with := Request{}
	if r != nil {
		with = *r
	}
	with.said = values
	return &with
}

// HasValues reports whether r has values besides its attributes. r may be nil.
func (r *Request) HasValues() bool { return r != nil && len(r.said) > 0 }

// LoginScope is the scope of requests that say none and post to a path of the list logins: most callers that
// know the path know no scopes.
const LoginScope = "login"

var logins = sync.OnceValue(func() When {
	when, err := Parse(Texts{"path": {"@logins"}, "method": {"POST"}})
	if err != nil {
		panic(err)
	}
	return when
})

// Scope returns the scope of the request, "" for none. r may be nil.
func (r *Request) Scope() string {
	switch {
	case r == nil:
		return ""
	case r.scope == "" && r.values[Method.index] == "post" && logins().Meets(r):
		return LoginScope
	}
	return r.scope
}

// IsInScope reports whether the request has that scope. Every request is in the scope "". r may
// be nil.
func (r *Request) IsInScope(scope string) bool {
	return scope == "" || r.Scope() == scope
}

// Value returns the normalized value of an attribute, "" if it was not sent; of several the first.
// r may be nil.
func (r *Request) Value(a Attribute) string {
	switch {
	case r == nil:
		return ""
	case !a.isNamed() && r.values[a.index] == tooMany:
		return ""
	case !a.isNamed():
		return r.values[a.index]
	}
	if values, _ := r.valuesOf(a); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Found is what a node finds by itself of a request, by its address and its agent. An attribute that
// is "" is not known.
type Found struct{ Country, ASN, Bot, Category, Verified string }

// With returns r with what was found. r may be nil.
func (r *Request) With(f Found) *Request {
	if f == (Found{}) {
		return r
	}
	with := Request{}
	if r != nil {
		with = *r
	}
	with.values[Country.index], with.values[ASN.index] = f.Country, f.ASN
	with.values[Bot.index], with.values[Category.index], with.values[Verified.index] = f.Bot, f.Category, f.Verified
	return &with
}

// Named returns the value with that name: from values, from the further values of r, or else from
// the attributes of r; "" if there is none. Attributes are normalized, whatever their source.
func (r *Request) Named(name string, values map[string]string) string {
	value := values[name]
	if value == "" && r != nil {
		value = r.said[name]
	}
	if value == "" && r == nil {
		return ""
	}
	a, err := parseKnown(name)
	switch {
	case err != nil:
		return value
	case value == "":
		return r.Value(a)
	case a.index <= Host.index:
		var said [4]string
		said[a.index] = value
		return NewRequest(said[0], said[1], said[2], said[3]).values[a.index]
	}
	if a.isNamed() {
		return value
	}
	return a.fold(value)
}

// parseKnown is ParseAttribute without the text of an error, which it would cost to make.
func parseKnown(name string) (Attribute, error) {
	if slices.Index(names[:attributeCount], name) < 0 && strings.IndexByte(name, ':') < 0 {
		return Attribute{}, errNoAttribute
	}
	return ParseAttribute(name)
}

var errNoAttribute = errors.New("is not an attribute of a request")

// NormalizePath returns the normalized path of a request target; see NewRequest. It decodes %2F
// to a slash. It keeps a final slash.
func NormalizePath(target string) string {
	path, _ := readPath(target)
	return path
}

// readPath returns the normalized path of a request target, and the different paths as which other
// programs read it.
func readPath(target string) (path string, others []string) {
	if isNormalPath(target) {
		return target, nil
	}
	if target = withoutQuery(target); isNormalPath(target) {
		return target, nil
	}
	if _, rest, isAbsolute := strings.Cut(target, "://"); isAbsolute && !strings.HasPrefix(target, "/") {
		_, path, _ := strings.Cut(rest, "/")
		target = "/" + path
	}
	add := func(other string) {
		if other != path && !slices.Contains(others, other) {
			others = append(others, other)
		}
	}
	// Programs that know parameters remove them before they decode: a %2F in one ends none.
	bare, _ := decode(withoutParameters(target), false)
	path = resolve(withoutParameters(bare))
	decoded, hasSlash := decode(target, false)
	add(resolve(decoded))
	if hasSlash {
		add(resolve(bare))
		add(resolve(withoutParameters(decoded)))
		decoded, _ = decode(target, true)
		add(resolve(withoutParameters(decoded)))
		add(resolve(decoded))
	}
	return path, others
}

// withoutParameters removes the parameters of each segment of a path.
func withoutParameters(path string) string {
	if strings.IndexByte(path, ';') < 0 {
		return path
	}
	kept := make([]byte, 0, len(path))
	isParameter := false
	for i := range len(path) {
		switch path[i] {
		case ';':
			isParameter = true
		case '/':
			isParameter = false
		}
		if !isParameter {
			kept = append(kept, path[i])
		}
	}
	return string(kept)
}

// decode decodes each valid percent escape once. Like lenient programs, it keeps invalid escapes
// as they are, so that an invalid one does not hide the rest of a path. With keepSlash it writes
// an escaped slash as %2F. hasSlash reports whether there is an escaped slash.
func decode(target string, keepSlash bool) (decoded string, hasSlash bool) {
	if strings.IndexByte(target, '%') < 0 {
		return target, false
	}
	b := make([]byte, 0, len(target))
	for i := 0; i < len(target); i++ {
		high, low := -1, -1
		if target[i] == '%' && i+2 < len(target) {
			high, low = digit(target[i+1]), digit(target[i+2])
		}
		if high < 0 || low < 0 {
			b = append(b, target[i])
			continue
		}
		i += 2
		c := byte(high<<4 | low) //nolint:gosec // two digits
		hasSlash = hasSlash || c == '/'
		if c == '/' && keepSlash {
			b = append(b, "%2F"...)
		} else {
			b = append(b, c)
		}
	}
	return string(b), hasSlash
}

// digit returns the value of a hexadecimal digit, -1 for another byte.
func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// resolve removes empty segments and ".", and resolves "..". It keeps a final slash. The result
// begins with a slash.
func resolve(path string) string {
	segments := strings.Split(path, "/")
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
	return "/" + strings.Join(kept, "/")
}

// isNormalPath reports whether NormalizePath would change nothing. It may return false for a path
// that is normalized already.
func isNormalPath(p string) bool {
	if p == "" || p[0] != '/' {
		return false
	}
	for i := range len(p) {
		switch p[i] {
		case '%', '?', '#', ';':
			return false
		case '/':
			if i+1 < len(p) && (p[i+1] == '/' || p[i+1] == '.' && (i+2 == len(p) || p[i+2] == '/' || p[i+2] == '.')) {
				return false
			}
		}
	}
	return true
}

// NormalizeHost returns a host in lower case, without its port and without a dot at its end.
func NormalizeHost(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	return lower(strings.TrimSuffix(host, "."))
}
