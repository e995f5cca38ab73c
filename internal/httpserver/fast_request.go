package httpserver

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"strings"
)

// The parser of the fast path in fast.go.

// fastRoute is a route whose common requests are answered on the fast path. Requests to a route
// with one method have a JSON body and few headers. Requests to a route for every method come
// from gateways: they have no body, may have a query, and have the headers of the gateway's
// client.
type fastRoute struct {
	*Route
	line     []byte               // the request line up to its version or parameter; for a route of every method, its path after a space
	hasParam bool                 // the path ends with a parameter
	hosts    func() *AllowedHosts // the result of Server.hostsOf
}

func newFastRoute(r *Route, hosts func() *AllowedHosts) fastRoute {
	f := fastRoute{Route: r, hosts: hosts}
	if f.isForwarded() {
		f.line = []byte(" " + r.Path)
		return f
	}
	path, _, hasParam := strings.Cut(r.Path, ":")
	f.line, f.hasParam = []byte(r.Method+" "+path), hasParam
	return f
}

// isForwarded reports whether the requests to the route come from gateways.
func (r *fastRoute) isForwarded() bool { return r.Method == AnyMethod }

// fastRequest is a parsed request. Its slices point into the bytes read.
type fastRequest struct {
	route                   *fastRoute
	method, query           []byte // only for a route of every method
	param                   []byte // at the end of the path, of a route that has one
	body                    []byte
	host, authorization, id []byte
	headers                 []headerLine // all headers, only for a route of every method
	seen                    fastHeader
}

// headerLine is one line of a header.
type headerLine struct{ name, value []byte }

// fastHeader is a set of headers that the server interprets.
type fastHeader uint8

const (
	seenHost fastHeader = 1 << iota
	seenLength
	seenType
	seenAuthorization
	seenID
	seenAgent
	seenConnection
)

var noLength = []byte("0")

const (
	maxFastMethod  = 16 // bytes
	maxFastHeaders = 64 // lines of a request to a route of every method
)

// parse reads the request at the start of p and returns its length in bytes. It returns 0 if
// the plain version must read the request. A request for the fast path has the request line of
// a route, headers in plain spelling and printable ASCII, no repeated header that the server
// interprets, and a body that was received completely. A name with "_" is not plain, since some
// program may read it as another name.
func (r *fastRequest) parse(routes []fastRoute, p []byte) (size int) {
	*r = fastRequest{headers: r.headers[:0]}
	at := 0
	for i := range routes {
		if at = r.requestLine(&routes[i], p); at > 0 {
			r.route = &routes[i]
			break
		}
	}
	if at == 0 {
		return 0
	}
	length, isForwarded := 0, r.route.isForwarded()
	for {
		end := bytes.IndexByte(p[at:], '\n') - 1
		if end < 0 || p[at+end] != '\r' {
			return 0
		}
		header := p[at : at+end]
		at += end + 2
		if end == 0 {
			break
		}
		colon := plainName(header)
		if colon == 0 || len(header) < colon+3 || header[colon] != ':' || header[colon+1] != ' ' {
			return 0
		}
		name, value := header[:colon], header[colon+2:]
		if value[0] == ' ' || value[len(value)-1] == ' ' || !isPrintable(value) {
			return 0
		}
		isValid := false
		if isForwarded {
			isValid = r.forwardedHeader(name, value)
		} else {
			isValid = r.header(name, value, &length)
		}
		if !isValid {
			return 0
		}
	}
	needed := seenHost | seenLength | seenType
	if isForwarded {
		needed = seenHost
		if method := string(r.method); r.seen&seenLength == 0 && method != http.MethodGet && method != http.MethodHead {
			r.headers = append(r.headers, headerLine{contentLength, noLength}) // fasthttp does the same
		}
	}
	if r.seen&needed != needed || len(p)-at < length {
		return 0
	}
	r.body = p[at : at+length]
	return at + length
}

// requestLine reads the request line at the start of p and returns its length with the CRLF, 0
// if the line is not for the route.
func (r *fastRequest) requestLine(route *fastRoute, p []byte) int {
	if !route.isForwarded() {
		if !bytes.HasPrefix(p, route.line) {
			return 0
		}
		at := len(route.line)
		if route.hasParam {
			size := plainParam(p[at:])
			if size == 0 {
				return 0
			}
			r.param = p[at : at+size]
			at += size
		}
		if !bytes.HasPrefix(p[at:], []byte(lineEnd)) {
			return 0
		}
		return at + len(lineEnd)
	}
	at := bytes.IndexByte(p[:min(len(p), maxFastMethod+1)], ' ')
	if at < 0 || !isPlainMethod(p[:at]) || !bytes.HasPrefix(p[at:], route.line) {
		return 0
	}
	r.method = p[:at]
	at += len(route.line)
	if at < len(p) && p[at] == '?' {
		at++
		end := bytes.IndexByte(p[at:], ' ')
		if end < 0 || !isPlainQuery(p[at:at+end]) {
			return 0
		}
		r.query = p[at : at+end]
		at += end
	}
	if !bytes.HasPrefix(p[at:], []byte(lineEnd)) {
		return 0
	}
	return at + len(lineEnd)
}

// lineEnd is the end of a request line.
const lineEnd = " HTTP/1.1\r\n"

// forwardedHeader reads one header of a gateway's request. It returns false if the plain
// version must read the request. Any header is allowed, also repeated, except those that HTTP
// defines for the connection or the message, and those of which fasthttp keeps only one line.
func (r *fastRequest) forwardedHeader(name, value []byte) bool {
	isValid := true
	switch len(name) {
	case len("TE"):
		isValid = !equalFold(name, "te")
	case len("Host"):
		if equalFold(name, "host") {
			r.host = value
			isValid = r.once(seenHost) && isPlainHost(value)
		}
	case len("Expect"):
		isValid = !equalFold(name, "expect")
	case len("Trailer"): // and Upgrade
		isValid = !equalFold(name, "trailer") && !equalFold(name, "upgrade")
	case len("Connection"): // and User-Agent, Keep-Alive
		switch {
		case equalFold(name, "connection"):
			isValid = r.once(seenConnection) && equalFold(value, "keep-alive")
		case equalFold(name, "user-agent"):
			isValid = r.once(seenAgent)
		case equalFold(name, "keep-alive"):
			isValid = false
		}
	case len("Traceparent"):
		isValid = !equalFold(name, "traceparent")
	case len("Content-Type"): // and X-Request-Id
		switch {
		case equalFold(name, "content-type"):
			isValid = r.once(seenType)
		case equalFold(name, "x-request-id"):
			r.id = value
			isValid = r.once(seenID) && isPlainID(value)
		}
	case len("Content-Length"):
		if equalFold(name, "content-length") {
			isValid = r.once(seenLength) && string(value) == "0"
		}
	case len("Transfer-Encoding"):
		isValid = !equalFold(name, "transfer-encoding")
	}
	r.headers = append(r.headers, headerLine{name, value})
	return isValid && len(r.headers) <= maxFastHeaders
}

// header reads one header, or returns false if the plain version must read the request.
func (r *fastRequest) header(name, value []byte, length *int) bool {
	bit := fastHeader(0)
	switch len(name) {
	case len("Host"):
		bit, r.host = seenHost, value
		return r.once(bit) && equalFold(name, "host") && isPlainHost(value)
	case len("Accept"):
		return equalFold(name, "accept")
	case len("User-Agent"): // and Connection
		return equalFold(name, "user-agent") || equalFold(name, "connection") && equalFold(value, "keep-alive")
	case len("Content-Type"): // and X-Request-Id
		if equalFold(name, "content-type") {
			return r.once(seenType) && (string(value) == "application/json" || equalFold(value, "application/json; charset=utf-8"))
		}
		r.id = value
		return r.once(seenID) && equalFold(name, "x-request-id") && isPlainID(value)
	case len("Authorization"):
		r.authorization = value
		return r.once(seenAuthorization) && equalFold(name, "authorization")
	case len("Content-Length"): // and Sec-Fetch-Mode
		if equalFold(name, "sec-fetch-mode") {
			return true
		}
		var valid bool
		*length, valid = shortNumber(value)
		return r.once(seenLength) && valid && equalFold(name, "content-length")
	case len("Accept-Encoding"): // and Accept-Language
		return equalFold(name, "accept-encoding") || equalFold(name, "accept-language")
	}
	return false
}

// once marks a header as seen and reports whether this is the first time.
func (r *fastRequest) once(bit fastHeader) bool {
	first := r.seen&bit == 0
	r.seen |= bit
	return first
}

// shortNumber reads a number of 1 to 5 digits without leading zeros.
func shortNumber(text []byte) (n int, valid bool) {
	if len(text) == 0 || len(text) > 5 || text[0] == '0' {
		return 0, false
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}

// equalFold reports whether text equals lower, ignoring case. lower may have lower-case
// letters, digits and "-/;= ".
func equalFold(text []byte, lower string) bool {
	if len(text) != len(lower) {
		return false
	}
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// isNamed reports whether a plain header name equals name, ignoring case. name may have
// letters, digits, "-" and "_".
func isNamed(plain []byte, name string) bool {
	if len(plain) != len(name) {
		return false
	}
	for i, c := range plain {
		if c|0x20 != name[i]|0x20 {
			return false
		}
	}
	return true
}

// plainName returns the length of the header name at the start of header, if it has only
// letters, digits and "-".
func plainName(header []byte) int {
	for i, c := range header {
		if !inPlainName[c] {
			return i
		}
	}
	return len(header)
}

var inPlainName = func() (in [256]bool) {
	for _, c := range "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" {
		in[c] = true
	}
	return in
}()

// plainParam returns the length of the parameter of a path at the start of text, if it has only letters, digits,
// "-" and "_".
func plainParam(text []byte) int {
	for i, c := range text {
		if c != '_' && !inPlainName[c] {
			return i
		}
	}
	return 0
}

// isPlainMethod reports whether a method has only upper-case letters.
func isPlainMethod(text []byte) bool {
	for _, c := range text {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return len(text) > 0
}

// isPlainQuery reports whether a query has only printable ASCII and cannot be read as the
// fragment or scheme of a URL.
func isPlainQuery(text []byte) bool {
	for _, c := range text {
		if c <= ' ' || c > '~' || c == '#' {
			return false
		}
	}
	return !bytes.Contains(text, []byte("://"))
}

// isPrintable reports whether text has only printable ASCII, eight bytes at a time.
func isPrintable(text []byte) bool {
	const each = 0x0101010101010101
	for ; len(text) >= 8; text = text[8:] {
		// One of these has the highest bit of a byte set if that byte is above '~' or below the
		// space.
		if x := binary.LittleEndian.Uint64(text); (x|(x+each)|(x-each*' '))&(each<<7) != 0 {
			return false
		}
	}
	for _, c := range text {
		if c-' ' > '~'-' ' {
			return false
		}
	}
	return true
}

// isPlainHost reports whether a host is a name or an IPv4 address, with or without a port, so
// that the plain version does not change it.
func isPlainHost(text []byte) bool {
	if at := bytes.LastIndexByte(text, ':'); at >= 0 {
		if _, valid := shortNumber(text[at+1:]); !valid {
			return false
		}
		text = text[:at]
	}
	for _, c := range text {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' {
			return false
		}
	}
	return len(text) > 0
}

func appendNumber(b []byte, n int) []byte {
	if n >= 10 {
		b = appendNumber(b, n/10)
	}
	return append(b, byte('0'+n%10))
}
