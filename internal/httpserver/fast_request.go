package httpserver

import "bytes"

// What the fast path of fast.go reads.

// fastRequest is a request that parseFast has read; its parts are in the bytes read.
type fastRequest struct {
	body                    []byte
	host, authorization, id []byte
	seen                    fastHeader
}

// fastHeader is a set of the headers that mean something to a check.
type fastHeader uint8

const (
	seenHost fastHeader = 1 << iota
	seenLength
	seenType
	seenAuthorization
	seenID
)

// parseFast reads the request that p begins with and returns how many bytes it has, 0 if it
// is not one of the usual form: the given request line, headers that are known to mean
// nothing to a check or are given once in their plainest spelling, of printable ASCII, and a
// body that has come whole.
func parseFast(line, p []byte) (r fastRequest, size int) {
	if len(p) < len(line) || string(p[:len(line)]) != string(line) {
		return r, 0
	}
	length, at := 0, len(line)
	for {
		end := bytes.IndexByte(p[at:], '\n') - 1
		if end < 0 || p[at+end] != '\r' {
			return r, 0
		}
		header := p[at : at+end]
		at += end + 2
		if end == 0 {
			break
		}
		colon := bytes.IndexByte(header, ':')
		if colon < 0 || len(header) < colon+3 || header[colon+1] != ' ' || !isPrintable(header) {
			return r, 0
		}
		value := header[colon+2:]
		if value[0] == ' ' || value[len(value)-1] == ' ' {
			return r, 0
		}
		if valid := r.header(header[:colon], value, &length); !valid {
			return r, 0
		}
	}
	const needed = seenHost | seenLength | seenType
	if r.seen&needed != needed || len(p)-at < length {
		return r, 0
	}
	r.body = p[at : at+length]
	return r, at + length
}

// header takes one header, or returns false if the plain version must.
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

// once notes a header and reports whether it comes for the first time.
func (r *fastRequest) once(bit fastHeader) bool {
	first := r.seen&bit == 0
	r.seen |= bit
	return first
}

// shortNumber reads a number of 1 to 5 digits, the first of them not 0.
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

// equalFold reports whether text is lower but for the case of its letters. lower has
// letters in lower case, digits and "-/;= ".
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

func isPrintable(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// isPlainHost reports whether a host is a name or an IPv4 address, perhaps with a port, so
// that the plain version reads it as it is written.
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
